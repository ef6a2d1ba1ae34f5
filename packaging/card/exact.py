"""Every mode, with 0, some and all blocks on the card, writes the text of plain decoding there.

Also how far a forward's logits are from the CPU's.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from card.models import config_of, opened
from card.steps import ROOT, Check

TARGET = ROOT / "tests" / "models" / "duotail-7m"
DRAFT = ROOT / "tests" / "models" / "duotail-1m-draft"
PROMPTS = ROOT / "tests" / "everyday_prompts.txt"
_TOKENS = 24


@dataclass(frozen=True)
class Placement:
    """A mode, blocks on the card ("all": every one), and how tokens are drawn."""

    mode: str
    layers: str | None
    temperature: float = 0.0


PLACEMENTS = (
    Placement("dovetail", "all"),
    Placement("dovetail", "4"),
    Placement("dovetail", "0"),
    Placement("duo", None),
    Placement("cpu", None),
    Placement("dovetail", "all", 0.8),
    Placement("duo", None, 0.8),
)
TOLERANCES = {"webgpu": {"f32": 2e-4, "": 3e-2}, "torch": {"f32": 2e-2, "": 4e-2}}
"""Of the logits' norm; "": weights of fewer bits. PyTorch multiplies them by 16-bit floats, the CPU
by 8 bits."""


def run(check: Check, stack: str) -> None:
    """Compare the texts of all placements, then logits."""
    said = []
    for placed in PLACEMENTS:
        if check.left < 5:
            check.emit("left out", placement=placed.mode, why="no time left")
            continue
        said.append(_placement(check, stack, placed))
        check.say(", ".join(said))
    for wanted in ("f32", "q4_0", "q4_k_m", "q8_0"):
        if check.left < 5:
            break
        said.append(_logits(check, stack, wanted))
        check.say(", ".join(said))


def _placement(check: Check, stack: str, placed: Placement) -> str:
    from engine.bench.harness import PLAIN, MeasuredStrategy, figures, measure
    from engine.bench.pair_writer import PairWriter, without_draft
    from engine.bench.prompts import read_prompts
    from engine.commands import Load, Mode
    from engine.loading.devices import DeviceManager
    from engine.loading.load import load
    from engine.loading.planned_load import plan_load
    from engine.request import SamplingParams

    name = f"{placed.mode} {placed.layers or ''} {placed.temperature or ''}".strip()
    simulated = check.rehearse and stack == "torch"
    layers = None if placed.layers is None else -1 if placed.layers == "all" else int(placed.layers)
    command = Load(
        model=Path(TARGET),
        draft=Path(DRAFT),
        mode=Mode(placed.mode),
        layers_on_gpu=layers,
        simulate_gpu=1 << 30 if simulated else None,
        device=None if simulated else check.device(stack),
    )
    manager = DeviceManager()
    try:
        machine = manager.look(command.simulate_gpu, command.device)
        pair = load(plan_load(command, machine, manager.speeds(machine)), manager.open)
        strategies = {
            PLAIN: MeasuredStrategy(PairWriter(without_draft(pair))),
            "draft": MeasuredStrategy(PairWriter(pair)),
        }
        prompts = read_prompts(PROMPTS)[: 2 if check.rehearse else 6]
        params = SamplingParams(temperature=placed.temperature, seed=7)
        done = measure(strategies, prompts, params, max_tokens=_TOKENS, repeat=1)
        found = figures(strategies, done)["all"]["draft"]
    except Exception as error:  # noqa: BLE001 - the next one may run
        return f"{name}: {check.fail(error, placement=name)}"
    signature = pair.target.signature
    check.emit("placement", stack=stack, placement=name, exact=found.exact, signature=signature)
    return f"{name} {'exact' if found.exact else 'DIFFERS'}"


def _logits(check: Check, stack: str, wanted: str) -> str:
    """Compare logits of rows behind a prompt with the native CPU's."""
    import numpy as np

    from engine.bench.forward import random_subject

    config = config_of(check, "qwen2.5-0.5b")
    tokens = [(37 * place) % config.vocab_size for place in range(96)]
    device = opened(check, stack)
    try:
        rows = []
        for where in (device, None):
            decoder = random_subject(config, wanted, device=where).decoder
            state = decoder.new_state(len(tokens) + 16)
            decoder.forward(state, tokens[:-8], logit_rows=())
            state.commit(range(len(tokens) - 8))
            rows.append(decoder.forward(state, tokens[-8:]).logits.copy())
            del decoder, state
    except Exception as error:  # noqa: BLE001 - the next one may run
        return f"{wanted} logits: {check.fail(error, logits=wanted)}"
    finally:
        device.close()
    ours, theirs = rows
    apart = np.linalg.norm(ours - theirs, axis=1) / np.linalg.norm(theirs, axis=1)
    same = float((ours.argmax(axis=1) == theirs.argmax(axis=1)).mean())
    allowed = TOLERANCES[stack]
    tolerance = allowed.get(wanted, allowed[""])
    within = bool(apart.max() <= tolerance)
    check.emit(
        "logits", stack=stack, format=wanted, apart=[float(each) for each in apart],
        tolerance=tolerance, within=within, same_best=same,
    )  # fmt: skip
    return f"{wanted} logits {apart.max():.1e}{'' if within else ' TOO FAR'}"

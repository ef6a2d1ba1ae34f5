"""What the planner predicts, device by device, is what allocators enter in their ledgers."""

from __future__ import annotations

from dataclasses import replace

import pytest

from engine.backend.cpu import CpuDevice
from engine.backend.decoder import Decoder
from engine.backend.device import Device
from engine.backend.ledger import Ledger, Purpose
from engine.backend.simulated.device import SimulatedDevice
from engine.backend.simulated.spec import DEVICE, SimulatedSpec, simulated_accelerator
from engine.bench.random_model import RandomModel, RandomPair, random_draft
from engine.bench.shape_speed import build
from engine.commands import Mode, WeightFormat
from engine.machine.facts import CPU, Host, Machine
from engine.machine.speeds import Speeds
from engine.model.config import BlockConfig, ModelConfig
from engine.model.families import READERS, parse_config
from engine.model.families.common import with_blocks
from engine.model.text.shortlist import OWN_ROWS
from engine.plan.facts import Wish, usual_draft
from engine.plan.planner import plan

MIB, GIB = 2**20, 2**30
SMALL = {
    "model_type": "qwen2", "hidden_size": 256, "intermediate_size": 704, "num_hidden_layers": 6,
    "num_attention_heads": 4, "num_key_value_heads": 2, "vocab_size": 4096,
    "max_position_embeddings": 4096, "rms_norm_eps": 1e-6, "hidden_act": "silu",
}  # fmt: skip
MOE = {
    "model_type": "qwen3_moe", "head_dim": 64, "moe_intermediate_size": 96, "num_experts": 8,
    "num_experts_per_tok": 2, "norm_topk_prob": True, "decoder_sparse_step": 1,
    "mlp_only_layers": [],
}  # fmt: skip
HYBRID = {
    "model_type": "qwen3_5_text", "head_dim": 64, "linear_num_key_heads": 2,
    "linear_num_value_heads": 4, "linear_key_head_dim": 64, "linear_value_head_dim": 64,
    "full_attention_interval": 3,
}  # fmt: skip
CONTEXT = 700


def shaped(**others: object) -> ModelConfig:
    return parse_config({**SMALL, **others})


def uneven() -> ModelConfig:
    """Every other block has other heads, and another feed-forward."""

    def changed(index: int, own: BlockConfig) -> BlockConfig:
        return replace(own, heads=3, kv_heads=1, head_dim=96, inner=320) if index % 2 else own

    return with_blocks(shaped(tie_word_embeddings=True), changed)


MODELS = {
    "tied": (shaped(tie_word_embeddings=True), "q4_0"),
    "untied": (shaped(tie_word_embeddings=False), "q8_0"),
    "mixed types": (shaped(tie_word_embeddings=False), "q4_k_m"),
    "odd heads": (shaped(num_attention_heads=5, hidden_size=240, num_key_value_heads=1,
                         intermediate_size=640, tie_word_embeddings=True), "q4_0"),
    "experts": (shaped(**MOE, tie_word_embeddings=False), "q4_0"),
    "uneven": (uneven(), "q4_0"),
    "states": (shaped(**HYBRID, tie_word_embeddings=False), "q4_0"),
}  # fmt: skip


def held(ledger: Ledger, *purposes: Purpose) -> int:
    return sum(line.nbytes for line in ledger.lines() if line.purpose in purposes)


@pytest.mark.release(keep=12, reason="every target")
@pytest.mark.parametrize("name", MODELS)
@pytest.mark.parametrize("layers", [0, 1, 4, 6])
def test_targets_on_cpu_and_simulated_accelerator(name: str, layers: int) -> None:
    config, wanted = MODELS[name]
    target = RandomModel(name, config, wanted)
    machine = Machine(Host(2, 8 * GIB, 8 * GIB), (simulated_accelerator(256 * MIB),))
    wish = Wish(Mode.PLAIN, CONTEXT, lookup=False, forced=False, layers_on_gpu=layers)
    made = plan(machine, Speeds({}), target.facts, [], wish)
    assert made.layers_on_gpu == layers

    devices: dict[str, Device] = {CPU: CpuDevice(threads=1)}
    if made.accelerator:
        devices[DEVICE] = SimulatedDevice(SimulatedSpec.of(256 * MIB))
    backends = {key: each.backend(WeightFormat.STORED, "target") for key, each in devices.items()}
    decoder = Decoder.placed(config, target.weights(), made.target, backends)
    state = decoder.new_state(CONTEXT)
    for key, device in devices.items():
        predicted, ledger = made.on(key), device.ledger
        assert predicted.kv == held(ledger, Purpose.KV)
        assert predicted.runtime == held(ledger, Purpose.RUNTIME)
        assert predicted.target == pytest.approx(held(ledger, Purpose.WEIGHTS), rel=0.002)
        working = held(ledger, Purpose.WORKSPACE)
        # Verification and draws come with the first answer.
        assert working <= predicted.workspace <= working + 2 * MIB
        assert predicted.total == pytest.approx(ledger.held, rel=0.05, abs=2 * MIB)
    del state


def test_every_family_is_told_from_its_shape_alone() -> None:
    """Whatever blocks a family has, all its tensors have a place."""
    assert len(READERS) >= 8
    for config, wanted in MODELS.values():
        facts = RandomModel("a model", config, wanted).facts
        whole = facts.footprint
        apart = sum(part.nbytes for part in (whole.embedding, *whole.blocks, whole.head))
        again = whole.embedding.nbytes if whole.tied else 0
        assert whole.weight_bytes == apart - again
        untied = RandomModel("a model", replace(config, tie_word_embeddings=False), wanted)
        assert untied.facts.footprint.weight_bytes >= whole.weight_bytes


@pytest.mark.release(keep=12, reason="every head")
@pytest.mark.parametrize("draft", ["dgf-2", "eagle", "eagle3"])
@pytest.mark.parametrize("target", ["tied", "untied"])
@pytest.mark.parametrize("layers", [None, 0, 3, 6])
def test_heads_beside_their_targets(draft: str, target: str, layers: int | None) -> None:
    """Borrowed matrices once on a device, features on the host; None: all on the CPU."""
    lender = RandomModel(target, *MODELS[target])
    pair = RandomPair(lender, random_draft(lender, draft))
    mode = Mode.CPU if layers is None else Mode.DOVETAIL
    accelerators = () if layers is None else (simulated_accelerator(256 * MIB),)
    machine = Machine(Host(2, 8 * GIB, 8 * GIB), accelerators)
    wish = Wish(mode, CONTEXT, lookup=False, forced=True, layers_on_gpu=layers)
    made = plan(machine, Speeds({}), lender.facts, [usual_draft(pair.draft.facts)], wish)
    assert made.layers_on_gpu == (layers or 0)
    placed = build(made, machine, pair, threads=1)
    assert placed.draft is not None
    states = placed.target.new_state(CONTEXT), placed.draft.new_state(CONTEXT)
    for key, device in placed.devices.items():
        predicted, lines = made.on(key), device.ledger.lines()
        weights = {line.owner: line.nbytes for line in lines if line.purpose is Purpose.WEIGHTS}
        assert predicted.target == pytest.approx(weights.get("target", 0), rel=0.002)
        assert predicted.draft == pytest.approx(weights.get("draft", 0), rel=0.002)
        assert predicted.kv == held(device.ledger, Purpose.KV)
        assert predicted.features == held(device.ledger, Purpose.FEATURES)
        working = held(device.ledger, Purpose.WORKSPACE)
        assert working <= predicted.workspace <= working + 3 * MIB
    del states


@pytest.mark.parametrize("tied", [True, False])
def test_the_shortlist_of_an_mtp_head_is_its_own(tied: bool) -> None:
    """Its rows are packed beside the target's matrix, which is not the head's then."""
    states = {
        "head_dim": 32, "linear_num_key_heads": 1, "linear_num_value_heads": 2,
        "linear_key_head_dim": 32, "linear_value_head_dim": 32, "hidden_size": 64,
        "intermediate_size": 96, "num_hidden_layers": 4, "vocab_size": 3 << 14,
    }  # fmt: skip
    config = shaped(model_type="qwen3_5_text", tie_word_embeddings=tied, **states)
    lender = RandomModel("states", config, "q4_0")
    pair = RandomPair(lender, random_draft(lender, "mtp"))
    assert pair.draft.config.rows == OWN_ROWS
    machine = Machine(Host(2, 8 * GIB, 8 * GIB), ())
    wish = Wish(Mode.CPU, CONTEXT, lookup=False, forced=True)
    made = plan(machine, Speeds({}), lender.facts, [usual_draft(pair.draft.facts)], wish)
    placed = build(made, machine, pair, threads=1)
    lines = placed.devices[CPU].ledger.lines()
    (weights,) = (
        line.nbytes for line in lines if (line.purpose, line.owner) == (Purpose.WEIGHTS, "draft")
    )
    assert made.on(CPU).draft == pytest.approx(weights, rel=0.002)

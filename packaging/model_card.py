"""The figures of a model card, measured on what `duotail train-model` has made.

    .venv/bin/python packaging/model_card.py MADE --questions FILE

The questions of the bundled model's card are those of tests/everyday_prompts.txt.
Nothing else may run meanwhile. Prints Markdown: sizes, perplexities, acceptance lengths by
category, speeds, and the first answers to the questions as the model gives them.
"""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Iterator, Sequence
from itertools import chain
from pathlib import Path
from time import perf_counter

from engine.answering import Answer
from engine.bench.drafters import Fixed, ways_of
from engine.bench.passages import read_passages
from engine.bench.prompts import first_of_each_category, read_prompts
from engine.bench.quality import measure_quality
from engine.bench.ways import ALL, PLAIN, Figures, figures, measure_ways
from engine.commands import DraftChoice, Load, WeightFormat
from engine.events import Event, Finished, FinishReason
from engine.hub.local import LocalModel
from engine.loading.checking import check, own_model
from engine.loading.load import LoadedPair, load
from engine.loading.machinery import Machinery
from engine.model.config import ModelConfig
from engine.plan.footprint import weight_count
from engine.request import ChatRequest, Message, Role, SamplingParams
from engine.train.scratch.making import HELD_OUT, MODEL, PACKED
from engine.train.scratch.training import LOG

FORMATS = (WeightFormat.F32, WeightFormat.BF16, WeightFormat.Q8, WeightFormat.Q4)
WINDOW = 512
TEMPERATURES = (0.0, 0.8)
WAYS = {
    Fixed(6): "Chains of 6 tokens in every round",
    Fixed(6, 4): "Trees of 6 levels, 4 tokens wide, in every round",
    None: "As the controller drafts",
}
_BYTES_OF_A_HEADS_WEIGHT = 2


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n")[0])
    parser.add_argument("made", type=Path)
    parser.add_argument("--questions", type=Path, required=True)
    parser.add_argument("--limit", type=int, default=8, help="prompts per category")
    parser.add_argument("--repeat", type=int, default=3)
    parser.add_argument("--samples", type=int, default=20)
    wishes = parser.parse_args()
    packed = wishes.made / PACKED
    models = sorted(folder for folder in packed.iterdir() if folder.is_dir())
    target, *drafts = sorted(models, key=lambda folder: len(folder.name))
    for line in chain(
        _sizes(wishes.made, [target, *drafts]),
        _perplexities(wishes.made),
        _drafters(wishes, target, drafts),
        _answers(wishes, target),
    ):
        sys.stdout.write(line + "\n")
        sys.stdout.flush()


def _sizes(made: Path, models: Sequence[Path]) -> Iterator[str]:
    yield "| model | weights | MB | kind |"
    yield "|---|---|---|---|"
    for folder in models:
        model = LocalModel.inspect(folder)
        size = sum(file.stat().st_size for file in folder.rglob("*")) / 1e6
        config = model.config
        if isinstance(config, ModelConfig):
            count = weight_count(config)
        else:
            count = model.weight_bytes // _BYTES_OF_A_HEADS_WEIGHT
        yield f"| {model.name} | {count / 1e6:.2f} M | {size:.1f} | {model.kind} |"
    last = json.loads((made / MODEL / LOG).read_text("utf-8").splitlines()[-1])
    yield ""
    yield f"{last['tokens']:,} tokens in {last['seconds'] / 60:.0f} minutes of training."
    begun = perf_counter()
    _pair(models[0], DraftChoice.AUTO)
    yield f"Target and draft are loaded in {perf_counter() - begun:.2f} s."


def _perplexities(made: Path) -> Iterator[str]:
    model = LocalModel.inspect(made / MODEL)
    config, weights, _ = own_model(model, WeightFormat.F32)
    window = min(WINDOW, config.max_positions)
    passages = read_passages(made / HELD_OUT, model.tokenizer(), model.template(), window)
    yield ""
    yield f"| format | perplexity of {len(passages)} held-out passages, questions too | to fp32 |"
    yield "|---|---|---|"
    base: float | None = None
    for kind, quality in measure_quality(config, weights, FORMATS, passages):
        base = base or quality.perplexity
        change = quality.perplexity / base - 1
        yield f"| {kind} | {quality.perplexity:.3f} | {change:+.2%} |"


def _drafters(wishes: argparse.Namespace, target: Path, drafts: Sequence[Path]) -> Iterator[str]:
    prompts = first_of_each_category(read_prompts(wishes.made / HELD_OUT), wishes.limit)
    everyday = read_prompts(wishes.questions)
    pairs = [(folder.name, _pair(target, folder)) for folder in drafts]
    for fixed, words in WAYS.items():
        for temperature in TEMPERATURES:
            ways = ways_of(pairs, [fixed])
            measured = measure_ways(
                ways,
                [*prompts, *everyday],
                SamplingParams(temperature=temperature, seed=1),
                max_tokens=128,
                repeat=wishes.repeat,
            )
            title = f"{words}, temperature {temperature:g}"
            found = figures(ways, measured)
            if fixed is not None:
                yield from _lengths(found, f"{title}: acceptance length")
            yield from _speeds(found[ALL], f"{title}: speed")


def _lengths(found: dict[str, dict[str, Figures]], title: str) -> Iterator[str]:
    names = [name for name in found[ALL] if name != PLAIN]
    yield from ("", title, "", f"| category | prompts | {' | '.join(names)} |")
    yield "|---" * (len(names) + 2) + "|"
    for category, rows in found.items():
        lengths = [rows[name].acceptance_length for name in names]
        cells = ["-" if length is None else f"{length:.2f}" for length in lengths]
        yield f"| {category} | {rows[PLAIN].prompts} | {' | '.join(cells)} |"


def _speeds(found: dict[str, Figures], title: str) -> Iterator[str]:
    yield from ("", title, "", "| way | tokens/s | speed-up | c | exact |", "|---|---|---|---|---|")
    for name, row in found.items():
        told = "-" if row.c is None else f"{row.c:.3f}"
        exact = "yes" if row.exact else "NO"
        yield f"| {name} | {row.tokens_per_s:.0f} | {row.speedup:.2f} | {told} | {exact} |"


def _answers(wishes: argparse.Namespace, target: Path) -> Iterator[str]:
    pair, ended = _pair(target, DraftChoice.AUTO), 0
    questions = [prompt.text for prompt in read_prompts(wishes.questions)]
    shown = []
    for number, text in enumerate(questions):
        request = ChatRequest(str(number), (Message(Role.USER, text),), SamplingParams(), 256)
        done = _answer(pair, request)
        ended += done.reason is FinishReason.STOP
        shown += ["", f"**{text}**", "", *(f"> {line}" for line in done.text.split("\n"))]
        if number + 1 == wishes.samples:
            yield from shown
            shown = []
    yield ""
    yield f"{ended} of {len(questions)} answers were ended by the model."
    yield from shown


def _pair(target: Path, draft: Path | DraftChoice) -> LoadedPair:
    machinery = Machinery()
    machine = machinery.look(None)
    command = Load(target, draft=draft)
    return load(check(command, machine, machinery.speeds(machine)), machinery.open)


def _answer(pair: LoadedPair, request: ChatRequest) -> Finished:
    finished: list[Finished] = []

    def listen(event: Event) -> None:
        if isinstance(event, Finished):
            finished.append(event)

    Answer(pair, request, listen, lambda: False).write()
    return finished[0]


if __name__ == "__main__":
    main()

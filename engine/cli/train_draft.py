"""`duotail train-draft`: a draft for a model, trained on conversations."""

from __future__ import annotations

import argparse
import json
import signal
import sys
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import fields
from math import inf
from pathlib import Path
from types import FrameType
from typing import TYPE_CHECKING, Any

from engine.cli.exit_code import ExitCode
from engine.cli.options import one_or_more
from engine.commands import WeightFormat
from engine.hub.local import resolve_model
from engine.language import tr
from engine.train.settings import DraftKind, DraftShape, Schedule, TrainingSettings
from engine.units import duration, file_size

if TYPE_CHECKING:
    from engine.train.recording import RecordingReport
    from engine.train.trainer import TrainingReport
    from engine.train.training import Result

_SUFFIXES = {"k": 1_000, "M": 1_000_000, "G": 1_000_000_000}


def add_parser(commands: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    """Declare the sub-command; what is not given has the defaults of the settings."""
    parser = commands.add_parser(
        "train-draft", help=tr("train a draft for a model"), argument_default=argparse.SUPPRESS
    )
    parser.add_argument(
        "--model", metavar="NAME|PATH", default=None, help=tr("target (default: the starter model)")
    )
    parser.add_argument(
        "--data", nargs="+", type=Path, required=True, metavar="PATH",
        help=tr("conversations (.jsonl, .jsonl.zst), texts (.txt, .md), or folders with them"),
    )  # fmt: skip
    parser.add_argument(
        "--out", type=Path, required=True, metavar="DIR", help=tr("folder of the result")
    )
    parser.add_argument("--resume", action="store_true", help=tr("go on where it was stopped"))
    parser.add_argument(
        "--given", action="store_false", dest="own_answers",
        help=tr("learn from the answers in the data (default: the target answers anew)"),
    )  # fmt: skip
    parser.add_argument(
        "--kind", default=DraftKind.DGF, choices=[str(kind) for kind in DraftKind],
        help=tr("a head (dgf: Dovetail's, eagle, eagle3) or a model of its own (default: dgf)"),
    )  # fmt: skip
    parser.add_argument("--from", metavar="NAME|PATH", help=tr("begin with this draft's weights"))
    parser.add_argument(
        "--precision", default="auto", choices=["auto", "fp32", "bf16"],
        help=tr("precision of products; bf16 is faster on processors that have it"),
    )  # fmt: skip
    parser.add_argument(
        "--format", default=WeightFormat.AUTO, choices=[str(each) for each in WeightFormat],
        help=tr("how the target's weights are held"),
    )  # fmt: skip
    length = parser.add_mutually_exclusive_group()
    for name, field, kind, metavar, words in _options():
        group = length if field in ("tokens", "seconds") else parser
        group.add_argument(name, dest=field, type=kind, metavar=metavar, help=words)
    parser.add_argument(
        "--json", action="store_true", default=False, help=tr("one JSON object on stdout")
    )
    parser.set_defaults(run=run)


def _options() -> tuple[tuple[str, str, Callable[[str], object], str, str], ...]:
    """List options with a value: name, field of the settings, how it is read, metavar, help."""
    return (
        ("--recorded", "recorded", tokens, "N",
         tr("record the target's hidden states of so many tokens (default: 1M)")),
        ("--recording", "recording", Path, "DIR",
         tr("keep the recording in this folder, for further drafts of the same kind")),
        ("--answer-length", "longest_answer", one_or_more, "N",
         tr("cut the target's own answers after so many tokens (default: 256)")),
        ("--blocks", "blocks", one_or_more, "M", tr("number of the draft's blocks (default: 1)")),
        ("--hidden", "hidden", one_or_more, "N", tr("hidden size of a model of its own")),
        ("--heads", "heads", one_or_more, "N", tr("attention heads of a model of its own")),
        ("--intermediate", "intermediate", one_or_more, "N", tr("width of the feed-forwards")),
        ("--rows", "rows", one_or_more, "N",
         tr("tokens that it can propose, those written most (default: 8192)")),
        ("--tokens", "tokens", tokens, "N",
         tr("train on so many tokens, such as 500k (default: 2M)")),
        ("--minutes", "seconds", minutes, "T", tr("train for so many minutes instead")),
        ("--rate", "rate", positive, "R", tr("highest learning rate of AdamW (default: 0.0006)")),
        ("--muon", "muon", not_negative, "R",
         tr("highest learning rate of Muon for the blocks; 0: use AdamW (default: 0.02)")),
        ("--warm-up", "warm_up", one_or_more, "STEPS",
         tr("raise the learning rates over so many steps (default: 20)")),
        ("--clip", "clip", not_negative, "X",
         tr("clip each number of a gradient to +-X; 0: not at all (default: 0.5)")),
        ("--decay", "decay", not_negative, "X",
         tr("weight decay of the matrices (default: 0.05)")),
        ("--noise", "noise", not_negative, "X",
         tr("add noise of at most X / length to the features of a head (default: 20)")),
        ("--unroll", "steps", one_or_more, "STEPS",
         tr("tokens that a head drafts in a row while it learns (default: 2, of EAGLE-3: 5)")),
        ("--batch", "batch", one_or_more, "N", tr("tokens of a step (default: 2048)")),
        ("--max-length", "longest", one_or_more, "N",
         tr("cut conversations and texts after so many tokens (default: 1024)")),
        ("--seed", "seed", int, "S",
         tr("seed of answers, order, first weights and noise (default: 0)")),
        ("--device", "device", str, "auto|cpu|cuda:0",
         tr("device to train on (default: a GPU where there is one)")),
        ("--threads", "threads", one_or_more, "N", tr("threads of the CPU (default: automatic)")),
        ("--checkpoint-minutes", "every", minutes, "T",
         tr("minutes between checkpoints (default: 5)")),
        ("--checkpoint-steps", "every_steps", one_or_more, "N", tr("steps between checkpoints")),
    )  # fmt: skip


def run(arguments: argparse.Namespace) -> ExitCode:
    """Train, telling on stderr how it goes."""
    from engine.train.trainer import Paused  # imports torch
    from engine.train.training import train

    settings = _settings(arguments)
    with interruptible() as stop:
        try:
            result = train(settings, _tell, lambda: bool(stop), _tell_recording)
        except Paused as paused:
            steps = paused.progress.steps
            words = tr("Stopped after {steps} steps. Go on with --resume.").format(steps=steps)
            sys.stderr.write(words + "\n")
            if arguments.json:
                answer = {"finished": False, "out": str(settings.out)}
                answer |= {"steps": steps, "tokens": paused.progress.tokens}
                sys.stdout.write(json.dumps(answer) + "\n")
            return ExitCode.INTERRUPTED
    told = json.dumps(_row(result, settings)) if arguments.json else _words(result)
    sys.stdout.write(told + "\n")
    return ExitCode.DONE


def _settings(arguments: argparse.Namespace) -> TrainingSettings:
    """Collect what was given.

    Raises:
        UserFixable: an unknown model or draft.
    """
    given = vars(arguments) | {
        "model": resolve_model(arguments.model),
        "data": tuple(arguments.data),
        "kind": DraftKind(arguments.kind),
        "format": WeightFormat(arguments.format),
        "halves": {"fp32": False, "bf16": True}.get(arguments.precision),
    }
    if "from" in given:
        given["begin"] = resolve_model(given["from"])
    given["shape"] = DraftShape(**_fields(DraftShape, given))
    given["schedule"] = Schedule(**_fields(Schedule, given))
    return TrainingSettings(**_fields(TrainingSettings, given))


def _fields(
    kind: type[DraftShape | Schedule | TrainingSettings], given: Mapping[str, Any]
) -> dict[str, Any]:
    return {field.name: given[field.name] for field in fields(kind) if field.name in given}


@contextmanager
def interruptible() -> Iterator[list[bool]]:
    """Let the first Ctrl-C put something into the list that is given, and only the second end."""
    stop: list[bool] = []

    def asked(_number: int, _frame: FrameType | None) -> None:
        stop.append(True)
        signal.signal(signal.SIGINT, before)

    before = signal.signal(signal.SIGINT, asked)
    try:
        yield stop
    finally:
        signal.signal(signal.SIGINT, before)


def _tell_recording(report: RecordingReport) -> None:
    words = tr(
        "Recording the model: {tokens} of {wanted} tokens, {pace:.0f} tokens/s; {size} on disk."
    ).format(
        tokens=report.tokens,
        wanted=report.wanted,
        pace=report.tokens_per_s,
        size=file_size(report.nbytes),
    )
    sys.stderr.write(words + "\n")
    sys.stderr.flush()


def _tell(report: TrainingReport) -> None:
    progress = report.progress
    words = tr(
        "{done:4.0%}, step {steps}, {tokens} tokens, {pace:.0f} tokens/s, loss {loss:.4f}, "
        "agreement {agreement:.1%}"
    ).format(
        done=report.done,
        steps=progress.steps,
        tokens=progress.tokens,
        pace=report.tokens_per_s,
        loss=progress.loss,
        agreement=progress.agreement,
    )
    if report.acceptance_length is not None:
        words += tr(", acceptance length about {length:.2f}").format(
            length=report.acceptance_length
        )
    if report.seconds_left is not None:
        words += tr(", {time} left").format(time=duration(report.seconds_left))
    sys.stderr.write(words + "\n")
    sys.stderr.flush()


def _row(result: Result, settings: TrainingSettings) -> dict[str, object]:
    progress = result.progress
    return {
        "finished": True,
        "out": str(result.out),
        "kind": str(settings.shape.kind),
        "blocks": settings.shape.blocks,
        "parameters": result.parameters,
        "steps": progress.steps,
        "tokens": progress.tokens,
        "seconds": round(progress.seconds, 1),
        "tokens_per_s": round(progress.tokens / max(progress.seconds, 1e-6), 1),
        "loss": progress.loss,
        "agreement": progress.agreement,
        "acceptance_length": result.acceptance_length,
        "lines_skipped": result.skipped,
        "covered": round(result.covered, 4),
    }


def _words(result: Result) -> str:
    words = tr(
        "{out}: {numbers:.1f} M numbers, trained on {tokens} tokens; acceptance length about "
        "{length:.2f} on texts held out."
    ).format(
        out=result.out,
        numbers=result.parameters / 1e6,
        tokens=result.progress.tokens,
        length=result.acceptance_length,
    )
    if result.skipped:
        words += " " + tr("{count} lines held no example.").format(count=result.skipped)
    return words


def tokens(text: str) -> int:
    """Read a number of tokens: 500000, 500k, 2M."""
    factor = _SUFFIXES.get(text[-1:], 1)
    try:
        number = float(text[:-1] if factor > 1 else text) * factor
    except ValueError:
        number = 0
    if not 1 <= number < inf:
        raise argparse.ArgumentTypeError(
            tr("{text!r} is no number of tokens, such as 500k or 2M").format(text=text)
        )
    return int(number)


def not_negative(text: str) -> float:
    """Read a finite number of 0 or more."""
    try:
        number = float(text)
    except ValueError:
        number = -1.0
    if not 0 <= number < inf:
        raise argparse.ArgumentTypeError(
            tr("{text!r} is not a number of 0 or more").format(text=text)
        )
    return number


def positive(text: str) -> float:
    """Read a finite number above 0."""
    number = not_negative(text)
    if number == 0:
        raise argparse.ArgumentTypeError(tr("{text!r} is not above 0").format(text=text))
    return number


def minutes(text: str) -> float:
    """Read a time in minutes, above 0, as seconds."""
    return 60 * positive(text)

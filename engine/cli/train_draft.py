"""`duotail train-draft`: a draft for a model, trained on conversations."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Callable, Mapping
from dataclasses import fields
from math import inf
from pathlib import Path
from threading import Event
from typing import TYPE_CHECKING, Any

from engine.cli.exit_code import ExitCode, on_interrupt
from engine.cli.options import add_options, one_or_more, parsed
from engine.cli.output import show
from engine.commands import WeightFormat
from engine.hub.shelf.names import model_named
from engine.language import tr
from engine.language.units import duration, file_size
from engine.pytorch import need_pytorch
from engine.train.settings import (
    DraftKind,
    DraftShape,
    PackedKind,
    Schedule,
    TrainingSettings,
)

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
    add_options(parser, "--model", default=None)
    parser.add_argument(
        "--data", nargs="+", type=Path, required=True, metavar="PATH",
        help=tr("conversations (.jsonl, .jsonl.zst), texts (.txt, .md), or folders with them"),
    )  # fmt: skip
    parser.add_argument(
        "--out", type=Path, required=True, metavar="DIR",
        help=tr("folder to write the trained draft to"),
    )  # fmt: skip
    parser.add_argument(
        "--resume", action="store_true", help=tr("continue an interrupted training")
    )
    parser.add_argument(
        "--given", action="store_false", dest="own_answers",
        help=tr("learn from the answers in the data (default: from answers the target writes)"),
    )  # fmt: skip
    parser.add_argument(
        "--kind", default=DraftKind.DGF, choices=[str(kind) for kind in DraftKind],
        help=tr("a feature head (of Dovetail, EAGLE or EAGLE-3), or a stand-alone model"),
    )  # fmt: skip
    parser.add_argument(
        "--borrow-rows", action="store_true", dest="borrows",
        help=tr("let a head use the model's own output rows, which keeps it small"),
    )  # fmt: skip
    parser.add_argument(
        "--from", metavar="NAME|PATH", help=tr("start from the weights of this draft")
    )
    parser.add_argument(
        "--precision", default="auto", choices=["auto", "fp32", "bf16"],
        help=tr("precision of matrix products; bf16 is faster on processors that have it"),
    )  # fmt: skip
    parser.add_argument(
        "--packed", type=PackedKind, choices=[*PackedKind], metavar="|".join(PackedKind),
        help=tr("also write the draft in this format, to a folder beside DIR"),
    )  # fmt: skip
    add_options(parser, "--format")
    length = parser.add_mutually_exclusive_group()
    for name, field, kind, metavar, words in _options():
        group = length if field in ("tokens", "seconds") else parser
        group.add_argument(name, dest=field, type=kind, metavar=metavar, help=words)
    add_options(parser, "--json", default=False)
    parser.set_defaults(run=run)


def _options() -> tuple[tuple[str, str, Callable[[str], object], str, str], ...]:
    """List options with a value: name, field of the settings, how it is read, metavar, help."""
    return (
        ("--recorded", "recorded", tokens, "N",
         tr("record the target's hidden states of this many tokens, such as 500k or 2M")),
        ("--recording", "recording", Path, "DIR",
         tr("keep the recording in this folder, for further drafts of the same kind")),
        ("--answer-length", "longest_answer", one_or_more, "N",
         tr("cut the answers that the target writes after this many tokens")),
        ("--blocks", "blocks", one_or_more, "M", tr("number of decoder blocks in the draft")),
        ("--hidden", "hidden", one_or_more, "N", tr("hidden size of a stand-alone model")),
        ("--heads", "heads", one_or_more, "N",
         tr("number of attention heads of a stand-alone model")),
        ("--intermediate", "intermediate", one_or_more, "N",
         tr("intermediate size of the feed-forward layers")),
        ("--rows", "rows", one_or_more, "N",
         tr("let the draft propose only the N most frequent tokens (default: 8192)")),
        ("--tokens", "tokens", tokens, "N", tr("train on this many tokens, such as 500k or 2M")),
        ("--minutes", "seconds", minutes, "T", tr("train for this many minutes")),
        ("--rate", "rate", positive, "R", tr("highest learning rate of AdamW")),
        ("--muon", "muon", not_negative, "R",
         tr("highest learning rate of Muon, which trains the blocks; 0: AdamW trains them")),
        ("--warm-up", "warm_up", one_or_more, "STEPS",
         tr("raise the learning rate from 0 over this many steps")),
        ("--clip", "clip", not_negative, "X",
         tr("clip every gradient value to +-X; 0: no clipping")),
        ("--decay", "decay", not_negative, "X", tr("weight decay of the matrices")),
        ("--noise", "noise", not_negative, "X",
         tr("half-width of the uniform noise on the target's features, divided by the text's "
            "length")),
        ("--unroll", "steps", one_or_more, "STEPS",
         tr("train a head on drafts of this many steps (default: 2, for EAGLE-3: 5)")),
        ("--batch", "batch", one_or_more, "N", tr("number of tokens in a training step")),
        ("--max-length", "longest", one_or_more, "N", tr("cut texts after this many tokens")),
        ("--seed", "seed", int, "S", tr("seed of the random numbers")),
        ("--device", "device", str, "auto|cpu|cuda:0",
         tr("device to train on (default: auto, a GPU if there is one)")),
        ("--threads", "threads", one_or_more, "N", tr("number of CPU threads")),
        ("--checkpoint-minutes", "every", minutes, "T", tr("minutes between two checkpoints")),
        ("--checkpoint-steps", "every_steps", one_or_more, "N",
         tr("steps between two checkpoints")),
    )  # fmt: skip


def run(arguments: argparse.Namespace) -> ExitCode:
    """Train, telling on stderr how it goes."""
    need_pytorch(tr("Training"))
    from engine.train.trainer import Paused  # imports torch
    from engine.train.training import train

    settings = _settings(arguments)
    stop = Event()
    with on_interrupt(stop.set):
        try:
            result = train(settings, _tell, stop.is_set, _tell_recording)
        except Paused as paused:
            steps = paused.progress.steps
            words = tr("Stopped after {steps} steps. Continue with --resume.").format(steps=steps)
            sys.stderr.write(words + "\n")
            answer = {"finished": False, "out": str(settings.out)}
            show(arguments, answer | {"steps": steps, "tokens": paused.progress.tokens}, ())
            return ExitCode.INTERRUPTED
    return show(arguments, _row(result, settings), [_words(result)])


def _settings(arguments: argparse.Namespace) -> TrainingSettings:
    """Collect what was given.

    Raises:
        UserFixable: an unknown model or draft.
    """
    given = vars(arguments) | {
        "model": model_named(arguments.model),
        "data": tuple(arguments.data),
        "kind": DraftKind(arguments.kind),
        "format": WeightFormat(arguments.format),
        "halves": {"fp32": False, "bf16": True}.get(arguments.precision),
    }
    if "from" in given:
        given["begin"] = model_named(given["from"])
    given["shape"] = DraftShape(**_fields(DraftShape, given))
    given["schedule"] = Schedule(**_fields(Schedule, given))
    return TrainingSettings(**_fields(TrainingSettings, given))


def _fields(
    kind: type[DraftShape | Schedule | TrainingSettings], given: Mapping[str, Any]
) -> dict[str, Any]:
    return {field.name: given[field.name] for field in fields(kind) if field.name in given}


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
        "{out}: {numbers:.1f} M parameters, trained on {tokens} tokens; acceptance "
        "length about {length:.2f} on held-out texts."
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
    """Parse a number of tokens: 500000, 500k, 2M."""
    factor = _SUFFIXES.get(text[-1:], 1)
    wrong = tr("{text!r} is not a number of tokens, such as 500k or 2M").format(text=text)
    digits = text[:-1] if factor > 1 else text
    return int(parsed(digits, float, lambda number: 1 <= number * factor < inf, wrong) * factor)


def not_negative(text: str) -> float:
    """Parse a finite number of 0 or more."""
    wrong = tr("{text!r} is not a number of 0 or more")
    return parsed(text, float, lambda number: 0 <= number < inf, wrong)


def positive(text: str) -> float:
    """Parse a finite number above 0."""
    if not not_negative(text):
        raise argparse.ArgumentTypeError(tr("{text!r} is not above 0").format(text=text))
    return float(text)


def minutes(text: str) -> float:
    """Parse a time in minutes, above 0, as seconds."""
    return 60 * positive(text)

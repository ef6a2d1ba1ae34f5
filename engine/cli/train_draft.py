"""`duotail train-draft`: a draft for a model, trained on conversations."""

from __future__ import annotations

import argparse
import json
import signal
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from math import inf
from pathlib import Path
from types import FrameType
from typing import TYPE_CHECKING

from engine.cli.exit_code import ExitCode
from engine.cli.options import one_or_more
from engine.commands import WeightFormat
from engine.hub.local import resolve_model
from engine.language import tr
from engine.train.shapes import DraftKind
from engine.units import duration, file_size

if TYPE_CHECKING:
    from engine.train.settings import TrainingSettings
    from engine.train.sitting import TrainingReport
    from engine.train.target_recorder import RecordingReport
    from engine.train.training import Result

_TOKENS = 2_000_000
"""Trained on unless told."""
_ROWS = 8192
"""Tokens that a draft proposes unless told: the others are too rare to be worth their time."""
_SUFFIXES = {"k": 1_000, "M": 1_000_000, "G": 1_000_000_000}


def add_parser(commands: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    """Declare the sub-command."""
    parser = commands.add_parser("train-draft", help=tr("train a draft for a model"))
    parser.add_argument(
        "--model", metavar="NAME|PATH", help=tr("the target model (default: the starter model)")
    )
    parser.add_argument(
        "--data", nargs="+", type=Path, required=True, metavar="PATH",
        help=tr("conversations (.jsonl, .jsonl.zst), texts (.txt, .md), or folders with them"),
    )  # fmt: skip
    parser.add_argument(
        "--out",
        type=Path,
        required=True,
        metavar="DIR",
        help=tr("folder to write the trained draft to"),
    )
    parser.add_argument(
        "--resume", action="store_true", help=tr("continue a training that was stopped")
    )
    _add_recording(parser)
    _add_shape(parser)
    _add_schedule(parser)
    _add_machine(parser)
    parser.add_argument("--json", action="store_true", help=tr("print one JSON object on stdout"))
    parser.set_defaults(run=run)


def _add_recording(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "--given", action="store_true",
        help=tr("learn from the answers in the data (default: from answers the target writes)"),
    )  # fmt: skip
    parser.add_argument(
        "--recorded", type=tokens, default=1_000_000, metavar="N",
        help=tr("record the target's hidden states of this many tokens, such as 500k or 2M"),
    )  # fmt: skip
    parser.add_argument(
        "--recording", type=Path, metavar="DIR",
        help=tr("keep the recording in this folder, for further drafts of the same kind"),
    )  # fmt: skip
    parser.add_argument(
        "--answer-length", type=one_or_more, default=256, metavar="N",
        help=tr("cut the answers that the target writes after this many tokens"),
    )  # fmt: skip


def _add_shape(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "--kind", default=DraftKind.DGF, choices=[str(kind) for kind in DraftKind],
        help=tr("a feature head (of Dovetail, EAGLE or EAGLE-3), or a stand-alone model"),
    )  # fmt: skip
    parser.add_argument(
        "--blocks",
        type=one_or_more,
        default=1,
        metavar="M",
        help=tr("number of decoder blocks in the draft"),
    )
    parser.add_argument(
        "--hidden", type=one_or_more, metavar="N", help=tr("hidden size of a stand-alone model")
    )
    parser.add_argument(
        "--heads",
        type=one_or_more,
        metavar="N",
        help=tr("number of attention heads of a stand-alone model"),
    )
    parser.add_argument(
        "--intermediate",
        type=one_or_more,
        metavar="N",
        help=tr("intermediate size of the feed-forward layers"),
    )
    parser.add_argument(
        "--rows", type=one_or_more, metavar="N",
        help=tr("let the draft propose only the N most frequent tokens (default: 8192)"),
    )  # fmt: skip
    parser.add_argument(
        "--from", dest="begin", metavar="NAME|PATH", help=tr("start from the weights of this draft")
    )


def _add_schedule(parser: argparse.ArgumentParser) -> None:
    length = parser.add_mutually_exclusive_group()
    length.add_argument(
        "--tokens",
        type=tokens,
        metavar="N",
        help=tr("train on this many tokens, such as 500k or 2M"),
    )
    length.add_argument(
        "--minutes", type=positive, metavar="T", help=tr("train for this many minutes")
    )
    parser.add_argument(
        "--rate", type=positive, default=6e-4, metavar="R",
        help=tr("highest learning rate of AdamW"),
    )  # fmt: skip
    parser.add_argument(
        "--muon", type=_not_negative, default=0.02, metavar="R",
        help=tr("highest learning rate of Muon, which trains the blocks; 0: AdamW trains them"),
    )  # fmt: skip
    parser.add_argument(
        "--warm-up",
        type=one_or_more,
        default=20,
        metavar="STEPS",
        help=tr("raise the learning rate from 0 over this many steps"),
    )
    parser.add_argument(
        "--clip",
        type=_not_negative,
        default=0.5,
        metavar="X",
        help=tr("clip every gradient value to +-X; 0: no clipping"),
    )
    parser.add_argument(
        "--decay",
        type=_not_negative,
        default=0.05,
        metavar="X",
        help=tr("weight decay of the matrices"),
    )
    parser.add_argument(
        "--noise",
        type=_not_negative,
        default=20.0,
        metavar="X",
        help=tr(
            "half-width of the uniform noise on the target's features, divided by the text's length"
        ),
    )
    parser.add_argument(
        "--unroll", type=one_or_more, metavar="STEPS",
        help=tr("train a head on drafts of this many steps (default: 2, for EAGLE-3: 5)"),
    )  # fmt: skip
    parser.add_argument(
        "--batch",
        type=one_or_more,
        default=2048,
        metavar="N",
        help=tr("number of tokens in a training step"),
    )
    parser.add_argument(
        "--max-length", type=one_or_more, metavar="N", help=tr("cut texts after this many tokens")
    )
    parser.add_argument(
        "--seed", type=int, default=0, metavar="S", help=tr("seed of the random numbers")
    )


def _add_machine(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "--device",
        default="auto",
        metavar="auto|cpu|cuda:0",
        help=tr("device to train on (default: auto, a GPU if there is one)"),
    )
    parser.add_argument(
        "--precision", default="auto", choices=["auto", "fp32", "bf16"],
        help=tr("precision of matrix products; bf16 is faster on processors that have it"),
    )  # fmt: skip
    parser.add_argument(
        "--threads", type=one_or_more, metavar="N", help=tr("number of CPU threads")
    )
    parser.add_argument(
        "--format", default=WeightFormat.AUTO, choices=[str(weights) for weights in WeightFormat],
        help=tr("weight format of the target"),
    )  # fmt: skip
    parser.add_argument(
        "--checkpoint-minutes", type=positive, default=5.0, metavar="T",
        help=tr("minutes between two checkpoints"),
    )  # fmt: skip
    parser.add_argument(
        "--checkpoint-steps",
        type=one_or_more,
        metavar="N",
        help=tr("steps between two checkpoints"),
    )


def run(arguments: argparse.Namespace) -> ExitCode:
    """Train, telling on stderr how it goes."""
    from engine.train.sitting import Paused  # imports torch
    from engine.train.training import train

    settings = _settings(arguments)
    with interruptible() as stop:
        try:
            result = train(settings, _tell, lambda: bool(stop), _tell_recording)
        except Paused as paused:
            sys.stderr.write(
                tr("Stopped after {steps} steps. Go on with --resume.").format(
                    steps=paused.progress.steps
                )
                + "\n"
            )
            if arguments.json:
                answer = {"finished": False, "out": str(settings.out)}
                answer |= {"steps": paused.progress.steps, "tokens": paused.progress.tokens}
                sys.stdout.write(json.dumps(answer) + "\n")
            return ExitCode.INTERRUPTED
    if arguments.json:
        sys.stdout.write(json.dumps(_row(result, settings)) + "\n")
    else:
        sys.stdout.write(_words(result) + "\n")
    return ExitCode.DONE


def _settings(arguments: argparse.Namespace) -> TrainingSettings:
    from engine.train.settings import DraftShape, TrainingSettings
    from engine.train.trainer import Schedule

    begin = None if arguments.begin is None else resolve_model(arguments.begin)
    by_time = arguments.minutes is not None
    return TrainingSettings(
        model=resolve_model(arguments.model),
        data=tuple(arguments.data),
        out=arguments.out,
        shape=DraftShape(
            kind=DraftKind(arguments.kind),
            blocks=arguments.blocks,
            hidden=arguments.hidden,
            heads=arguments.heads,
            intermediate=arguments.intermediate,
            rows=arguments.rows or _ROWS,
            begin=begin,
        ),
        schedule=Schedule(
            tokens=None if by_time else arguments.tokens or _TOKENS,
            seconds=60 * arguments.minutes if by_time else None,
            rate=arguments.rate,
            muon=arguments.muon or None,
            warm_up=arguments.warm_up,
            clip=arguments.clip,
            decay=arguments.decay,
        ),
        own_answers=not arguments.given,
        recorded=arguments.recorded,
        recording=arguments.recording,
        longest_answer=arguments.answer_length,
        format=WeightFormat(arguments.format),
        device=arguments.device,
        halves={"fp32": False, "bf16": True}.get(arguments.precision),
        threads=arguments.threads,
        longest=arguments.max_length,
        batch=arguments.batch,
        noise=arguments.noise,
        steps=arguments.unroll,
        seed=arguments.seed,
        resume=arguments.resume,
        every=60 * arguments.checkpoint_minutes,
        every_steps=arguments.checkpoint_steps,
    )


@contextmanager
def interruptible() -> Iterator[list[bool]]:
    """The first Ctrl-C asks for an orderly end: the list is no longer empty; the second ends."""
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
    """A number of tokens given as an option's value: 500000, 500k, 2M."""
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


def positive(text: str) -> float:
    """A finite number above 0, given as an option's value."""
    number = _not_negative(text)
    if number == 0:
        raise argparse.ArgumentTypeError(tr("{text!r} is not above 0").format(text=text))
    return number


def _not_negative(text: str) -> float:
    try:
        number = float(text)
    except ValueError:
        number = -1.0
    if not 0 <= number < inf:
        raise argparse.ArgumentTypeError(
            tr("{text!r} is not a number of 0 or more").format(text=text)
        )
    return number

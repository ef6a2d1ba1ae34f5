"""`duotail train-model`: a model from nothing, by a recipe. The bundled one is made so."""

from __future__ import annotations

import argparse
import json
import sys
from pathlib import Path
from time import monotonic
from typing import TYPE_CHECKING

from engine.cli.exit_code import ExitCode
from engine.cli.options import one_or_more
from engine.cli.train_draft import interruptible, positive, tokens
from engine.language import tr
from engine.units import duration

if TYPE_CHECKING:
    from engine.train.scratch.making import Stage
    from engine.train.scratch.training import State

_EVERY_S = 10.0


def add_parser(commands: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    """Declare the sub-command."""
    parser = commands.add_parser("train-model", help=tr("make a small model by a recipe"))
    parser.add_argument(
        "--recipe", default="nano", metavar="NAME|PATH", help=tr("nano, small, or a TOML file")
    )
    parser.add_argument(
        "--data", type=Path, required=True, metavar="DIR",
        help=tr("the folder that the recipe's sources lie in"),
    )  # fmt: skip
    parser.add_argument(
        "--out", type=Path, required=True, metavar="DIR", help=tr("folder of the result")
    )
    parser.add_argument(
        "--keep-out", type=Path, metavar="FILE",
        help=tr("prompts, one a line, that nothing is to be learned from"),
    )  # fmt: skip
    parser.add_argument(
        "--begin", type=Path, metavar="MODEL",
        help=tr("a model that this command has made, to go on from"),
    )  # fmt: skip
    parser.add_argument("--resume", action="store_true", help=tr("go on where it was stopped"))
    parser.add_argument(
        "--tokens", type=tokens, metavar="N", help=tr("train on so many tokens, such as 500k, 2M")
    )
    parser.add_argument("--device", default="cpu", metavar="cpu|cuda:0")
    parser.add_argument(
        "--rows", type=one_or_more, metavar="N", help=tr("rows of text in one forward")
    )
    parser.add_argument(
        "--compile", action="store_true", help=tr("compile the forward first: much faster later")
    )
    parser.add_argument(
        "--checkpoint-minutes", type=positive, default=5.0, metavar="T",
        help=tr("time between checkpoints"),
    )  # fmt: skip
    parser.add_argument("--json", action="store_true", help=tr("one JSON object on stdout"))
    parser.set_defaults(run=run)


def run(arguments: argparse.Namespace) -> ExitCode:
    """Train, telling on stderr how it goes."""
    from engine.train.scratch.beginning import Beginning  # imports torch
    from engine.train.scratch.making import make
    from engine.train.scratch.recipe import read_recipe
    from engine.train.scratch.training import Paused, Settings

    settings = Settings(
        recipe=read_recipe(arguments.recipe),
        data=arguments.data,
        out=arguments.out,
        keep_out=arguments.keep_out,
        tokens=arguments.tokens,
        device=arguments.device,
        rows=arguments.rows,
        compiled=arguments.compile,
        every=60 * arguments.checkpoint_minutes,
        resume=arguments.resume,
        begin=None if arguments.begin is None else Beginning.read(arguments.begin),
    )
    teller = _Teller()
    with interruptible() as stop:
        try:
            state = make(settings, teller.tell, teller.tell_stage, lambda: bool(stop))
        except Paused as paused:
            sys.stderr.write(
                tr("Stopped after {steps} steps. Go on with --resume.").format(
                    steps=paused.state.steps
                )
                + "\n"
            )
            _answer(arguments, paused.state, finished=False)
            return ExitCode.INTERRUPTED
    _answer(arguments, state, finished=True)
    return ExitCode.DONE


def _answer(arguments: argparse.Namespace, state: State, *, finished: bool) -> None:
    if arguments.json:
        row = {"finished": finished, "out": str(arguments.out), "steps": state.steps}
        row |= {"tokens": state.tokens, "seconds": round(state.seconds, 1), "loss": state.loss}
        row |= {"held_out_loss": state.held_out, "held_out_perplexity": state.perplexity}
        sys.stdout.write(json.dumps(row) + "\n")
    elif finished and state.perplexity is not None:
        sys.stdout.write(
            tr("{out}: {tokens} tokens learned, perplexity {perplexity:.2f} on held-out answers.")
            .format(out=arguments.out, tokens=state.tokens, perplexity=state.perplexity)
            + "\n"
        )  # fmt: skip


class _Teller:
    """Writes a line every few seconds."""

    def __init__(self) -> None:
        self._told = 0.0
        self._begun: tuple[float, float] | None = None

    def tell(self, word: str, state: State, done: float) -> None:
        """What is being done, and how far it is."""
        if not state.steps:
            sys.stderr.write(tr("Reading {name}").format(name=word) + "\n")
            return
        now = monotonic()
        if self._begun is None:
            self._begun = now, done
        if now - self._told < _EVERY_S and done < 1.0:
            return
        self._told = now
        words = tr(
            "{done:.1%}, {phase}, step {steps}, {pace:.0f} tokens/s, loss {loss:.3f}"
        ).format(
            done=done,
            phase=word,
            steps=state.steps,
            pace=state.tokens / max(state.seconds, 1e-6),
            loss=state.loss,
        )
        if state.perplexity is not None:
            words += tr(", perplexity {perplexity:.2f}").format(perplexity=state.perplexity)
        start, before = self._begun
        if done > before:
            left = (now - start) * (1 - done) / (done - before)
            words += tr(", {time} left").format(time=duration(left))
        _write(words)

    def tell_stage(self, stage: Stage) -> None:
        """What comes behind the model."""
        now = monotonic()
        if now - self._told >= _EVERY_S or stage.done in {0.0, 1.0}:
            self._told = now
            _write(tr("{done:.0%}, {words}").format(done=stage.done, words=stage.words))


def _write(words: str) -> None:
    sys.stderr.write(words + "\n")
    sys.stderr.flush()

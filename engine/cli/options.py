"""Options that several sub-commands share, and what they mean to the engine."""

from __future__ import annotations

import argparse
from pathlib import Path

from engine.checking import check
from engine.commands import DraftChoice, Load, Mode, WeightFormat
from engine.errors import Absent, UserFixable
from engine.hardware.probe import probe_host
from engine.hub.local import resolve_model
from engine.language import tr
from engine.loading import LoadedPair, load
from engine.plan.planner import check_mode
from engine.request import SamplingParams


def add_model_options(parser: argparse.ArgumentParser) -> None:
    """--model, --draft, --mode, --context and the options of modes still to come."""
    parser.add_argument(
        "--model", metavar="NAME|PATH", help=tr("target (default: the bundled one)")
    )
    parser.add_argument(
        "--draft", default="auto", metavar="auto|NAME|PATH|lookup|none", help=tr("what drafts")
    )
    parser.add_argument("--mode", default=Mode.AUTO, choices=[str(mode) for mode in Mode])
    parser.add_argument(
        "--format",
        default=WeightFormat.AUTO,
        choices=[str(weights) for weights in WeightFormat],
        help=tr("how the target's weights are held"),
    )
    parser.add_argument("--context", type=int, metavar="N", help=tr("planned context in tokens"))
    parser.add_argument("--vram", type=float, metavar="GIB", help=tr("VRAM budget"))
    parser.add_argument("--layers-on-gpu", metavar="N|all", help=tr("target layers on the GPU"))
    parser.add_argument(
        "--simulate-gpu", type=float, metavar="GIB", help=tr("simulated accelerator")
    )
    parser.add_argument("--json", action="store_true", help=tr("one JSON object on stdout"))


def add_sampling_options(parser: argparse.ArgumentParser) -> None:
    """--max-tokens, --temperature, --seed and the filters."""
    parser.add_argument("--max-tokens", type=one_or_more, metavar="N")
    parser.add_argument("--temperature", type=float, default=0.0, metavar="T")
    parser.add_argument("--seed", type=int, default=0, metavar="S")
    parser.add_argument("--top-k", type=int, default=0, metavar="K")
    parser.add_argument("--top-p", type=float, default=1.0, metavar="P")
    parser.add_argument("--min-p", type=float, default=0.0, metavar="P")
    parser.add_argument("--repetition-penalty", type=float, default=1.0, metavar="X")
    parser.add_argument("--presence-penalty", type=float, default=0.0, metavar="X")
    parser.add_argument("--frequency-penalty", type=float, default=0.0, metavar="X")


def load_command(arguments: argparse.Namespace) -> Load:
    """The Load command that the options describe.

    Raises:
        UserFixable: an unknown model, or an accelerator that is not here.
    """
    mode = Mode(arguments.mode)
    check_mode(mode)
    given = (arguments.vram, arguments.layers_on_gpu, arguments.simulate_gpu)
    if any(value is not None for value in given):
        raise Absent(
            tr("This version runs on the CPU only: it has no accelerator, real or simulated."),
            tr("Leave out --vram, --layers-on-gpu and --simulate-gpu."),
        )
    return Load(
        model=resolve_model(arguments.model),
        draft=_draft(arguments.draft),
        mode=mode,
        context=arguments.context,
        weights=WeightFormat(arguments.format),
    )


def load_pair(arguments: argparse.Namespace) -> LoadedPair:
    """The models that the options name, loaded.

    Raises:
        UserFixable: as `load_command`, and where the files cannot be used.
    """
    checked = check(load_command(arguments), probe_host().memory_available)
    return load(checked, lambda _stage, _fraction: None, lambda: False)


def sampling(arguments: argparse.Namespace) -> SamplingParams:
    """The sampling parameters that the options describe.

    Raises:
        UserFixable: a value out of its range.
    """
    try:
        return SamplingParams(
            temperature=arguments.temperature,
            top_k=arguments.top_k,
            top_p=arguments.top_p,
            min_p=arguments.min_p,
            repetition_penalty=arguments.repetition_penalty,
            presence_penalty=arguments.presence_penalty,
            frequency_penalty=arguments.frequency_penalty,
            seed=arguments.seed,
        )
    except ValueError as error:
        raise UserFixable(
            tr("That setting is not possible: {error}.").format(error=error), tr("Correct it.")
        ) from error


def one_or_more(text: str) -> int:
    """A count given as an option's value."""
    try:
        number = int(text)
    except ValueError:
        number = 0
    if number < 1:
        raise argparse.ArgumentTypeError(
            tr("{text!r} is not a whole number of 1 or more").format(text=text)
        )
    return number


def probability(text: str) -> float:
    """A number from 0 to 1 given as an option's value."""
    try:
        number = float(text)
    except ValueError:
        number = -1.0
    if not 0 <= number <= 1:
        raise argparse.ArgumentTypeError(
            tr("{text!r} is not a number from 0 to 1").format(text=text)
        )
    return number


def _draft(value: str) -> Path | DraftChoice:
    if value in {str(choice) for choice in DraftChoice}:
        return DraftChoice(value)
    return resolve_model(value)

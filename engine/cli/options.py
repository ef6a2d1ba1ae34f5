"""Options that several sub-commands share, and what they mean to the engine."""

from __future__ import annotations

import argparse
from math import inf
from pathlib import Path

from engine.commands import ALL_LAYERS, DraftChoice, Load, Mode, WeightFormat
from engine.errors import UserFixable
from engine.hub.local import resolve_model
from engine.language import tr
from engine.loading.devices import DeviceManager
from engine.loading.load import LoadedPair, load
from engine.loading.planned_load import plan_load
from engine.request import SamplingParams

GIB = 2**30


def add_model_options(parser: argparse.ArgumentParser) -> None:
    """--model, --draft, --mode, --context, and what an accelerator may take."""
    parser.add_argument(
        "--model", metavar="NAME|PATH", help=tr("target (default: the starter model)")
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
    add_gpu_options(parser)
    parser.add_argument("--json", action="store_true", help=tr("one JSON object on stdout"))


def add_gpu_options(parser: argparse.ArgumentParser) -> None:
    """--vram, --layers-on-gpu and --simulate-gpu; sizes come as bytes."""
    parser.add_argument("--vram", type=gibibytes, metavar="GIB", help=tr("VRAM budget"))
    parser.add_argument(
        "--layers-on-gpu", type=layers, metavar="N|all", help=tr("target layers on the GPU")
    )
    parser.add_argument(
        "--simulate-gpu", type=gibibytes, metavar="GIB", help=tr("simulated accelerator")
    )


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
        UserFixable: an unknown model.
    """
    return Load(
        model=resolve_model(arguments.model),
        draft=_draft(arguments.draft),
        mode=Mode(arguments.mode),
        context=arguments.context,
        weights=WeightFormat(arguments.format),
        vram=arguments.vram,
        layers_on_gpu=arguments.layers_on_gpu,
        simulate_gpu=arguments.simulate_gpu,
    )


def options_of(load: Load) -> list[str]:
    """The options that make a load, but for the model; what is as usual needs none."""
    said: list[tuple[str, object]] = [
        ("--draft", None if load.draft is DraftChoice.AUTO else load.draft),
        ("--mode", None if load.mode is Mode.AUTO else load.mode),
        ("--format", None if load.weights is WeightFormat.AUTO else load.weights),
        ("--context", load.context),
        ("--vram", None if load.vram is None else f"{load.vram / GIB:g}"),
        ("--layers-on-gpu", "all" if load.layers_on_gpu == ALL_LAYERS else load.layers_on_gpu),
        ("--simulate-gpu", None if load.simulate_gpu is None else f"{load.simulate_gpu / GIB:g}"),
    ]
    return [word for name, value in said if value is not None for word in (name, str(value))]


def load_pair(arguments: argparse.Namespace) -> LoadedPair:
    """The models that the options name, loaded.

    Raises:
        UserFixable: as `load_command`, and where the files cannot be used.
    """
    command, manager = load_command(arguments), DeviceManager()
    machine = manager.look(command.simulate_gpu)
    return load(plan_load(command, machine, manager.speeds(machine)), manager.open)


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


def gibibytes(text: str) -> int:
    """Bytes, given as an option's value in GiB."""
    try:
        number = float(text)
    except ValueError:
        number = -1.0
    if not 0 <= number < inf:
        raise argparse.ArgumentTypeError(tr("{text!r} is not a size in GiB").format(text=text))
    return round(number * GIB)


def layers(text: str) -> int:
    """A number of a model's layers, given as an option's value."""
    if text == "all":
        return ALL_LAYERS
    if not (text.isascii() and text.isdigit()):
        raise argparse.ArgumentTypeError(
            tr("{text!r} is neither a number of layers nor “all”").format(text=text)
        )
    return int(text)


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

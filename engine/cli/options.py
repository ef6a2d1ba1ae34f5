"""Options that several sub-commands share, and the engine's types that they describe."""

from __future__ import annotations

import argparse
import secrets
from collections.abc import Callable
from contextlib import suppress
from dataclasses import fields, replace
from math import inf
from pathlib import Path
from typing import Any, TypeVar

from engine.backend.simulated.spec import simulated_accelerator
from engine.commands import ALL_LAYERS, DraftChoice, KvType, Load, Mode, WeightFormat
from engine.devices import machine_file
from engine.errors import UserFixable
from engine.hub.shelf.names import model_named
from engine.language import tr
from engine.loading.devices import DeviceManager, with_device
from engine.loading.load import LoadedPair, load
from engine.loading.planned_load import plan_load
from engine.machine.facts import Machine
from engine.machine.speeds import Speeds
from engine.request import SamplingParams

GIB = 2**30
_ANY_SEED = -1
_ALIKE = {"--tokens": ("--max-tokens",)}
"""Further names of options that other commands have under these."""

Number = TypeVar("Number", int, float)


def add_options(parser: argparse._ActionsContainer, *names: str, **more: object) -> None:
    """Declare options that several sub-commands have; `more`: arguments of `add_argument`."""
    known = _load_options() | _other_options()
    for name in names:
        parser.add_argument(name, *_ALIKE.get(name, ()), **known[name] | more)


def add_model_options(parser: argparse.ArgumentParser) -> None:
    """Declare what `load_command` reads, and --json."""
    add_options(parser, "--model", "--draft", "--mode", "--format", "--kv", "--context")
    add_gpu_options(parser)
    add_options(parser, "--json")


def add_gpu_options(parser: argparse.ArgumentParser) -> None:
    """Declare --vram, --layers-on-gpu, --simulate-gpu and --device; sizes come as bytes."""
    add_options(parser, "--vram", "--layers-on-gpu", "--simulate-gpu", "--device")


def _load_options() -> dict[str, dict[str, Any]]:
    """Return the arguments of `add_argument` for options that say what is loaded, and how."""
    modes, formats = [str(mode) for mode in Mode], [str(weights) for weights in WeightFormat]
    size = {"type": gibibytes, "metavar": "GIB"}
    return {
        "--model": {
            "metavar": "NAME|PATH",
            "help": tr("the target model (default: the starter model)"),
        },
        "--draft": {
            "default": DraftChoice.AUTO,
            "metavar": "auto|NAME|PATH|mtp|lookup|none",
            "help": tr(
                "the draft: chosen for the target, a model, the target's own MTP head, lookup in "
                "earlier text, or none"
            ),
        },
        "--mode": {
            "default": Mode.AUTO,
            "choices": modes,
            "help": tr(
                "how target and draft share the devices (default: auto, the fastest expected)"
            ),
        },
        "--format": {
            "default": WeightFormat.AUTO,
            "choices": formats,
            "help": tr("weight format of the target"),
        },
        "--kv": {
            "default": KvType.F16,
            "choices": [str(kv) for kv in KvType],
            "help": tr(
                "type of the KV cache on the CPU: 16-bit floats (default), or 8-bit integers, "
                "which take half the memory"
            ),
        },
        "--context": {
            "type": int,
            "metavar": "N",
            "help": tr("context length to plan for, in tokens"),
        },
        "--vram": size | {"help": tr("use at most this much GPU memory, in GiB")},
        "--layers-on-gpu": {
            "type": layers,
            "metavar": "N|all",
            "help": tr("number of target layers to put on the GPU, or all"),
        },
        "--device": {
            "metavar": "NAME",
            "help": tr("use this device, such as webgpu:0; `duotail hardware` lists them"),
        },
        "--simulate-gpu": size | {"help": tr("simulate a GPU with this much memory, in GiB")},
    }


def _other_options() -> dict[str, dict[str, Any]]:
    """Return the arguments of `add_argument` for all the others."""
    return {
        "--hardware": {
            "type": Path,
            "metavar": "FILE.json",
            "help": tr("plan for the computer in this file, written by `duotail hardware --json`"),
        },
        "--system": {
            "metavar": "TEXT",
            "help": tr("the system prompt of the conversation"),
        },
        "--shape": {
            "metavar": "S",
            "help": tr("random weights of a published shape, such as qwen2.5-1.5b"),
        },
        "--runs": {"type": one_or_more, "metavar": "N", "help": tr("measure this many times")},
        "--tokens": {
            "type": one_or_more,
            "metavar": "N",
            "help": tr("generate this many tokens per answer"),
        },
        "--threads": {"type": one_or_more, "metavar": "N", "help": tr("number of CPU threads")},
        "--peer": {
            "choices": ["llama.cpp"],
            "help": tr("also measure this program, in the same run"),
        },
        "--json": {"action": "store_true", "help": tr("print one JSON object on stdout")},
    }


def add_sampling_options(parser: argparse.ArgumentParser) -> None:
    """Declare --max-tokens, and what `sampling` reads."""
    parser.add_argument(
        "--max-tokens",
        type=one_or_more,
        metavar="N",
        help=tr("end an answer after this many tokens (default: where the model ends it)"),
    )
    parser.add_argument(
        "--seed",
        type=int,
        metavar="S",
        help=tr("seed of the random numbers; 0 (default), or -1 for a new one each time"),
    )
    settings: tuple[tuple[str, type, str, str], ...] = (
        ("--temperature", float, "T",
         tr("sampling temperature; 0 (default): always the most likely token")),
        ("--top-k", int, "K",
         tr("sample from the K most likely tokens only; 0 (default): all tokens")),
        ("--top-p", float, "P",
         tr("sample from the most likely tokens with total probability P only; 1 "
"(default): all tokens")),
        ("--min-p", float, "P",
         tr("drop tokens less likely than P times the most likely one; 0 (default): off")),
        ("--repetition-penalty", float, "X",
         tr("make tokens of prompt and answer less likely by this factor; 1 (default): off")),
        ("--presence-penalty", float, "X",
         tr("subtract X from the logits of tokens already in the answer; 0 (default): off")),
        ("--frequency-penalty", float, "X",
         tr("subtract X from a token's logit per occurrence in the answer; 0 (default): off")),
    )  # fmt: skip
    for option, kind, metavar, words in settings:
        parser.add_argument(option, type=kind, metavar=metavar, help=words)


def load_command(arguments: argparse.Namespace) -> Load:
    """Return the Load command that the options describe.

    Raises:
        UserFixable: the model is unknown.
    """
    return Load(
        model=model_named(arguments.model, arguments.data),
        draft=_draft(arguments.draft, arguments.data),
        mode=Mode(arguments.mode),
        context=arguments.context,
        weights=WeightFormat(arguments.format),
        kv=KvType(arguments.kv),
        vram=arguments.vram,
        layers_on_gpu=arguments.layers_on_gpu,
        simulate_gpu=arguments.simulate_gpu,
        device=arguments.device,
    )


def known_machine(
    described: Path | None, simulate_gpu: int | None, device: str | None = None
) -> tuple[Machine, Speeds]:
    """Return the machine in a file, or this one, and its speeds.

    Args:
        described: a file that `duotail hardware --json` has written; None: this machine.
        simulate_gpu: memory of a simulated GPU in place of the machine's own, in bytes.
        device: the accelerator to plan with, by name; None: whichever is of use.

    Raises:
        UserFixable: the file describes no machine, or there is no such device.
    """
    manager = DeviceManager()
    if described is None:
        machine = manager.look(simulate_gpu, device)
        return machine, manager.speeds(machine)
    machine, speeds = machine_file.read(described)
    if device is not None:
        machine = with_device(machine, device)
    if simulate_gpu is None:
        return machine, speeds
    machine = replace(machine, accelerators=(simulated_accelerator(simulate_gpu),))
    declared = manager.speeds(machine)
    devices = {**declared.devices, **speeds.devices}
    return machine, replace(speeds, devices=devices, links={**declared.links, **speeds.links})


def load_pair(arguments: argparse.Namespace) -> LoadedPair:
    """Load the models that the options name.

    Raises:
        UserFixable: a model is unknown, or its files cannot be used.
    """
    command, manager = load_command(arguments), DeviceManager()
    machine = manager.look(command.simulate_gpu, command.device)
    return load(plan_load(command, machine, manager.speeds(machine)), manager.open)


def sampling(arguments: argparse.Namespace) -> SamplingParams:
    """Return the sampling parameters that the options describe.

    Raises:
        UserFixable: a value is out of its range.
    """
    said = {name: getattr(arguments, name) for name in said_sampling(arguments)}
    if said.get("seed") == _ANY_SEED:
        said["seed"] = secrets.randbits(32)
    try:
        return SamplingParams(**said)
    except ValueError as error:
        raise UserFixable(
            tr("Invalid setting: {error}.").format(error=error), tr("Correct the setting.")
        ) from error


def said_sampling(arguments: argparse.Namespace) -> frozenset[str]:
    """Return the names of the sampling parameters that were given."""
    names = (field.name for field in fields(SamplingParams))
    return frozenset(name for name in names if getattr(arguments, name) is not None)


def one_or_more(text: str) -> int:
    """Parse a whole number of 1 or more."""
    wrong = tr("{text!r} is not a whole number of 1 or more")
    return parsed(text, int, lambda number: number >= 1, wrong)


def gibibytes(text: str) -> int:
    """Parse a size in GiB; returns bytes."""
    wrong = tr("{text!r} is not a size in GiB")
    return round(parsed(text, float, lambda number: 0 <= number < inf, wrong) * GIB)


def probability(text: str) -> float:
    """Parse a number from 0 to 1."""
    wrong = tr("{text!r} is not a number from 0 to 1")
    return parsed(text, float, lambda number: 0 <= number <= 1, wrong)


def layers(text: str) -> int:
    """Parse a number of layers, or "all"."""
    if text == "all":
        return ALL_LAYERS
    if not (text.isascii() and text.isdigit()):
        raise argparse.ArgumentTypeError(
            tr("{text!r} is neither a number of layers nor “all”").format(text=text)
        )
    return int(text)


def parsed(
    text: str, convert: Callable[[str], Number], fits: Callable[[Number], bool], wrong: str
) -> Number:
    """Convert an option's value, or raise ArgumentTypeError with `wrong` where it does not fit."""
    with suppress(ValueError):
        number = convert(text)
        if fits(number):
            return number
    raise argparse.ArgumentTypeError(wrong.format(text=text))


def _draft(value: str, data: Path | None) -> Path | DraftChoice:
    if value in {str(choice) for choice in DraftChoice}:
        return DraftChoice(value)
    return model_named(value, data)

"""A machine and its speeds as a JSON file: to keep, to send, to plan for a machine elsewhere.

    {"accelerators": [{"id": "cuda:0", "name": "...", "software": false, ...}],
     "machine": {"host": {"cores": 8, "memory_total": ..., "memory_available": ...},
                 "accelerators": [{"device": "cuda:0", "name": "...", ...}]},
     "speeds": {"devices": {"cpu": {"device": "cpu", "read_bytes_per_s": ..., ...}}, ...}}

The first list is a summary for scripts, which nobody reads here. Members are those of
`engine.machine.facts` and `engine.machine.speeds`; what has a default there may be left out, the
speeds altogether.
"""

from __future__ import annotations

import json
from dataclasses import dataclass, field, replace
from pathlib import Path

from engine.errors import UserFixable
from engine.language import tr
from engine.machine.facts import CPU, Machine
from engine.machine.speeds import DeviceSpeeds, ProductSpeed, Speeds
from engine.typed_json import WrongMember, decoded, encoded

MOST_BYTES = 1 << 20


@dataclass(frozen=True, slots=True)
class DescribedMachine:
    """Content of a machine file."""

    machine: Machine
    speeds: Speeds = field(default_factory=lambda: Speeds({}))


def write(path: Path, machine: Machine, speeds: Speeds) -> None:
    """Write the file that `read` reads.

    Raises:
        OSError: it cannot be written.
    """
    path.write_text(text(machine, speeds), "utf-8")


def text(machine: Machine, speeds: Speeds) -> str:
    """Return the file's content, one line."""
    listed = [
        {
            "id": found.device,
            "name": found.name,
            "software": found.emulated,
            "usable": not found.unusable,
            "reason": found.unusable,
        }
        for found in machine.accelerators
    ]
    told = {
        "accelerators": listed,
        "machine": encoded(replace(machine, reached=())),
        "speeds": encoded(speeds),
    }
    return json.dumps(told, allow_nan=False) + "\n"


def read(path: Path) -> tuple[Machine, Speeds]:
    """A machine and its speeds; none where the file has none.

    Raises:
        UserFixable: there is no such file, or it is not one of a machine.
    """
    try:
        with path.open("rb") as stream:
            content = stream.read(MOST_BYTES + 1)
    except OSError as error:
        raise UserFixable(
            tr("{path} cannot be read.").format(path=path.name),
            tr("Give the path of a file that `duotail hardware --json` has printed."),
            str(error),
        ) from error
    try:
        if len(content) > MOST_BYTES:
            raise WrongMember(tr("it is too large"))
        found = decoded(DescribedMachine, _without_summary(json.loads(content)), "file")
        _check(found)
    except WrongMember as error:
        raise _not_of_a_machine(path, str(error)) from error
    except (ValueError, RecursionError) as error:
        raise _not_of_a_machine(path, tr("it is not valid JSON"), str(error)) from error
    return found.machine, found.speeds


def _without_summary(content: object) -> object:
    """Drop the summary, and what files of earlier versions say besides: factors for memory."""
    if isinstance(content, dict):
        content.pop("accelerators", None)
    if isinstance(content, dict) and isinstance(machine := content.get("machine"), dict):
        machine.pop("corrections", None)
    return content


def _not_of_a_machine(path: Path, reason: str, details: str = "") -> UserFixable:
    return UserFixable(
        tr("{path} does not describe a machine: {reason}.").format(path=path.name, reason=reason),
        tr("Correct it, or create a new one with `duotail hardware --json`."),
        details or str(path),
    )


def check_speeds(speeds: Speeds) -> None:
    """Refuse speeds that nobody can plan with.

    Raises:
        WrongMember: in words.
    """
    for name, device in speeds.devices.items():
        place = f"file.speeds.devices.{name}"
        if device.device != name:
            raise WrongMember(tr("“{place}” has a different name").format(place=f"{place}.device"))
        _check_device(device, place)
    for name, link in speeds.links.items():
        if min(link.to_bytes_per_s, link.from_bytes_per_s) <= 0:
            raise _not_positive(f"file.speeds.links.{name}")


def _check(found: DescribedMachine) -> None:
    host = found.machine.host
    if host.cores < 1 or host.memory_total < 1:
        raise _not_positive("file.machine.host")
    if any(accelerator.device == CPU for accelerator in found.machine.accelerators):
        raise WrongMember(tr("a GPU is called “cpu”"))
    check_speeds(found.speeds)


def _check_device(device: DeviceSpeeds, place: str) -> None:
    if device.read_bytes_per_s <= 0:
        raise _not_positive(f"{place}.read_bytes_per_s")
    for kind, product in device.products.items():
        _check_product(product, f"{place}.products.{kind}")
    if device.attention is not None:
        _check_product(device.attention, f"{place}.attention")
    if device.attention8 is not None:
        _check_product(device.attention8, f"{place}.attention8")
    if device.small is not None:
        _check_device(device.small, f"{place}.small")


def _check_product(product: ProductSpeed, place: str) -> None:
    rows = product.rows
    if not rows or rows[0] != 1 or list(rows) != sorted(set(rows)):
        raise WrongMember(tr("“{place}” should ascend from 1").format(place=f"{place}.rows"))
    if len(rows) != len(product.bytes_per_s) or min(product.bytes_per_s) <= 0:
        raise _not_positive(f"{place}.bytes_per_s")


def _not_positive(place: str) -> WrongMember:
    return WrongMember(tr("the numbers of “{place}” should be above 0").format(place=place))

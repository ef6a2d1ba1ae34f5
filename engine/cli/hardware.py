"""`duotail hardware`: what is here, what is missing and why, and how fast it all is."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Iterator

from engine.cli.exit_code import ExitCode
from engine.cli.options import add_options
from engine.cli.output import show_progress, table
from engine.devices import machine_file
from engine.language import listed, number, tr
from engine.language.units import memory
from engine.loading.devices import DeviceManager
from engine.machine.facts import Accelerator, Host, Machine, Missing
from engine.machine.speeds import DeviceSpeeds, LinkSpeed, Speeds

ROWS = (1, 4, 8, 16, 64)
GIGA = 1e9


def add_parser(commands: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    """Declare the sub-command."""
    parser = commands.add_parser(
        "hardware", help=tr("describe this computer and its measured speed, for duotail plan")
    )
    parser.add_argument(
        "--calibrate",
        action="store_true",
        help=tr("measure the devices now (a few seconds)"),
    )
    add_options(parser, "--simulate-gpu", "--json")
    parser.set_defaults(run=run)


def run(arguments: argparse.Namespace) -> ExitCode:
    """Look, measure if asked, and print."""
    manager = DeviceManager()
    if arguments.calibrate and arguments.simulate_gpu is None:
        manager.try_adapters(_progress, lambda: False)
    machine = manager.look(arguments.simulate_gpu, adapters=True)
    if arguments.calibrate:
        speeds = manager.measure_all(machine, _progress, lambda: False)
        show_progress("")
    else:
        speeds = manager.speeds(machine)
    if arguments.json:
        sys.stdout.write(machine_file.text(machine, speeds))
    else:
        sys.stdout.writelines(f"{line}\n" for line in (*_machine(machine), "", *_speeds(speeds)))
    return ExitCode.DONE


def _progress(stage: str, fraction: float) -> None:
    show_progress(f"{number(fraction, '.0%')} {stage}")


def _machine(machine: Machine) -> Iterator[str]:
    yield from _host(machine.host)
    if not machine.accelerators:
        yield tr("No GPU was found.")
    for found in machine.accelerators:
        yield ""
        yield from _accelerator(found)


def _host(host: Host) -> Iterator[str]:
    yield host.name or tr("Unknown processor")
    cores = tr("{cores} cores, {threads} threads").format(cores=host.cores, threads=host.threads)
    if host.fast_cores is not None:
        cores += tr(", {fast} performance cores").format(fast=host.fast_cores)
    yield f"  {cores}"
    free = tr("{total} of memory, {free} free")
    yield "  " + free.format(total=memory(host.memory_total), free=memory(host.memory_available))
    if host.instruction_sets:
        yield "  " + listed(host.instruction_sets)
    if host.kernels_left_out:
        said = tr("kernels in use: {kernels}; not built here: {others}")
        yield "  " + said.format(kernels=host.kernels, others=listed(host.kernels_left_out))
    elif host.kernels:
        yield "  " + tr("kernels in use: {kernels}").format(kernels=host.kernels)
    yield from _missing(host.missing)


def _accelerator(found: Accelerator) -> Iterator[str]:
    device = f" ({found.device})" if found.device else ""
    yield f"{found.name}{device}"
    if found.unusable:
        said = (
            tr("used by name only: {reason}") if found.by_name else tr("cannot be used: {reason}")
        )
        yield "  " + said.format(reason=found.unusable)
    elif found.without_kernels:
        yield "  " + tr("Slow here: {reason}").format(reason=found.without_kernels)
    if found.path and not found.unusable:
        yield f"  {found.path}"
    if found.memory_total is not None:
        amounts = memory(found.memory_total), memory(found.memory_free or 0)
        said = tr("{total} of memory, {free} free").format(total=amounts[0], free=amounts[1])
        yield f"  {said}"
    if found.unified:
        yield "  " + tr("shares the computer's memory")
    if found.driver:
        yield "  " + tr("driver {version}").format(version=found.driver)
    yield from _missing(found.missing)


def _missing(facts: tuple[Missing, ...]) -> Iterator[str]:
    for missing in facts:
        said = tr("{fact}: unknown, {reason}")
        yield "  " + said.format(fact=missing.fact, reason=missing.reason)


def _speeds(speeds: Speeds) -> Iterator[str]:
    if not speeds.measured:
        yield tr("Not measured yet; run `duotail hardware --calibrate` (a few seconds).")
    for device in speeds.devices.values():
        yield from _device(device, speeds.links.get(device.device))


def _device(device: DeviceSpeeds, link: LinkSpeed | None) -> Iterator[str]:
    reading = tr("{device}: reads {speed} GB/s").format(
        device=device.device, speed=_giga(device.read_bytes_per_s)
    )
    if device.threads:
        reading += tr(" with {threads} threads").format(threads=device.threads)
    yield reading
    rows = [[tr("weights, GB/s by rows"), *map(str, ROWS)]]
    for kind, product in device.products.items():
        rows.append([kind, *(_giga(1 / product.seconds_per_byte(count)) for count in ROWS)])
    yield from (f"  {line}" for line in table(rows))
    beside = tr("overhead: {forward} per forward, {block} per block, {row} per further row")
    times = device.forward_s, device.block_s, device.row_s
    forward, block, row = (_microseconds(seconds) for seconds in times)
    yield "  " + beside.format(forward=forward, block=block, row=row)
    attention = _giga(1 / device.attending().seconds_per_byte(1))
    yield "  " + tr("KV cache: {speed} GB/s").format(speed=attention)
    if link is not None:
        copies = tr("copies: {to} GB/s to the device, {back} GB/s back, latency {latency}")
        yield "  " + copies.format(
            to=_giga(link.to_bytes_per_s),
            back=_giga(link.from_bytes_per_s),
            latency=_microseconds(link.latency_s),
        )


def _giga(bytes_per_s: float) -> str:
    return number(bytes_per_s / GIGA, ".1f")


def _microseconds(seconds: float) -> str:
    return tr("{n} µs").format(n=number(1e6 * seconds, ".0f"))

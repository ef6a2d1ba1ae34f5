"""What a load would come to: planned beside the engine's thread, while that writes or loads."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from time import perf_counter

from engine.commands import Load, Mode, Preview
from engine.errors import OutOfMemory, UserFixable
from engine.events import Previewed
from engine.events.curve import Curve
from engine.loading.checking import Read
from engine.loading.load import LoadedPair
from engine.loading.machinery import Machinery
from engine.machine.facts import CPU, Machine
from engine.machine.speeds import Speeds
from engine.service.newest_question import NewestQuestion
from engine.service.refusing import refused


class Previewer:
    """Answers `Preview` in a thread of its own, which begins with the first question.

    A question that comes while another one waits takes its place.

    Args:
        emit: takes the answers; called from the previewer's thread.
        machinery: what there is.
        pair: the loaded pair in force, whose memory would come back.
    """

    def __init__(
        self,
        emit: Callable[[Previewed], None],
        machinery: Machinery,
        pair: Callable[[], LoadedPair | None],
    ) -> None:
        self._machinery, self._pair = machinery, pair
        self._thread = NewestQuestion[Load, Previewed]("previewer", self._preview, emit)

    def ask(self, preview: Preview) -> None:
        """Plan this load, and no older one; never blocks."""
        self._thread.ask(preview.load)

    def close(self, timeout: float) -> None:
        """End the thread."""
        self._thread.close(timeout)

    def _preview(self, load: Load) -> Previewed:
        machine = self._machinery.look(load.simulate_gpu)
        pair = self._pair()
        known = None
        if pair is not None:
            machine, known = with_memory_of(pair, machine), pair.text
        del pair  # its weights must be free to go meanwhile
        speeds = self._machinery.speeds(machine)
        try:
            read = Read.of(load, machine, known)
            _, plan = read.planned(speeds)
        except (UserFixable, OSError) as error:
            refusal = refused(error, machine)
            curves = () if not isinstance(error, OutOfMemory) else _curves(read, load.mode, speeds)
            return Previewed(perf_counter(), load, machine, None, curves, refusal, speeds)
        curves = _curves(_whole(read, machine), load.mode, speeds)
        made = read.summary(plan, speeds)
        return Previewed(perf_counter(), load, machine, made, curves, speeds=speeds)


def with_memory_of(pair: LoadedPair, machine: Machine) -> Machine:
    """The machine as it will be when a pair is gone."""
    host = machine.host
    free = host.memory_available + pair.held_on(CPU)
    return replace(machine, host=replace(host, memory_available=free))


def _whole(read: Read, machine: Machine) -> Read:
    """With the draft that other modes than plain would have."""
    if read.command.mode is not Mode.PLAIN:
        return read
    try:
        return Read.of(replace(read.command, mode=Mode.AUTO), machine, read.text)
    except UserFixable:
        return read


def _curves(read: Read, first: Mode, speeds: Speeds) -> tuple[Curve, ...]:
    """Of all modes that are possible at all."""
    found = []
    for mode in sorted(Mode, key=lambda mode: mode is not first):
        try:
            found.append(read.planning(mode, speeds).curve())
        except OutOfMemory as error:
            layers = len(read.target.facts.footprint.blocks)
            found.append(Curve(mode, (), 0, 0, layers, 0, str(error)))
        except UserFixable:
            continue
    return tuple(found)

"""The course of a calibration: what is measured, in which order, and for how long."""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import closing, contextmanager
from dataclasses import dataclass, replace
from functools import partial
from time import perf_counter

from engine.backend.cpu import CpuDevice, native_is_built, threads_for
from engine.backend.device import Device
from engine.backend.real_device import open_accelerator
from engine.commands import KvType
from engine.devices.calibration.fit import Beside, fit_attention, fit_beside, fit_product
from engine.devices.calibration.small_model import (
    CONTEXT,
    NARROW,
    TINY,
    WIDE,
    SmallModel,
    SmallShape,
)
from engine.devices.calibration.timing import (
    LONGEST_S,
    MOST_ROUNDS,
    Course,
    Progress,
    Timings,
    device_reader,
    host_reader,
    measure_link,
    measure_webgpu_link,
    undisturbed,
)
from engine.errors import UserFixable
from engine.language import tr
from engine.machine.facts import CPU, WEBGPU, Machine
from engine.machine.sandbox import LimitExceeded, QuestionFailed, Sandbox
from engine.machine.sandbox_process import SandboxLimits
from engine.machine.speeds import SMALL_BYTES, DeviceSpeeds, LinkSpeed, ProductSpeed, Speeds
from engine.typed_json import WrongMember, decoded, encoded

USUAL = ("Q4_0", "Q8_0", "Q4_K", "Q6_K", "BF16")
"""Types of weights that nearly all models have; others are measured when one is loaded."""

PORTABLE = ("F32",)
"""Without the native library."""

ROWS = (1, 2, 4, 5, 8, 9, 16, 32, 64)
"""Among them those where the native products begin another group of rows, which takes a step."""
BLOCKS_OF_NARROW, BLOCKS_OF_EIGHT = (24, 4), 12
MOST_QUERIES = ROWS[-1] * WIDE.heads // WIDE.kv_heads

READING_S, MAKING_S, COMPUTING_S, KIND_S, LINK_S, SMALL_S = 0.15, 0.08, 0.5, 0.3, 0.1, 0.2
"""Seconds that the stages may take; making and computing are for each type of weights."""

SMALL_ROWS = ROWS[:6]
BLOCKS_OF_NARROW_SMALL, BLOCKS_OF_TINY = 2, (6, 2)
"""Models that caches hold, for targets of up to `SMALL_BYTES`."""

LEAST_SHARE = 0.6
"""Least share of the computing time to keep where making weights took longer than planned."""

MIB = 2**20
BYTES = 96 * MIB
"""Of the weights of each type. They take turns, so that half a GiB is read before the same come
again: more than caches hold. On a virtual machine with 480 MiB of shared cache one model of 107 MB
alone was read a third faster than those of 200 MB to 1.2 GB, which were within 5 %."""

BYTES_ALONE = 256 * MIB
"""Bytes of the weights where there is only one type."""

MEMORY_SHARE = 0.25
"""Share of the free memory that models may take."""

_APART = SandboxLimits(seconds=60, nbytes=None, patience=3)
"""A driver compiles shaders first."""

_log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class _Subject:
    """A device to measure: its name in plans, its label for people, its free bytes."""

    name: str
    label: str
    free: int
    threads: int | None

    @property
    def is_host(self) -> bool:
        return self.name == CPU

    def asked_apart(self, devices: Mapping[str, Device]) -> bool:
        """Tell whether a process of its own measures it; not where it is open here."""
        return self.name.startswith(WEBGPU) and self.name not in devices

    def room(self, nbytes: int, count: int = 1) -> int:
        """Return `nbytes`, or less where there is less memory for so many models."""
        return min(nbytes, int(self.free * MEMORY_SHARE) // count) if self.free else nbytes


def calibrate(
    machine: Machine,
    *,
    progress: Progress,
    cancelled: Callable[[], bool],
    kinds: Sequence[str] = USUAL,
    devices: Mapping[str, Device] | None = None,
    clock: Callable[[], float] = perf_counter,
) -> Speeds:
    """Measure the processor and every accelerator that can be used; about three seconds each.

    An accelerator that fails meanwhile is left out.

    Args:
        machine: what is here; simulated accelerators are not measured.
        progress: told where it is, several times a second.
        cancelled: asked several times a second.
        kinds: types of weights; without the native library others, see `PORTABLE`.
        devices: opened already, by name; others are opened here.
        clock: seconds.

    Raises:
        Cancelled: called off; nothing is left of it.
    """
    kinds = kinds if native_is_built() else PORTABLE
    subjects = _subjects(machine)
    each = READING_S + COMPUTING_S + len(kinds) * (MAKING_S + KIND_S)
    total = len(subjects) * each + (len(subjects) - 1) * LINK_S + SMALL_S
    course = Course(total, clock, progress, cancelled)
    found: dict[str, DeviceSpeeds] = {}
    links: dict[str, LinkSpeed] = {}
    for subject in subjects:
        if subject.asked_apart(devices or {}):
            course.begin(tr("Computing small models on {name}").format(name=subject.label), each)
            with _forgiving(subject):
                told = _apart(adapter_speeds, subject, course, list(kinds))
                found |= told.devices
                links |= told.links
            continue
        with _forgiving(subject), _opened(subject, devices or {}) as device:
            found[subject.name] = _measure(subject, device, kinds, course)
            if subject.is_host and native_is_built():
                small = _small(subject, devices or {}, kinds, course)
                found[CPU] = replace(found[CPU], small=small)
            if not subject.is_host:
                links[subject.name] = _link(subject, device, course)
    course.check()
    whole = {name: speeds for name, speeds in found.items() if name == CPU or name in links}
    return Speeds(whole, links, measured=True)


def calibrate_kinds(
    speeds: Speeds,
    kinds: Sequence[str],
    machine: Machine,
    *,
    cancelled: Callable[[], bool],
    devices: Mapping[str, Device] | None = None,
    clock: Callable[[], float] = perf_counter,
) -> Speeds:
    """Return these speeds with further types of weights, at about half a second for each.

    Raises:
        Cancelled: called off.
    """
    found = dict(speeds.devices)
    for subject in _subjects(machine):
        known = found.get(subject.name)
        wanted = [kind for kind in kinds if known is not None and kind not in known.products]
        if known is None or not wanted or not native_is_built():
            continue
        course = Course(len(wanted) * (MAKING_S + KIND_S), clock, lambda *_: None, cancelled)
        with _forgiving(subject):
            if subject.asked_apart(devices or {}):
                found |= _apart(adapter_kinds, subject, course, wanted, encoded(known)).devices
                continue
            with _opened(subject, devices or {}) as device:
                found[subject.name] = _further(subject, device, wanted, known, course)
    return replace(speeds, devices=found)


def adapter_speeds(name: str, label: str, free: int, kinds: Sequence[str]) -> object:
    """Measure an adapter: asked in a process of its own, as drivers may crash or hang.

    Args:
        name: of the device in plans.
        label: for people.
        free: bytes of its memory, 0: nobody knows.
        kinds: types of weights.

    Returns:
        Speeds, as JSON carries them.
    """
    subject, course = _Subject(name, label, free, None), _alone()
    with _opened(subject, {}) as device:
        speeds = _measure(subject, device, kinds, course)
        return encoded(Speeds({name: speeds}, {name: _link(subject, device, course)}))


def adapter_kinds(name: str, label: str, free: int, kinds: Sequence[str], known: object) -> object:
    """Measure further types of weights on an adapter whose other speeds are known.

    See `adapter_speeds`.
    """
    subject, course = _Subject(name, label, free, None), _alone()
    with _opened(subject, {}) as device:
        speeds = decoded(DeviceSpeeds, known, name)
        return encoded(Speeds({name: _further(subject, device, kinds, speeds, course)}))


def _alone() -> Course:
    """Course of a measurement that another process reports and calls off."""
    return Course(1.0, perf_counter, lambda *_: None, lambda: False)


def _apart(
    function: Callable[..., object], subject: _Subject, course: Course, *args: object
) -> Speeds:
    """Return what a function measures in a process of its own."""

    def stopped() -> bool:
        course.check()
        return False

    with closing(Sandbox()) as sandbox:
        about = subject.name, subject.label, subject.free
        told = sandbox.ask(function, *about, *args, limits=_APART, stopped=stopped)
    return decoded(Speeds, told, subject.name)


def _subjects(machine: Machine) -> list[_Subject]:
    """Return the devices to measure, the processor first."""
    host = machine.host
    name = host.name or tr("the processor")
    accelerators = [
        _Subject(found.device, found.name, found.memory_free or 0, None)
        for found in machine.usable
        if not found.simulated
    ]
    return [_Subject(CPU, name, host.memory_available, None), *accelerators]


@contextmanager
def _opened(subject: _Subject, devices: Mapping[str, Device]) -> Iterator[Device]:
    """Open the device, and close it afterwards if it was not open before."""
    if subject.name in devices:
        yield devices[subject.name]
    elif subject.is_host:
        yield CpuDevice(threads=subject.threads)
    else:
        device = open_accelerator(subject.name)
        try:
            yield device
        finally:
            device.close()


@contextmanager
def _forgiving(subject: _Subject) -> Iterator[None]:
    """Leave out an accelerator that fails, or its process; torch's errors are RuntimeErrors."""
    try:
        yield
    except (UserFixable, RuntimeError, LimitExceeded, QuestionFailed, WrongMember):
        if subject.is_host:
            raise
        _log.warning("%s cannot be measured", subject.name, exc_info=True)


def _measure(
    subject: _Subject, device: Device, kinds: Sequence[str], course: Course
) -> DeviceSpeeds:
    """Measure everything about one device."""
    planned = COMPUTING_S + len(kinds) * KIND_S
    end = course.clock() + READING_S + len(kinds) * MAKING_S + planned
    read = _reading(subject, device, course)
    room = subject.room(BYTES if len(kinds) > 1 else BYTES_ALONE, len(kinds) + 1)
    first, *others = kinds

    def narrow(blocks: int) -> SmallModel:
        return SmallModel(device, first, NARROW, blocks, context=CONTEXT, check=course.check)

    most, least = BLOCKS_OF_NARROW
    shallow = narrow(least)
    fitting = _fitting(shallow, course)
    deep = narrow(min(most, max(2 * least, int(fitting * least))))
    room = min(room, int(fitting * shallow.weight_bytes))
    wide = {first: _make(device, first, room, course, CONTEXT)}
    wide |= {kind: _make(device, kind, room, course) for kind in others}
    eight = None
    if subject.is_host and native_is_built():
        eight = SmallModel(
            *(device, first, NARROW, BLOCKS_OF_EIGHT),
            context=CONTEXT,
            kv=KvType.Q8,
            check=course.check,
        )
    stage = tr("Computing small models on {name}").format(name=subject.label)
    course.begin(stage, planned, max(end - course.clock(), planned * LEAST_SHARE))
    found = _computed(subject, wide, (deep, shallow), ROWS, course, eight)
    return replace(found, read_bytes_per_s=max(read, found.read_bytes_per_s))


def _fitting(model: SmallModel, course: Course) -> float:
    """Return how many times as large a model may be for a forward of one row to be timed often.

    A slow device measures smaller ones, so that nobody waits for it.
    """
    run = partial(model.run, 1, 0)
    course.seconds(run)  # shaders compiled, pages in place
    return LONGEST_S / max(course.seconds(run), 1e-9)


def _small(
    subject: _Subject, devices: Mapping[str, Device], kinds: Sequence[str], course: Course
) -> DeviceSpeeds:
    """Measure models that fit into caches, with the threads that such targets get."""
    subject = replace(subject, threads=threads_for(SMALL_BYTES))
    course.begin(tr("Computing small models on {name}").format(name=subject.label), SMALL_S)
    with _opened(subject, devices) as device:

        def model(kind: str, form: SmallShape, blocks: int) -> SmallModel:
            return SmallModel(device, kind, form, blocks, context=CONTEXT, check=course.check)

        larger = {kind: model(kind, NARROW, BLOCKS_OF_NARROW_SMALL) for kind in kinds}
        deep, shallow = (model(kinds[0], TINY, blocks) for blocks in BLOCKS_OF_TINY)
        return _computed(subject, larger, (deep, shallow), SMALL_ROWS, course)


def _computed(
    subject: _Subject,
    wide: Mapping[str, SmallModel],
    narrow: tuple[SmallModel, SmallModel],
    rows: Sequence[int],
    course: Course,
    eight: SmallModel | None = None,
) -> DeviceSpeeds:
    """Measure a wide model of each type of weights, and a deep and a shallow one of the first.

    `eight`: another of the first with keys and values in 8 bits, where there are any.
    """
    first, *others = wide.values()
    deep, shallow = narrow
    telling = [(first, 0), (first, CONTEXT), (deep, 0), (deep, CONTEXT), (shallow, 0)]
    timings = Timings(course)
    behind = [(eight, CONTEXT)] if eight else []
    timings.first([*telling, *behind, *((model, 0) for model in others)], rows)
    timings.repeat()
    beside = fit_beside(timings.samples(telling))
    products = {
        kind: fit_product(timings.samples([(model, 0)]), beside) for kind, model in wide.items()
    }
    first_product = next(iter(products.values()))
    return DeviceSpeeds(
        device=subject.name,
        # What products read can be read.
        read_bytes_per_s=max(product.bytes_per_s[0] for product in products.values()),
        products=products,
        forward_s=beside.forward,
        block_s=beside.block,
        row_s=beside.row,
        attention=beside.attention(MOST_QUERIES),
        attention8=fit_attention(timings.samples(behind), beside, first_product, MOST_QUERIES),
        threads=_threads(subject),
    )


def _further(
    subject: _Subject,
    device: Device,
    kinds: Sequence[str],
    known: DeviceSpeeds,
    course: Course,
) -> DeviceSpeeds:
    """Return a device's speeds with further types of weights."""
    beside = _beside_of(known)
    more = {kind: _product(subject, device, kind, beside, course) for kind in kinds}
    return replace(known, products={**known.products, **more})


def _product(
    subject: _Subject, device: Device, kind: str, beside: Beside, course: Course
) -> ProductSpeed:
    """Measure one more type of weights."""
    model = _make(device, kind, subject.room(BYTES_ALONE), course)
    course.begin(kind, KIND_S)
    timings = Timings(course)
    timings.first([(model, 0)], ROWS)
    timings.repeat()
    return fit_product(timings.samples([(model, 0)]), beside)


def _make(device: Device, kind: str, nbytes: int, course: Course, context: int = 0) -> SmallModel:
    """Make a model of about so many bytes."""
    course.begin(tr("Making {kind} weights").format(kind=kind), MAKING_S)
    blocks = max(1, round(nbytes / WIDE.block_bytes(kind)))
    return SmallModel(device, kind, WIDE, blocks, context=context, check=course.check)


def _reading(subject: _Subject, device: Device, course: Course) -> float:
    course.begin(tr("Reading the memory of {name}").format(name=subject.label), READING_S)
    nbytes = subject.room(BYTES_ALONE)
    if subject.name.startswith(WEBGPU):
        return 0.0  # what its products read
    if subject.is_host:
        read = host_reader(device, nbytes, subject.threads, course.check)
    else:
        read = device_reader(device.name, nbytes)
    spent = [course.seconds(read)]
    while course.left > 0 and len(spent) < MOST_ROUNDS:
        spent.append(course.seconds(read))
    return nbytes / max(undisturbed(spent), 1e-9)


def _link(subject: _Subject, device: Device, course: Course) -> LinkSpeed:
    course.begin(tr("Copying to {name} and back").format(name=subject.label), LINK_S)
    measure = measure_webgpu_link if subject.name.startswith(WEBGPU) else measure_link
    return replace(measure(device.name, course), device=subject.name)


def _threads(subject: _Subject) -> int:
    if not subject.is_host or not native_is_built():
        return 0
    from engine.machine.cores import default_threads

    return subject.threads or default_threads()


def _beside_of(speeds: DeviceSpeeds) -> Beside:
    """Recover `Beside` from kept speeds."""
    attention = speeds.attending()
    first, second = attention.seconds_per_byte(1), attention.seconds_per_byte(2)
    query = second - first
    return Beside(speeds.forward_s, speeds.block_s, speeds.row_s, first - query, query)

from __future__ import annotations

import json
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from engine.devices.machine_file import read, write
from engine.errors import UserFixable
from engine.machine.facts import Accelerator, Host, Machine, Missing, Vendor
from engine.machine.speeds import DeviceSpeeds, LinkSpeed, ProductSpeed, Speeds

GIB = 2**30
_TEXTS = st.text(st.characters(exclude_categories=["Cs"]), max_size=12)
_COUNTS = st.integers(1, 2**62)
_POSITIVE = st.floats(1e-9, 1e18)
_MISSING = st.lists(st.builds(Missing, _TEXTS, _TEXTS), max_size=2).map(tuple)


@st.composite
def _products(draw: st.DrawFn) -> ProductSpeed:
    rows = (1, *sorted(draw(st.sets(st.integers(2, 512), max_size=4))))
    return ProductSpeed(rows, tuple(draw(_POSITIVE) for _ in rows))


@st.composite
def _machines(draw: st.DrawFn) -> Machine:
    host = draw(
        st.builds(
            Host,
            *(_COUNTS, _COUNTS, _COUNTS),
            name=_TEXTS,
            fast_cores=st.none() | _COUNTS,
            instruction_sets=st.lists(_TEXTS, max_size=2).map(tuple),
            missing=_MISSING,
        )
    )
    accelerator = st.builds(
        Accelerator,
        st.sampled_from(["", "cuda:0", "mps"]),
        _TEXTS,
        vendor=st.sampled_from(Vendor),
        memory_total=st.none() | _COUNTS,
        unified=st.booleans(),
        missing=_MISSING,
    )
    return Machine(host, tuple(draw(st.lists(accelerator, max_size=2))))


@st.composite
def _speeds(draw: st.DrawFn) -> Speeds:
    names = draw(st.sets(st.sampled_from(["cpu", "cuda:0", "xpu:1"])))
    products = st.dictionaries(st.sampled_from(["Q4_0", "Q6_K"]), _products())
    times, small = st.floats(0, 10), st.booleans()
    devices = {
        name: DeviceSpeeds(
            *(name, draw(_POSITIVE), draw(products), draw(times), draw(times)),
            attention=draw(st.none() | _products()),
            attention8=draw(st.none() | _products()),
            small=DeviceSpeeds(name, draw(_POSITIVE), draw(products)) if draw(small) else None,
        )
        for name in names
    }
    links = {name: LinkSpeed(name, draw(_POSITIVE), draw(_POSITIVE), 1e-6) for name in names}
    return Speeds(devices, links, draw(st.booleans()))


@given(_machines(), _speeds())
def test_what_is_written_is_read(
    tmp_path_factory: pytest.TempPathFactory, machine: Machine, speeds: Speeds
) -> None:
    path = tmp_path_factory.mktemp("machine") / "machine.json"
    write(path, machine, speeds)
    assert read(path) == (machine, speeds)


def _described() -> dict[str, object]:
    """By hand, with no more than is needed."""
    return {"machine": {"host": {"cores": 4, "memory_total": 8 * GIB, "memory_available": GIB}}}


def _read(tmp_path: Path, content: object) -> tuple[Machine, Speeds]:
    path = tmp_path / "machine.json"
    path.write_text(content if isinstance(content, str) else json.dumps(content), "utf-8")
    return read(path)


def test_what_has_a_default_may_be_left_out(tmp_path: Path) -> None:
    machine, speeds = _read(tmp_path, _described())
    assert machine == Machine(Host(cores=4, memory_total=8 * GIB, memory_available=GIB))
    assert speeds == Speeds({})


def test_factors_of_earlier_versions_are_passed_over(tmp_path: Path) -> None:
    assert _read(tmp_path, _with("machine.corrections", [])) == _read(tmp_path, _described())


def _with(place: str, value: object) -> dict[str, object]:
    """The described machine, with one member set."""
    described = _described()
    *path, last = place.split(".")
    inner = described
    for name in path:
        inner = inner.setdefault(name, {})  # type: ignore[assignment]
    inner[last] = value
    return described


_LINK = {"device": "cuda:0", "to_bytes_per_s": 1.0, "from_bytes_per_s": 1.0, "latency_s": 0.0}
_CPU = {"device": "cpu", "read_bytes_per_s": 1e10, "products": {}}


@pytest.mark.parametrize(
    ("content", "said"),
    [
        ("{", "it is not valid JSON"),
        ("[" * 200_000, "it is not valid JSON"),
        ("[]", "“file” should be an object"),
        ("{}", "“file.machine” is missing"),
        ('{"machine": 1e400}', "“file.machine” should be an object"),
        (" " * (2 << 20), "it is too large"),
        (_with("machine.host.cores", 0), "above 0"),
        (
            _with(
                "speeds",
                {"devices": {"cpu": _CPU}, "links": {"cuda:0": _LINK | {"to_bytes_per_s": -1.0}}},
            ),
            "speeds.links.cuda:0",
        ),
        (_with("machine.host.cores", 2.5), "“file.machine.host.cores” should be a whole number"),
        (_with("machine.host.cores", True), "“file.machine.host.cores” should be a whole number"),
        (_with("machine.host.memory_total", -1), "not negative"),
        (_with("machine.host.memory_total", float("nan")), "not negative"),
        (_with("machine.host.memory_total", 10**400), "not negative"),
        (_with("speeds.devices.cpu", _CPU | {"forward_s": 10**400}), "not negative"),
        (_with("machine.host.name", 5), "“file.machine.host.name” should be a text"),
        (_with("machine.host.coers", 4), "not known: coers"),
        (_with("machine.accelerators", {}), "should be a list"),
        (
            _with("machine.accelerators", [{"device": "cuda:0", "name": "", "vendor": "acme"}]),
            "“file.machine.accelerators[0].vendor” should be one of nvidia",
        ),
        (_with("machine.accelerators", [{"device": "cpu", "name": ""}]), "called “cpu”"),
        (_with("speeds.devices.cpu", _CPU | {"read_bytes_per_s": 0}), "above 0"),
        (_with("speeds.devices.cpu", _CPU | {"device": "cuda:0"}), "has a different name"),
        (
            _with(
                "speeds.devices.cpu",
                _CPU | {"products": {"Q4_0": {"rows": [1, 8, 4], "bytes_per_s": [1, 1, 1]}}},
            ),
            "“file.speeds.devices.cpu.products.Q4_0.rows” should ascend from 1",
        ),
        (
            _with(
                "speeds.devices.cpu",
                _CPU | {"products": {"Q4_0": {"rows": [1, 8], "bytes_per_s": [1]}}},
            ),
            "above 0",
        ),
        (
            _with("speeds.devices.cpu", _CPU | {"attention": {"rows": [1], "bytes_per_s": [0]}}),
            "“file.speeds.devices.cpu.attention.bytes_per_s” should",
        ),
    ],
)
def test_what_is_wrong_is_said(tmp_path: Path, content: object, said: str) -> None:
    with pytest.raises(UserFixable) as raised:
        _read(tmp_path, content)
    assert said in raised.value.cause
    assert "machine.json" in raised.value.cause


def test_a_file_that_is_not_there(tmp_path: Path) -> None:
    with pytest.raises(UserFixable, match="cannot be read"):
        read(tmp_path / "none.json")

"""A library whose structures are other than Python's is refused before anything is passed to it."""

from __future__ import annotations

import ctypes as c
import logging
from collections.abc import Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import cast

import pytest

from engine.backend import cpu
from engine.backend.native import library as native
from engine.backend.native.library import (
    ABI_VERSION,
    STRUCTURES,
    Isa,
    StaleLibrary,
    check_abi,
    instruction_sets,
    library,
)
from engine.commands import WeightFormat
from engine.devices.probe import probe_machine
from engine.errors import Absent, UserFixable

SIZES = [c.sizeof(structure) for structure in STRUCTURES]


def lib_that_tells(numbers: list[int]) -> c.CDLL:
    """A library with that dt_abi()."""
    array = (c.c_int32 * len(numbers))(*numbers)
    told = c.cast(array, c.POINTER(c.c_int32))

    class Abi:
        def __call__(self) -> object:
            return told

    return cast("c.CDLL", SimpleNamespace(dt_abi=Abi(), kept=array))


def test_the_library_and_python_agree() -> None:
    told = library().dt_abi()
    assert told[: 2 + len(STRUCTURES)] == [ABI_VERSION, len(STRUCTURES), *SIZES]
    check_abi(lib_that_tells([ABI_VERSION, len(SIZES), *SIZES]))


@pytest.mark.parametrize("place", range(2 + len(STRUCTURES)))
def test_any_other_number_is_refused(place: int) -> None:
    numbers = [ABI_VERSION, len(SIZES), *SIZES]
    numbers[place] += 8 if place != 1 else -1
    with pytest.raises(StaleLibrary, match="another version") as caught:
        check_abi(lib_that_tells(numbers))
    assert "Install Duotail again" in caught.value.remedy
    assert str(ABI_VERSION) in caught.value.details


def test_a_library_without_the_function_is_refused() -> None:
    with pytest.raises(StaleLibrary):
        check_abi(cast("c.CDLL", SimpleNamespace()))


@pytest.fixture
def stale(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    monkeypatch.setattr(native, "ABI_VERSION", ABI_VERSION + 1)
    library.cache_clear()
    cpu._warn_once.cache_clear()
    yield
    monkeypatch.undo()
    library.cache_clear()
    library()


@pytest.mark.usefixtures("isa_as_before")
def test_instruction_sets_of_other_processors_are_refused() -> None:
    assert instruction_sets()[0] is Isa.PORTABLE
    assert instruction_sets()[-1] == library().dt_best_isa()
    for isa in Isa:
        accepted = library().dt_use_isa(isa) == 0
        assert accepted == (isa in instruction_sets()), isa.name
    assert library().dt_use_isa(-1) != 0
    assert library().dt_use_isa(len(Isa)) != 0


def test_a_file_that_is_no_library_is_told(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    (tmp_path / "_native").write_bytes(b"half a download")
    monkeypatch.setattr(native, "FILE", tmp_path / "_native")
    library.cache_clear()
    cpu._warn_once.cache_clear()
    with caplog.at_level(logging.WARNING):
        assert not cpu.native_is_built()
    assert "does not load on this computer" in caplog.records[0].getMessage()
    monkeypatch.setattr(native, "FILE", tmp_path / "no library at all")
    with pytest.raises(Absent, match="no C compiler"):
        library()


@pytest.mark.usefixtures("stale")
def test_the_app_falls_back_and_says_why(caplog: pytest.LogCaptureFixture) -> None:
    with caplog.at_level(logging.WARNING):
        assert not cpu.native_is_built()
        assert not cpu.native_is_built()
        assert cpu.choose_format(WeightFormat.AUTO, 100) is WeightFormat.F32
    (record,) = caplog.records
    assert "Install Duotail again" in record.getMessage()
    with pytest.raises(StaleLibrary):
        cpu.choose_format(WeightFormat.Q4, 100)


def test_instructions_that_are_none_are_told(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("DUOTAIL_ISA", "mmx")
    with pytest.raises(UserFixable, match="does not support DUOTAIL_ISA=mmx") as error:
        native._force_isa(native.library())
    assert "portable" in error.value.remedy


def built_with(*isas: Isa) -> c.CDLL:
    """A library with some kernels on a processor that has AVX-512."""

    class Library:
        def dt_processor_isas(self) -> int:
            return 1 << Isa.PORTABLE | 1 << Isa.AVX2 | 1 << Isa.AVX512

        def dt_has_isa(self, isa: int) -> bool:
            return isa in isas

        def dt_best_isa(self) -> int:
            return max(isas)

        dt_current_isa = dt_best_isa

        def dt_use_isa(self, isa: int) -> int:
            return 0 if isa in isas else -2

    return cast("c.CDLL", Library())


def test_kernels_that_were_left_out_are_told_from_those_that_cannot_run(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    lib = built_with(Isa.PORTABLE, Isa.AVX512)
    for name in ("portable", "avx512", "AVX512"):
        monkeypatch.setenv("DUOTAIL_ISA", name)
        native._force_isa(lib)
    monkeypatch.setenv("DUOTAIL_ISA", "avx2")
    with pytest.raises(UserFixable, match="built without the kernels for avx2") as error:
        native._force_isa(lib)
    assert "make test" in error.value.remedy
    monkeypatch.setenv("DUOTAIL_ISA", "amx")
    with pytest.raises(UserFixable, match="processor does not support DUOTAIL_ISA=amx"):
        native._force_isa(lib)


@pytest.mark.parametrize(
    ("built", "used", "left_out", "told"),
    [
        ((Isa.PORTABLE, Isa.AVX512), "avx512", ("avx2",), False),
        ((Isa.PORTABLE, Isa.AVX2), "avx2", ("avx512",), True),
        ((Isa.PORTABLE, Isa.AVX2, Isa.AVX512), "avx512", (), False),
    ],
)
def test_a_processor_that_could_more_than_the_library_is_told_so(
    monkeypatch: pytest.MonkeyPatch,
    built: tuple[Isa, ...],
    used: str,
    left_out: tuple[str, ...],
    told: bool,
) -> None:
    """As after a move to another computer."""
    monkeypatch.setattr(native, "library", lambda: built_with(*built))
    host = probe_machine().host
    assert (host.kernels, host.kernels_left_out) == (used, left_out)
    reasons = [gap.reason for gap in host.missing if gap.fact == "kernels"]
    assert bool(reasons) is told
    assert all("without avx512" in reason and "make setup" in reason for reason in reasons)

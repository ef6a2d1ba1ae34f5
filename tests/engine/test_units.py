"""Times and sizes in words."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from engine import language
from engine.language import units


@pytest.fixture(autouse=True)
def _english_again() -> Iterator[None]:
    yield
    language.use(language.ENGLISH)


@pytest.mark.parametrize(
    ("span", "said"),
    [
        (0.0004, "0.4 ms"),
        (0.0123, "12 ms"),
        (0.9994, "999 ms"),
        (0.9996, "1.0 s"),
        (59.9, "59.9 s"),
        (59.96, "1.0 min"),
        (75, "1.2 min"),
    ],
)
def test_a_time_has_the_unit_that_suits_it(span: float, said: str) -> None:
    assert units.duration(span).replace("\N{NO-BREAK SPACE}", " ") == said


@pytest.mark.parametrize(
    ("size", "said"),
    [
        (0, "0 bytes"),
        (1, "1 byte"),
        (999, "999 bytes"),
        (3200, "3.2 kB"),
        (999_999, "1,000 kB"),
        (2_097_153, "2.1 MB"),
        (135_000_000, "135 MB"),
        (13_500_000_000, "13.5 GB"),
    ],
)
def test_files_are_told_in_powers_of_ten(size: int, said: str) -> None:
    assert units.file_size(size).replace("\N{NO-BREAK SPACE}", " ") == said


def test_memory_is_told_in_powers_of_two() -> None:
    assert units.memory(5 * 2**20) == "5\N{NO-BREAK SPACE}MiB"
    assert units.memory(3 * 2**29) == "1.5\N{NO-BREAK SPACE}GiB"


def test_numbers_are_written_as_the_language_does() -> None:
    language.use("de")
    assert units.memory(3 * 2**29) == "1,5\N{NO-BREAK SPACE}GiB"

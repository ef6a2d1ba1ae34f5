"""The table of requests."""

from __future__ import annotations

from dataclasses import replace
from datetime import UTC, datetime

import pytest
from PySide6.QtCore import Qt
from PySide6.QtTest import QAbstractItemModelTester

from app.serving.request_list import COLUMNS, MOST, RequestList
from engine.server.events import RequestState, RequestStatus

AT = datetime(2026, 11, 25, 12, 30, 5).astimezone(UTC).timestamp()
BASE = RequestStatus("0", AT, "127.0.0.1", "curl/8", "/v1/completions", "Babbler")


@pytest.fixture
def table(qapp: object) -> RequestList:  # noqa: ARG001 - a model needs Qt
    made = RequestList()
    QAbstractItemModelTester(made, QAbstractItemModelTester.FailureReportingMode.Fatal, made)
    return made


def row(table: RequestList, place: int) -> list[object]:
    return [table.index(place, column).data() for column in range(len(COLUMNS))]


def test_a_request_is_one_row_that_changes(table: RequestList) -> None:
    table.take([BASE])
    assert row(table, 0) == [
        "12:30:05", "127.0.0.1 · curl/8", "/v1/completions", "Babbler", "Waiting", "", "", "",
    ]  # fmt: skip
    assert table.active == 1
    writing = replace(BASE, state=RequestState.WRITING, prompt_tokens=1200, tokens=3)
    done = replace(writing, state=RequestState.DONE, code=200, tokens=40, tokens_per_s=12.34)
    table.take([writing, done])
    assert table.rowCount() == 1
    assert row(table, 0)[4:] == ["Done", "1,200", "40", "12.3"]
    assert table.active == 0


def test_refusals_tell_their_status(table: RequestList) -> None:
    table.take([replace(BASE, state=RequestState.REFUSED, code=401, model="")])
    assert row(table, 0)[3:5] == ["", "Refused (401)"]


def test_the_latest_stand_first_and_the_oldest_go(
    table: RequestList, monkeypatch: pytest.MonkeyPatch
) -> None:
    most = 20  # Qt's tester looks at every row after every change
    assert most < MOST
    monkeypatch.setattr("app.serving.request_list.MOST", most)
    table.take(replace(BASE, id=str(number)) for number in range(most + 7))
    assert table.rowCount() == most
    assert [each.id for each in table.requests[:2]] == [str(most + 6), str(most + 5)]
    table.take([replace(BASE, id="0", tokens=5)])  # it had left the table
    assert table.rowCount() == most


def test_numbers_stand_to_the_right(table: RequestList) -> None:
    table.take([BASE])
    sides = [
        table.index(0, column).data(Qt.ItemDataRole.TextAlignmentRole) & Qt.AlignmentFlag.AlignRight
        for column in range(len(COLUMNS))
    ]
    assert [bool(side) for side in sides] == [False] * 5 + [True] * 3
    header = table.headerData(7, Qt.Orientation.Horizontal, Qt.ItemDataRole.DisplayRole)
    assert header == "Tokens/s"

"""What was measured, written to files and read back."""

from __future__ import annotations

import csv
import errno
import io
import json
import os
from dataclasses import replace
from pathlib import Path

import pytest
import scripted_rounds as scripted
from PySide6.QtCore import QEvent
from PySide6.QtGui import QImage
from PySide6.QtWidgets import QApplication, QFileDialog
from pytestqt.qtbot import QtBot

from app.data_folder.exported_file import write
from app.performance.export import (
    ExportButton,
    graphs_as_csv,
    rounds_as_csv,
    rounds_as_trace,
)
from app.performance.feed import Feed
from app.performance.model import PerformanceModel
from app.performance.timeline import begin_of
from engine import language
from engine.errors import UserFixable
from engine.events import Interval


@pytest.fixture
def model() -> PerformanceModel:
    result = PerformanceModel()
    for event in scripted.answer(10, mode="duo", gpu=True):
        result.handle(event)
    return result


def test_every_round_is_a_line(model: PerformanceModel) -> None:
    rounds = model.timeline.rounds
    language.use("de")  # a comma for decimals would end a cell
    try:
        lines = list(csv.DictReader(io.StringIO(rounds_as_csv(rounds))))
    finally:
        language.use("en")
    assert len(lines) == len(rounds)
    start = begin_of(rounds[0])
    for line, done in zip(lines, rounds, strict=True):
        assert int(line["round"]) == done.index
        assert float(line["start_ms"]) == pytest.approx(1000 * (begin_of(done) - start), abs=0.01)
        assert float(line["verify_ms"]) == pytest.approx(1000 * done.verify.seconds, abs=0.01)
        assert float(line["drafting_ms"]) == pytest.approx(1000 * done.drafting_s, abs=0.01)
        assert (int(line["drafted"]), int(line["accepted"])) == (done.drafted, done.accepted)
    assert rounds_as_csv([]).count("\n") == 1


def test_every_measurement_in_view_is_a_line(model: PerformanceModel) -> None:
    end = model.now
    lines = list(csv.DictReader(io.StringIO(graphs_as_csv(model.lanes, end - 5.0, end))))
    graphs = {line["graph"] for line in lines}
    assert {"Tokens per second", "CPU", "Memory", "GPU"} <= graphs
    assert "GPU power" not in graphs, "nothing measured it"
    assert {line["series"] for line in lines if line["graph"] == "CPU"} == {
        "Duotail",
        "whole system",
    }
    assert all(-5.0 <= float(line["seconds"]) <= 0.0 for line in lines)
    cpu = [line for line in lines if line["series"] == "Duotail"]
    assert len(cpu) == 10
    assert all(50 < float(line["value"]) < 90 for line in cpu)


def test_the_trace_has_a_track_for_each_lane(model: PerformanceModel) -> None:
    rounds = model.timeline.rounds
    copied = replace(rounds[3], transfers=(Interval(rounds[3].at, rounds[3].at + 0.002),))
    told = json.loads(rounds_as_trace([*rounds[:3], copied, *rounds[4:]]))["traceEvents"]
    names = {each["tid"]: each["args"]["name"] for each in told if each["ph"] == "M"}
    assert names == {1: "draft", 2: "verify", 3: "copy"}
    spans = [each for each in told if each["ph"] == "X"]
    assert len([each for each in spans if each["tid"] == 2]) == len(rounds)
    assert len([each for each in spans if each["tid"] == 1]) == sum(
        len(done.drafting) for done in rounds
    )
    (copy,) = [each for each in spans if each["tid"] == 3]
    assert copy["dur"] == pytest.approx(2000, abs=1)
    assert min(each["ts"] for each in spans) == 0
    assert all(each["dur"] >= 0 for each in spans)
    assert json.loads(rounds_as_trace([]))["traceEvents"]


def test_a_file_is_there_whole_or_not_at_all(tmp_path: Path) -> None:
    path = tmp_path / "rounds.csv"
    write(path, lambda: b"old")
    write(path, lambda: b"new")
    assert path.read_bytes() == b"new"
    assert [each.name for each in tmp_path.iterdir()] == ["rounds.csv"]


@pytest.mark.parametrize(
    ("number", "words"),
    [
        (errno.ENOSPC, "full"),
        (errno.EACCES, "may not write"),
        (errno.EROFS, "may not write"),
        (errno.EIO, "connected"),
    ],
)
def test_why_a_file_cannot_be_written_is_said(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, number: int, words: str
) -> None:
    path = tmp_path / "rounds.csv"
    path.write_bytes(b"old")

    def fail(_path: Path, _content: bytes) -> int:
        raise OSError(number, os.strerror(number))

    monkeypatch.setattr(Path, "write_bytes", fail)
    with pytest.raises(UserFixable) as failed:
        write(path, lambda: b"new")
    assert "rounds.csv" in failed.value.cause
    assert words in failed.value.remedy
    assert path.read_bytes() == b"old"


def test_a_folder_that_is_gone_is_told(tmp_path: Path) -> None:
    with pytest.raises(UserFixable):
        write(tmp_path / "gone" / "rounds.csv", lambda: b"")


@pytest.mark.qt_log_ignore("This plugin does not support")
def test_a_file_is_asked_for_and_written(qtbot: QtBot, tmp_path: Path) -> None:
    feed, image = Feed(), QImage(3, 2, QImage.Format.Format_RGB32)
    feed.handle_all(scripted.answer(10, mode="duo", gpu=True))
    feed.model.advance()
    feed.sight.follow()
    image.fill(0x336699)
    export = ExportButton(feed, lambda: image, lambda: image)
    qtbot.addWidget(export)
    for kind, action in export.actions_of.items():
        action.trigger()
        (dialog,) = export.findChildren(QFileDialog)
        path = tmp_path / f"{kind.name}.{dialog.defaultSuffix()}"
        dialog.fileSelected.emit(str(path))
        dialog.close()
        QApplication.sendPostedEvents(None, QEvent.Type.DeferredDelete)
        qtbot.waitUntil(path.exists)
    assert QImage(str(tmp_path / "PICTURE.png")).pixelColor(1, 1).name() == "#336699"
    assert json.loads((tmp_path / "TRACE.json").read_text(encoding="utf-8"))
    lines = (tmp_path / "ROUNDS.csv").read_text(encoding="utf-8").splitlines()
    assert len(lines) == len(feed.sight.timeline.rounds) + 1 > 1

"""Conversations into files and out of them."""

from __future__ import annotations

import json
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from PySide6.QtCore import QDir, QMimeData, QPoint, QPointF, Qt, QUrl
from PySide6.QtGui import QDragEnterEvent, QDropEvent
from PySide6.QtWidgets import QApplication, QFileDialog, QProgressBar
from pytestqt.qtbot import QtBot

from app.conversations import transfer
from app.conversations.archive import ExportFormat, file_name, read, write
from app.conversations.sidebar import Sidebar
from app.history import Conversation, HistoryStore
from app.notices import Notice, NoticeKind
from app.session.conversation_list import ConversationList
from engine.errors import UserFixable

pytestmark = pytest.mark.qt_log_ignore("This plugin does not support")

Add = Callable[..., Conversation]


@pytest.mark.parametrize(
    ("title", "name"),
    [
        ("A plain title", "A plain title.md"),
        ('a/b\\c:d*e?"f<g>h|i\nj\0k', "a b c d e f g h i j k.md"),
        ("..", "Conversation.md"),
        ("", "Conversation.md"),
        ("con", "Conversation con.md"),
        ("LPT1.txt", "Conversation LPT1.txt.md"),
        ("机器学习 🎉", "机器学习 🎉.md"),
        ("x" * 200, "x" * 80 + ".md"),
    ],
)
def test_names_that_every_file_system_takes(title: str, name: str) -> None:
    assert file_name(title, ExportFormat.MARKDOWN, set()) == name


def test_names_are_not_given_twice() -> None:
    taken: set[str] = set()
    names = [file_name(title, ExportFormat.JSON, taken) for title in ("Same", "same", "Same")]
    assert names == ["Same.json", "same (2).json", "Same (3).json"]


def test_a_file_is_written_whole_or_not_at_all(tmp_path: Path) -> None:
    path = tmp_path / "out.md"
    write(path, "Größe 🎉\n")
    assert path.read_bytes() == "Größe 🎉\n".encode()
    with pytest.raises(UserFixable, match=r"out\.md"):
        write(tmp_path / "missing" / "out.md", "")
    assert [each.name for each in tmp_path.iterdir()] == ["out.md"]


def test_what_is_no_text_is_refused_with_words(tmp_path: Path) -> None:
    path = tmp_path / "picture.json"
    path.write_bytes(b"\x89PNG\xff\xfe")
    with pytest.raises(UserFixable, match="not a text file"):
        read(path)
    path.write_bytes(b"\xef\xbb\xbf{}")
    assert read(path) == "{}"


class Told:
    """What the user is told, and what the sidebar opens."""

    def __init__(self, sidebar: Sidebar, notices: list[Notice]) -> None:
        self.notices = notices
        self.opened: list[Conversation] = []
        sidebar.opened.connect(self.opened.append)

    @property
    def said(self) -> list[str]:
        return [each.text for each in self.notices if each.kind is NoticeKind.TOAST]

    @property
    def problems(self) -> list[Notice]:
        return [each for each in self.notices if each.kind is NoticeKind.PROBLEM]


@pytest.fixture
def told(sidebar: Sidebar, notices: list[Notice]) -> Told:
    return Told(sidebar, notices)


@pytest.fixture
def letter(store: HistoryStore, add: Add, listed: ConversationList) -> Conversation:
    made = add("A letter", 3)
    store.answers.add_user_message(made.id, "Dear neighbour \U0001f389")
    folder = store.folders.create("Post")
    store.folders.put(made.id, folder.id)
    listed.refresh()
    result = listed.get(made.id)
    assert result is not None
    return result


def test_out_as_json_and_in_again(
    sidebar: Sidebar,
    listed: ConversationList,
    store: HistoryStore,
    letter: Conversation,
    told: Told,
    tmp_path: Path,
    qtbot: QtBot,
) -> None:
    path = tmp_path / "letter.json"
    sidebar.transfer.export_to(path, [letter], ExportFormat.JSON)
    qtbot.waitUntil(lambda: told.said == ["1 conversation was exported. It is in letter.json."])
    listed.delete([letter.id])
    assert letter.folder_id is not None
    listed.delete_folder(letter.folder_id)
    sidebar.transfer.import_files([path])
    qtbot.waitUntil(lambda: len(told.said) == 2)
    assert told.said[1] == "1 conversation was imported."
    (back,) = listed.newest_first()
    assert [message.text for message in store.branches.messages(back.id)] == [
        "Dear neighbour \U0001f389"
    ]
    assert back.title == "A letter"
    assert [each.name for each in listed.folders()] == ["Post"]
    assert back.folder_id == listed.folders()[0].id
    assert told.opened == [back]
    assert sidebar.list.rows.index_of(back.id).isValid()


def test_out_as_markdown_and_in_again(
    sidebar: Sidebar,
    listed: ConversationList,
    store: HistoryStore,
    letter: Conversation,
    told: Told,
    tmp_path: Path,
    qtbot: QtBot,
) -> None:
    path = tmp_path / "letter.md"
    sidebar.transfer.export_to(path, [letter], ExportFormat.MARKDOWN)
    qtbot.waitUntil(lambda: len(told.said) == 1)
    listed.delete([letter.id])
    sidebar.transfer.import_files([path])
    qtbot.waitUntil(lambda: len(told.said) == 2)
    (back,) = listed.newest_first()
    assert back.title == "A letter"
    assert [message.text for message in store.branches.messages(back.id)] == [
        "Dear neighbour \U0001f389"
    ]


def test_several_as_markdown_go_into_a_folder(
    sidebar: Sidebar, listed: ConversationList, add: Add, told: Told, tmp_path: Path, qtbot: QtBot
) -> None:
    add("Same", 1), add("Same", 2), add("Other", 3)
    listed.refresh()
    out = tmp_path / "out"
    out.mkdir()
    sidebar.transfer.export_to(out, listed.newest_first(), ExportFormat.MARKDOWN)
    qtbot.waitUntil(lambda: told.said == ["3 conversations were exported. They are in out."])
    assert sorted(each.name for each in out.iterdir()) == ["Other.md", "Same (2).md", "Same.md"]
    assert (out / "Other.md").read_text(encoding="utf-8").startswith("# Other\n")


def test_a_bad_file_does_not_keep_the_good_one_out(
    sidebar: Sidebar, listed: ConversationList, told: Told, tmp_path: Path, qtbot: QtBot
) -> None:
    bad, good, picture = (tmp_path / name for name in ("bad.json", "good.json", "a.png"))
    bad.write_text("{", encoding="utf-8")
    picture.write_bytes(b"\x89PNG\xff\xfe")
    messages = [{"role": "user", "content": "Hello"}, {"role": "assistant", "content": "Hi"}]
    good.write_text(json.dumps({"messages": messages}), encoding="utf-8")
    sidebar.transfer.import_files([bad, good, picture])
    qtbot.waitUntil(lambda: bool(told.said))
    assert len(listed.newest_first()) == 1
    problem, no_text = told.problems
    assert problem.text.startswith("bad.json")
    assert no_text.text == "a.png is not a text file."


def test_dropping_a_file_anywhere_on_the_sidebar(
    sidebar: Sidebar, letter: Conversation, told: Told, tmp_path: Path, qtbot: QtBot
) -> None:
    assert letter
    path = tmp_path / "chat.json"
    path.write_text('{"messages": [{"role": "user", "content": "Hello"}]}', encoding="utf-8")
    data = QMimeData()
    data.setUrls([QUrl.fromLocalFile(str(path))])
    actions, left = Qt.DropAction.CopyAction, Qt.MouseButton.LeftButton
    plain = Qt.KeyboardModifier.NoModifier
    qtbot.waitUntil(sidebar.list.isVisible)
    over = QDragEnterEvent(QPoint(30, 30), actions, data, left, plain)
    QApplication.sendEvent(sidebar.list.viewport(), over)
    assert over.isAccepted()
    drop = QDropEvent(QPointF(30, 30), actions, data, left, plain)
    QApplication.sendEvent(sidebar, drop)
    qtbot.waitUntil(lambda: told.said == ["1 conversation was imported."])


def test_what_is_going_on_shows_and_can_be_cancelled(
    sidebar: Sidebar,
    letter: Conversation,
    told: Told,
    tmp_path: Path,
    qtbot: QtBot,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    gate, before = threading.Event(), transfer.export

    def waiting(*arguments: Any) -> None:
        gate.wait()
        before(*arguments)

    monkeypatch.setattr(transfer, "export", waiting)
    bar = sidebar.findChild(QProgressBar)
    assert isinstance(bar, QProgressBar)
    path = tmp_path / "out.json"
    sidebar.transfer.export_to(path, [letter], ExportFormat.JSON)
    assert bar.isVisible()
    assert bar.accessibleName() == "Exporting 1 conversation\u2026"
    sidebar.transfer.import_files([path])
    assert told.problems[0].text == "Another export or import is still running."
    sidebar.transfer.cancel()
    gate.set()
    qtbot.waitUntil(lambda: told.said == ["Cancelled. What was finished is kept."])
    assert not bar.isVisible()
    assert not path.exists()


@pytest.mark.parametrize(
    ("title", "shown"),
    [("New chat", "Why is the sky blue?"), ("", "Why is the sky blue?"), ("Sky", "Sky")],
)
def test_what_nobody_has_named_is_called_by_its_first_message(
    sidebar: Sidebar, told: Told, tmp_path: Path, qtbot: QtBot, title: str, shown: str
) -> None:
    path = tmp_path / "chat.json"
    messages = [{"role": "user", "content": "Why is the sky blue?"}]
    path.write_text(json.dumps([{"title": title, "messages": messages}]), encoding="utf-8")
    sidebar.transfer.import_files([path])
    qtbot.waitUntil(lambda: bool(told.said))
    names = [each.title for each in sidebar.transfer._list.newest_first()]
    assert shown in names
    assert "New chat" not in names


def test_dialogs_begin_in_the_users_folder(
    sidebar: Sidebar, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(QFileDialog, "directory", lambda _self: QDir.current())  # none used before
    set_to: list[str] = []
    monkeypatch.setattr(QFileDialog, "setDirectory", lambda _self, place: set_to.append(place))
    sidebar.transfer.choose_import()
    (place,) = set_to
    assert Path(place).is_dir()
    assert Path(place) != tmp_path


def test_asking_where_to(
    sidebar: Sidebar,
    letter: Conversation,
    told: Told,
    tmp_path: Path,
    qtbot: QtBot,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.chdir(tmp_path)
    sidebar.transfer.choose_export([letter], ExportFormat.MARKDOWN)
    (dialog,) = sidebar.findChildren(QFileDialog)
    assert [Path(each).name for each in dialog.selectedFiles()] == ["A letter.md"]
    dialog.setDirectory(str(tmp_path))
    dialog.selectFile(str(tmp_path / "my letter"))
    dialog.accept()
    qtbot.waitUntil(lambda: bool(told.said))
    assert "Dear neighbour" in (tmp_path / "my letter.md").read_text(encoding="utf-8")


def test_several_are_exported_into_a_folder(
    sidebar: Sidebar,
    listed: ConversationList,
    letter: Conversation,
    add: Add,
    told: Told,
    tmp_path: Path,
    qtbot: QtBot,
) -> None:
    add("Another", 1)
    listed.refresh()
    sidebar.list.selectAll()
    sidebar.commands.export_text.trigger()
    (dialog,) = sidebar.findChildren(QFileDialog)
    assert dialog.fileMode() is QFileDialog.FileMode.Directory
    folder = tmp_path / "out"
    folder.mkdir()
    dialog.setDirectory(str(folder))
    dialog.selectFile(str(folder))
    dialog.accept()
    qtbot.waitUntil(lambda: bool(told.said))
    assert {each.name for each in folder.iterdir()} == {f"{letter.title}.md", "Another.md"}
    sidebar.transfer.export_to(tmp_path / "gone" / "x.md", [letter], ExportFormat.MARKDOWN)
    qtbot.waitUntil(lambda: bool(told.problems))
    assert "x.md" in told.problems[0].text

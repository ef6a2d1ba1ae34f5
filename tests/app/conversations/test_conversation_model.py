"""The rows of the list, and that a change costs one row."""

from __future__ import annotations

import random
import time
from collections.abc import Callable
from datetime import datetime, timedelta

import pytest
from PySide6.QtCore import QModelIndex, QPersistentModelIndex, Qt
from pytestqt.modeltest import ModelTester

from app.conversations.model import ConversationModel
from app.conversations.sections import ConversationSection
from app.history import Conversation, HistoryStore
from app.session.conversation_list import ConversationList, Deletion

Add = Callable[..., Conversation]
Rows = Callable[[ConversationModel], list[str]]


def test_pinned_folders_days(
    listed: ConversationList, store: HistoryStore, add: Add, rows: Rows, qtmodeltester: ModelTester
) -> None:
    add("A year ago", 400)
    pinned, inside = add("Pinned", 90), add("Inside", 60)
    add("Today")
    store.conversations.pin(pinned.id, True)
    folder = store.folders.create("Work")
    store.folders.create("Empty")
    store.folders.put(inside.id, folder.id)
    listed.refresh()
    model = ConversationModel(listed)
    qtmodeltester.check(model, force_py=True)
    shown = rows(model)
    assert shown[:7] == ["[Pinned]", "Pinned", "-Empty 0", "-Work 1", "Inside", "[Today]", "Today"]
    assert shown[8:] == ["A year ago"]
    model.set_open(model.folder_index(folder.id), is_open=False)
    assert rows(model)[:6] == ["[Pinned]", "Pinned", "-Empty 0", "+Work 1", "[Today]", "Today"]
    assert not model.index_of(inside.id).isValid()


def test_what_was_said_last_is_on_top_and_stays_selected(
    listed: ConversationList, add: Add, rows: Rows
) -> None:
    old = add("Old", 40)
    add("New", 0.001)
    listed.refresh()
    model = ConversationModel(listed)
    resets: list[None] = []
    model.modelReset.connect(lambda: resets.append(None))
    watched = QModelIndexKeeper(model, old.id)
    listed.touch(old)
    assert rows(model) == ["[Today]", "Old", "New"]  # the month's heading is gone
    assert watched.title() == "Old"
    assert resets == []


def test_the_list_is_arranged_anew_when_the_day_ends(
    listed: ConversationList, add: Add, rows: Rows, monkeypatch: pytest.MonkeyPatch
) -> None:
    add("Written", 1.5)
    listed.refresh()
    today = datetime.fromtimestamp(listed.newest_first()[0].updated_at).astimezone().date()
    monkeypatch.setattr("app.conversations.model._today", lambda: today)
    model = ConversationModel(listed)
    model._look_at_the_date()
    assert rows(model)[0] == "[Today]"
    tomorrow = today + timedelta(days=1)
    monkeypatch.setattr("app.conversations.model._today", lambda: tomorrow)
    model._look_at_the_date()
    assert rows(model)[0] == "[Yesterday]"
    heading = model.index(0)
    assert model.data(heading, Qt.ItemDataRole.AccessibleTextRole) == "Yesterday"
    assert model.data(QModelIndex()) is None
    assert not model.setData(QModelIndex(), "x")


def test_folders_come_and_go(listed: ConversationList, add: Add, rows: Rows) -> None:
    one, two = add("One", 0.002), add("Two", 0.003)
    listed.refresh()
    model = ConversationModel(listed)
    folder = listed.create_folder("  A \n folder ")
    assert folder is not None
    assert folder.name == "A folder"
    assert listed.create_folder("A folder") == folder
    listed.move([one.id, two.id], folder.id)
    assert rows(model) == ["-A folder 2", "One", "Two"]
    undo: list[Deletion] = []
    listed.deleted.connect(lambda _words, deletion: undo.append(deletion))
    listed.delete_folder(folder.id)
    assert rows(model) == ["[Today]", "One", "Two"]
    listed.restore(undo[0])
    assert rows(model) == ["-A folder 2", "One", "Two"]


def test_dropping_moves_pins_and_takes_out(listed: ConversationList, add: Add, rows: Rows) -> None:
    one, two = add("One", 0.002), add("Two", 0.003)
    listed.refresh()
    model = ConversationModel(listed)
    folder = listed.create_folder("Work")
    assert folder is not None

    def drop(dragged: Conversation, onto: QModelIndex) -> None:
        data = model.mimeData([model.index_of(dragged.id)])
        assert model.dropMimeData(data, model.supportedDropActions(), -1, -1, onto)

    drop(one, model.folder_index(folder.id))
    assert rows(model) == ["-Work 1", "One", "[Today]", "Two"]
    drop(two, model.index_of(one.id))  # on a row inside
    assert rows(model) == ["-Work 2", "One", "Two"]
    listed.pin([one.id], pinned=True)
    drop(two, model.index(0))
    assert rows(model) == ["[Pinned]", "One", "Two", "-Work 0"]
    three = Conversation(99, "Three", time.time())
    listed.put(three)
    drop(one, model.index_of(three.id))
    assert rows(model) == ["[Pinned]", "Two", "-Work 0", "[Today]", "Three", "One"]


def test_any_sequence_of_changes_gives_what_a_fresh_model_gives(
    listed: ConversationList,
    store: HistoryStore,
    add: Add,
    rows: Rows,
    qtmodeltester: ModelTester,
) -> None:
    chance = random.Random(7)
    for number in range(12):
        add(f"c{number}", chance.choice([0.01, 1, 3, 40, 400]))
    folders = [store.folders.create(name) for name in ("b", "a", "c")]
    listed.refresh()
    model = ConversationModel(listed)
    qtmodeltester.check(model, force_py=True)
    undo: list[Deletion] = []
    listed.deleted.connect(lambda _words, deletion: undo.append(deletion))
    for step in range(150):
        ids = [each.id for each in listed.newest_first()]
        some = chance.sample(ids, min(len(ids), chance.choice([1, 1, 1, 3])))
        choice = chance.randrange(9)
        if choice == 0:
            listed.pin(some, pinned=chance.random() < 0.5)
        elif choice == 1:
            listed.move(some, chance.choice([None, *(f.id for f in folders)]))
        elif choice == 2:
            listed.rename(some[0], f"renamed {step}")
        elif choice == 3 and len(ids) > 5:
            listed.delete(some)
        elif choice == 4 and undo:
            listed.restore(undo.pop())
        elif choice == 5:
            folder = model.folder_index(chance.choice(folders).id)
            model.set_open(folder, is_open=chance.random() < 0.5)
        elif choice == 6:
            listed.rename_folder(chance.choice(folders).id, chance.choice("abcdef"))
        elif choice == 7:
            listed.touch(listed.newest_first()[chance.randrange(len(ids))])
        else:
            listed.put(store.conversations.create(f"new {step}"))
        fresh = ConversationModel(listed)
        for each in folders:
            entry = model.entry(model.folder_index(each.id))
            assert isinstance(entry, ConversationSection)
            fresh.set_open(fresh.folder_index(each.id), is_open=entry.is_open)
        assert rows(model) == rows(fresh)
        fresh.deleteLater()


class QModelIndexKeeper:
    """Follows a row as a selection would."""

    def __init__(self, model: ConversationModel, conversation_id: int) -> None:
        self._index = QPersistentModelIndex(model.index_of(conversation_id))

    def title(self) -> object:
        return self._index.data()

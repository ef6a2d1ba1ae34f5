"""A history that cannot be opened is shown as far as it can be read, and can be gone on with."""

from __future__ import annotations

from pathlib import Path

import pytest

from app.application import open_history
from app.history import HistoryStore
from app.paths import find_paths
from engine.errors import UserFixable


def test_what_can_be_read_is_shown_and_kept(tmp_path: Path) -> None:
    paths = find_paths(str(tmp_path))
    with HistoryStore.open(paths.history) as store:
        chat = store.create_conversation("precious")
        store.add_user_message(chat.id, "words")
    data = paths.history.read_bytes()
    paths.history.write_bytes(data[:100] + b"\xff" * 3996 + data[4096:])
    store, trouble = open_history(paths)
    assert trouble is not None
    assert "damaged" in trouble.cause
    assert [m.text for m in store.messages(chat.id)] == ["words"]
    with pytest.raises(UserFixable, match="only be read"):
        store.add_user_message(chat.id, "more")
    store.keep(paths.history)
    store.close()
    store, trouble = open_history(paths)
    assert trouble is None
    store.add_user_message(chat.id, "more")
    store.close()


def test_without_anything_to_read_a_new_one_serves(tmp_path: Path) -> None:
    paths = find_paths(str(tmp_path))
    paths.history.parent.mkdir(parents=True, exist_ok=True)
    paths.history.write_bytes(b"no database at all " * 500)
    store, trouble = open_history(paths)
    assert trouble is not None
    assert not store.read_only
    store.create_conversation("not kept")
    store.close()

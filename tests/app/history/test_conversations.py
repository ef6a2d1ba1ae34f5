"""Folders, pins and setups of conversations."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from app.history import ChatSetup, HistoryStore
from app.history.columns import pack_setup, unpack_sampling, unpack_setup
from engine.request import SamplingParams

SETUP = ChatSetup("Be brief.", "Coder", 0.7, 40, 0.9, 0.05, 1.1, 0.2, 0.3, 9, 512, False)


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "history.sqlite"


def test_folders_hold_conversations_and_give_them_back(path: Path) -> None:
    with HistoryStore.open(path) as store:
        work, home = store.folders.create("work"), store.folders.create("Home")
        assert [folder.name for folder in store.folders.all()] == ["Home", "work"]
        store.folders.rename(work.id, "Archive")
        one, two = store.conversations.create("one"), store.conversations.create("two")
        store.folders.put(one.id, work.id)
        store.folders.put(two.id, home.id)
    with HistoryStore.open(path) as store:
        assert [folder.name for folder in store.folders.all()] == ["Archive", "Home"]
        assert {c.title: c.folder_id for c in store.conversations.all()} == {
            "one": work.id,
            "two": home.id,
        }
        store.folders.delete(work.id)
        store.folders.put(two.id, None)
        assert [c.folder_id for c in store.conversations.all()] == [None, None]
        for wrong in (
            lambda: store.folders.put(one.id, work.id),
            lambda: store.folders.put(99, home.id),
            lambda: store.folders.rename(work.id, "gone"),
            lambda: store.folders.delete(work.id),
        ):
            with pytest.raises(LookupError):
                wrong()
        assert [c.folder_id for c in store.conversations.all()] == [None, None]


def test_pins_and_setups_are_kept(path: Path) -> None:
    with HistoryStore.open(path) as store:
        conversation = store.conversations.create("one")
        store.conversations.pin(conversation.id, True)
        store.conversations.set_setup(conversation.id, SETUP)
    with HistoryStore.open(path) as store:
        (found,) = store.conversations.all()
        assert (found.pinned, found.setup) == (True, SETUP)
        store.conversations.pin(found.id, False)
        assert not store.conversations.all()[0].pinned
        with pytest.raises(LookupError):
            store.conversations.set_setup(99, SETUP)
    assert SETUP.sampling(4) == SamplingParams(0.7, 40, 0.9, 0.05, 1.1, 0.2, 0.3, 4)


def test_a_setup_with_odd_values_is_read_as_far_as_it_makes_sense() -> None:
    assert unpack_setup(pack_setup(SETUP)) == SETUP
    odd = {
        "system_prompt": "kept",
        "temperature": 1,
        "top_k": "many",
        "top_p": None,
        "seed": True,
        "max_tokens": 7,
        "of_the_future": [1],
    }
    expected = ChatSetup("kept", temperature=1.0, max_tokens=7)
    assert unpack_setup(json.dumps(odd)) == expected
    assert unpack_setup('{"system_prompt": "kept", "temperature": -1}') == ChatSetup("kept")
    for nonsense in (None, "", "null", "[]", "{", "[" * 100_000, '{"temperature": NaN}'):
        assert unpack_setup(nonsense) == ChatSetup()


_VALUES = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=5),
    lambda inner: st.lists(inner, max_size=2),
)


@settings(suppress_health_check=[HealthCheck.too_slow])
@given(st.dictionaries(st.sampled_from([*ChatSetup.__slots__, "other"]), _VALUES))
def test_whatever_stands_in_the_column_is_read(values: dict[str, object]) -> None:
    text = json.dumps(values)
    setup = unpack_setup(text)
    setup.sampling(setup.seed or 0)
    unpack_sampling(text)

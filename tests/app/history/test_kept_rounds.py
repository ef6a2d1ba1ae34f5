"""The rounds of an answer survive packing, versions, damage and a move to another history."""

from __future__ import annotations

import random
import shutil
import sqlite3
import zlib
from collections.abc import Callable
from contextlib import closing
from dataclasses import replace
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from app.history import AnswerState, HistoryStore
from app.history.database import connect
from app.history.exchange import export_json, import_text
from app.history.rounds import MAGIC, MOST_ROUNDS, RoundRecording, joined, pack, unpack
from app.history.schema import MIGRATIONS
from app.history.typed_columns import ColumnReader, Damaged, pack_column, pack_texts
from engine.events import Guess, Interval, Origin, RoundFinished, TokenSpan
from engine.request import SamplingParams


def round_of(index: int, start: float, text: tuple[int, int]) -> RoundFinished:
    return RoundFinished(
        at=start + 0.09,
        request_id="",
        index=index,
        drafting=(Interval(start, start + 0.02), Interval(start + 0.03, start + 0.04)),
        verify=Interval(start + 0.02, start + 0.08),
        drafted=4,
        accepted=2,
        committed=3,
        drafted_by_depth=(1, 1, 1),
        accepted_by_depth=(1, 1, 0),
        context_used=40 + 3 * index,
        rejected=" orange 🍊",
        text_start=text[0],
        text_end=text[1],
        rejected_at=text[1] - 2,
        useful_s=0.015,
        wasted_s=0.005,
        transfers=(Interval(start + 0.019, start + 0.02),),
        guesses=(Guess(" a", 0.5, 0.25, accepted=True), Guess("ا", None, None, accepted=False)),
    )


def recording(rounds: int = 3, begin: float = 0.0) -> RoundRecording:
    done, spans, at = [], [], 0
    for index in range(rounds):
        done.append(round_of(index, begin + 0.1 * index, (at, at + 9)))
        for place in range(3):
            origin = Origin.DRAFTED if place < 2 else Origin.TARGET
            spans.append(TokenSpan(1000 + place, at, at + 3, origin, 0.75))
            at += 3
    return RoundRecording(tuple(done), tuple(spans), (3,) * rounds)


def assert_same(found: RoundRecording | None, given: RoundRecording) -> None:
    assert found is not None
    assert found.told == given.told
    assert len(found.rounds) == len(given.rounds)
    for a, b in zip(found.rounds, given.rounds, strict=True):
        for name in (
            *("index", "drafted", "accepted", "committed", "drafted_by_depth", "rejected"),
            *("accepted_by_depth", "context_used", "text_start", "text_end", "rejected_at"),
        ):
            assert getattr(a, name) == getattr(b, name), name
        pairs = [(a.verify, b.verify), *zip(a.drafting, b.drafting, strict=True)]
        pairs += zip(a.transfers, b.transfers, strict=True)
        for x, y in pairs:
            assert (x.start, x.end) == pytest.approx((y.start, y.end), abs=3e-6)
        assert (a.useful_s, a.wasted_s, a.at) == pytest.approx(
            (b.useful_s, b.wasted_s, b.at), abs=3e-6
        )
        for mine, theirs in zip(a.guesses, b.guesses, strict=True):
            assert (mine.text, mine.accepted) == (theirs.text, theirs.accepted)
            assert mine.probability == pytest.approx(theirs.probability, abs=1e-4)
            assert mine.draft_probability == pytest.approx(theirs.draft_probability, abs=1e-4)
    for one, other in zip(found.spans, given.spans, strict=True):
        assert (one.token_id, one.start, one.end) == (other.token_id, other.start, other.end)
        assert one.origin is other.origin
        assert one.probability == pytest.approx(other.probability, abs=1e-4)


# -- packing -------------------------------------------------------------------------------


@given(st.lists(st.integers(-(2**63), 2**63 - 1), max_size=40))
def test_numbers_come_back(values: list[int]) -> None:
    columns = ColumnReader(pack_column(values), 100)
    assert columns.numbers(len(values)) == values
    columns.end()


@given(st.lists(st.text(max_size=8), max_size=20))
def test_texts_come_back(texts: list[str]) -> None:
    columns = ColumnReader(pack_texts(texts), 1000)
    assert columns.texts(len(texts)) == texts
    columns.end()


@given(st.binary(max_size=60))
def test_what_is_no_column_is_refused_in_one_way(data: bytes) -> None:
    try:
        ColumnReader(data, 1000).texts(3)
    except (Damaged, UnicodeDecodeError):
        return
    assert len(data) >= 8


_interval = st.tuples(st.integers(0, 10**8), st.integers(0, 10**7)).map(
    lambda t: Interval(t[0] / 1e6, (t[0] + t[1]) / 1e6)
)
_chance = st.none() | st.floats(0, 1)
_guess = st.builds(Guess, st.text(max_size=5), _chance, _chance, st.booleans())
_small = st.integers(0, 300)


@st.composite
def rounds_of_any_kind(draw: st.DrawFn) -> RoundRecording:
    rounds, spans, told = [], [], []
    for index in range(draw(st.integers(0, 6))):
        start = draw(st.integers(0, 10**6))
        rounds.append(
            RoundFinished(
                at=draw(st.floats(0, 1e4)),
                request_id="",
                index=index,
                drafting=tuple(draw(st.lists(_interval, max_size=3))),
                verify=draw(_interval),
                drafted=draw(_small),
                accepted=draw(_small),
                committed=draw(_small),
                drafted_by_depth=tuple(draw(st.lists(st.integers(0, 1), max_size=8))),
                accepted_by_depth=tuple(draw(st.lists(st.integers(0, 1), max_size=8))),
                context_used=draw(st.integers(0, 10**6)),
                rejected=draw(st.text(max_size=9)),
                text_start=start,
                text_end=start + draw(_small),
                rejected_at=draw(st.integers(0, 10**6)),
                transfers=tuple(draw(st.lists(_interval, max_size=2))),
                guesses=tuple(draw(st.lists(_guess, max_size=3))),
            )
        )
        told.append(draw(st.integers(0, 4)))
        for _ in range(told[-1]):
            at = draw(st.integers(0, 10**6))
            origin = draw(st.sampled_from(Origin))
            token = draw(st.integers(-1, 2**31))
            spans.append(TokenSpan(token, at, at + draw(_small), origin, draw(_chance)))
    return RoundRecording(tuple(rounds), tuple(spans), tuple(told))


def shifted(given: RoundRecording) -> RoundRecording:
    """The recording with its times counted from where packing counts them."""
    begins = [
        min([done.verify.start, *(work.start for work in done.drafting[:1])])
        for done in given.rounds[:2]
    ]
    begin = min(begins, default=0.0)

    def move(work: Interval) -> Interval:
        return Interval(work.start - begin, work.end - begin)

    rounds = tuple(
        replace(
            done,
            at=done.at - begin,
            verify=move(done.verify),
            drafting=tuple(map(move, done.drafting)),
            transfers=tuple(map(move, done.transfers)),
        )
        for done in given.rounds
    )
    return replace(given, rounds=rounds)


@settings(max_examples=60)
@given(rounds_of_any_kind())
def test_every_recording_comes_back(given: RoundRecording) -> None:
    assert_same(unpack(pack(given)), shifted(given))


def test_times_count_from_the_beginning() -> None:
    assert_same(unpack(pack(recording(begin=5000.0))), recording())


@pytest.mark.parametrize(
    "harm",
    [
        lambda _: b"",
        lambda packed: b"DTR\x02" + packed[4:],
        lambda packed: packed[:-9],
        lambda packed: packed + b"more",
        lambda _: MAGIC + zlib.compress(b"\x01\xff\xff\xff\xff"),
        lambda packed: MAGIC + zlib.compress(zlib.decompress(packed[4:]) + b"\0"),
        lambda _: MAGIC + zlib.compress(bytes((1 << 26) + 1)),
        lambda _: b"\x80\x04K\x01.",
    ],
    ids=["empty", "newer", "cut", "longer", "no column", "a rest", "huge", "a pickle"],
)
def test_what_is_damaged_or_newer_is_no_recording(harm: Callable[[bytes], bytes]) -> None:
    assert unpack(harm(pack(recording()))) is None


@pytest.mark.release(keep=8, reason="every seed")
@pytest.mark.parametrize("seed", range(30))
def test_flipped_bytes_never_raise(seed: int) -> None:
    chance = random.Random(seed)
    data = bytearray(zlib.decompress(pack(recording(20))[4:]))
    for _ in range(4):
        data[chance.randrange(len(data))] ^= chance.randrange(1, 256)
    found = unpack(MAGIC + zlib.compress(bytes(data)))
    assert found is None or len(found.rounds) == 20


def test_more_than_is_ever_kept_is_damaged(monkeypatch: pytest.MonkeyPatch) -> None:
    packed = pack(recording())
    spans = recording().spans
    before = RoundRecording(recording().rounds, (replace(spans[0], start=-9), *spans[1:]), (3,) * 3)
    assert unpack(pack(before)) is None
    for name, most in (("MOST_ROUNDS", 2), ("MOST_TOKENS", 8), ("MOST_TOKENS", 3)):
        with monkeypatch.context() as small:
            small.setattr(f"app.history.rounds.{name}", most)
            assert unpack(packed) is None
    assert unpack(packed) is not None
    with pytest.raises(Damaged):
        ColumnReader(pack_column([4, -1]), 99).naturals(2)
    with pytest.raises(ValueError, match="do not belong together"):
        RoundRecording(recording().rounds, recording().spans, (3, 3))


def test_what_is_far_too_long_is_not_kept() -> None:
    assert recording(1).keepable
    assert not RoundRecording((), (), ()).keepable
    many = (recording(1).rounds[0],) * (MOST_ROUNDS + 1)
    assert not RoundRecording(many, (), (0,) * len(many)).keepable


def test_it_takes_few_bytes() -> None:
    chance = random.Random(5)
    rounds, spans, at, clock = [], [], 0, 0.0
    for index in range(500):
        clock += 0.08 + chance.random() * 0.02
        rounds.append(round_of(index, clock, (at, at + 12)))
        for place in range(3):
            origin = Origin.DRAFTED if place < 2 else Origin.TARGET
            spans.append(TokenSpan(chance.randrange(150_000), at, at + 4, origin, chance.random()))
            at += 4
    packed = pack(RoundRecording(tuple(rounds), tuple(spans), (3,) * 500))
    assert len(packed) < 20 * len(spans)


def test_several_goes_are_one_answer() -> None:
    whole = joined([recording(2), recording(3)])
    assert whole is not None
    assert [done.index for done in whole.rounds] == [0, 1, 2, 3, 4]
    assert whole.told == (3,) * 5
    ends = [done.verify.end for done in whole.rounds]
    assert ends == sorted(ends)
    assert whole.rounds[2].drafting[0].start == pytest.approx(whole.rounds[1].at)
    assert joined([]) is None


# -- in the history ------------------------------------------------------------------------


def answered(store: HistoryStore, rounds: int = 3) -> tuple[int, int]:
    """A conversation with one answer; their ids."""
    chat = store.conversations.create("Chat")
    store.answers.add_user_message(chat.id, "why?")
    return chat.id, an_answer(store, chat.id, rounds)


def an_answer(store: HistoryStore, chat: int, rounds: int) -> int:
    begun = store.answers.begin(chat, model="m", sampling=SamplingParams())
    store.answers.finish(
        begun.id,
        text="because " * rounds,
        token_ids=None,
        marks=None,
        state=AnswerState.COMPLETE,
        stats=None,
        signature="s",
    )
    store.answers.keep_rounds(begun.id, pack(recording(rounds)))
    return begun.id


def kept(store: HistoryStore, message_id: int) -> list[int]:
    found = [unpack(each) for each in store.answers.rounds(message_id)]
    return [len(each.rounds) for each in found if each is not None]


def test_each_branch_keeps_its_own(tmp_path: Path) -> None:
    path = tmp_path / "history.sqlite"
    with HistoryStore.open(path) as store:
        chat, first = answered(store, 3)
        question = store.branches.messages(chat)[0]
        store.branches.set_leaf(chat, question.id)
        second = an_answer(store, chat, 5)
        store.answers.resume(second)
        store.answers.keep_rounds(second, pack(recording(2)))
    with HistoryStore.open(path) as store:
        assert kept(store, first) == [3]
        assert kept(store, second) == [5, 2]
        assert store.answers.rounds(question.id) == ()


def test_they_go_with_their_message(tmp_path: Path) -> None:
    path = tmp_path / "history.sqlite"
    with HistoryStore.open(path) as store:
        _, message_id = answered(store)
        other, kept_one = answered(store)
        store.trash.undelete(store.trash.delete_message(message_id))
        assert kept(store, message_id) == [3]
        store.trash.delete_message(message_id)
        store.trash.empty()
    with closing(sqlite3.connect(path)) as connection:
        owners = connection.execute("SELECT message_id FROM answer_rounds").fetchall()
    assert owners == [(kept_one,)]
    with HistoryStore.open(path) as store:
        store.trash.delete_conversation(other)
        store.answers.keep_rounds(9999, b"for nobody")
        store.trash.empty()
    with closing(sqlite3.connect(path)) as connection:
        assert connection.execute("SELECT count(*) FROM answer_rounds").fetchone() == (0,)


def test_an_older_file_has_none_and_takes_some(tmp_path: Path) -> None:
    path = tmp_path / "history.sqlite"
    connection = connect(path, MIGRATIONS[:2], ())
    connection.execute(
        "INSERT INTO conversation(id, title, created_at, updated_at) VALUES (4, 'Old', 1.0, 2.0)"
    )
    connection.execute(
        "INSERT INTO message(id, conversation_id, role, text, state, created_at)"
        " VALUES (1, 4, 'assistant', 'Hi', 'complete', 1.0)"
    )
    connection.close()
    with HistoryStore.open(path) as store:
        assert store.answers.rounds(1) == ()
        store.answers.keep_rounds(1, pack(recording()))
        assert kept(store, 1) == [3]


def test_they_move_with_a_conversation(tmp_path: Path) -> None:
    with HistoryStore.open(tmp_path / "a.sqlite") as store:
        chat, message_id = answered(store)
        store.answers.keep_rounds(message_id, b"of a newer version")
        exported = export_json(store.trees, [chat])
    with HistoryStore.open(tmp_path / "b.sqlite") as store:
        (taken,) = import_text(store.trees, exported)
        answer = store.branches.messages(taken.id)[-1]
        assert kept(store, answer.id) == [3]
        assert len(store.answers.rounds(answer.id)) == 1
        odd = exported.replace('"rounds": [', '"rounds": [null, "?", ')
        (again,) = import_text(store.trees, odd)
        assert kept(store, store.branches.messages(again.id)[-1].id) == [3]


def test_they_are_rescued_from_a_damaged_file(tmp_path: Path) -> None:
    path = tmp_path / "history.sqlite"
    with HistoryStore.open(path) as store:
        chat, message_id = answered(store, 400)
        store.answers.keep_rounds(message_id, b"no recording")
    data = path.read_bytes()
    path.write_bytes(data[:100] + b"\xff" * 3996 + data[4096:])
    with HistoryStore.open_read_only(path) as store:
        assert store.branches.messages(chat)[-1].id == message_id
        assert kept(store, message_id) == [400]
        assert len(store.answers.rounds(message_id)) == 1


def test_a_copy_of_the_file_after_a_crash_has_what_was_written(tmp_path: Path) -> None:
    path, crashed = tmp_path / "history.sqlite", tmp_path / "crashed.sqlite"
    with HistoryStore.open(path) as store:
        _, message_id = answered(store)
        for suffix in ("", "-wal"):
            source = path.with_name(path.name + suffix)
            shutil.copy(source, crashed.with_name(crashed.name + suffix))
    with HistoryStore.open(crashed) as store:
        assert kept(store, message_id) == [3]

"""The numbers under an answer: what they say of how it was drafted."""

from __future__ import annotations

from dataclasses import replace

from app.chat.messages.answer_texts import answer_numbers, answer_table
from app.history import AnswerState
from app.history.columns import pack_stats, unpack_stats
from app.history.message import StoredMessage
from app.showcase.script import stats
from engine.commands import Mode
from engine.events import AnswerStats
from engine.request import Role, SamplingParams


def table(numbers: AnswerStats) -> dict[str, str]:
    message = StoredMessage(
        1,
        Role.ASSISTANT,
        "Text",
        state=AnswerState.COMPLETE,
        sampling=SamplingParams(),
        stats=numbers,
    )
    return dict(answer_table(message))


def test_mode_acceptance_and_shares_are_told() -> None:
    numbers = replace(
        stats(40), mode=Mode.DOVETAIL, committed=40, drafted=60, accepted=30, acceptance_length=3.5
    )
    told = table(numbers)
    assert told["Mode"] == "Dovetail"
    assert told["Acceptance length"] == "3.50"
    assert told["Share of drafted tokens in the answer"].startswith("75")
    assert told["Accepted"].startswith("30 of 60 drafted tokens (50")
    assert "Accepted by position" in told
    assert "Dovetail" in answer_numbers(numbers)[1]


def test_a_server_s_speed_and_a_pause_of_drafting_are_told() -> None:
    told = table(replace(stats(40), host_tokens_per_s=33.4, fallback_reason="It did not pay."))
    assert told["Speed reported by the server"] == "33.4 tokens/s"
    assert told["Drafting was paused"] == "It did not pay."


def test_what_the_lanes_did_is_told_where_it_was_measured() -> None:
    numbers = replace(
        stats(40),
        decode_seconds=10.0,
        draft_seconds=6.0,
        verify_seconds=9.0,
        useful_seconds=4.0,
        wasted_seconds=1.0,
    )
    told = table(numbers)
    assert told["The draft's time"] == "useful 40\u202f%, wasted 10\u202f%, idle 40\u202f%"
    assert told["Target idle"] == "10\u202f%"
    before = replace(numbers, useful_seconds=9.0, wasted_seconds=3.0)  # some before the first round
    assert table(before)["The draft's time"] == "useful 45\u202f%, wasted 15\u202f%, idle 40\u202f%"
    assert "The draft's time" not in table(replace(numbers, draft_seconds=0.0))
    assert "The draft's time" not in table(replace(numbers, decode_seconds=0.0))


def test_looking_up_takes_no_time_and_few_tokens_tell_no_speed() -> None:
    numbers = replace(
        stats(40),
        decode_seconds=10.0,
        draft_seconds=0.02,
        verify_seconds=9.0,
        useful_seconds=0.01,
        wasted_seconds=0.01,
    )
    assert "The draft's time" not in table(numbers)
    assert table(numbers)["Target idle"] == "10\u202f%"
    assert any("tokens/s" in each for each in answer_numbers(numbers))
    assert not any("tokens/s" in each for each in answer_numbers(replace(numbers, committed=6)))


def test_an_answer_of_an_older_version_has_no_mode() -> None:
    told = table(stats(40))
    assert "Mode" not in told
    assert "Speed" in told


def test_the_mode_is_stored_with_the_answer() -> None:
    kept = unpack_stats(pack_stats(replace(stats(40), mode=Mode.CPU)))
    assert kept is not None
    assert kept.mode == Mode.CPU
    unknown = unpack_stats(pack_stats(replace(stats(40), mode="of a newer version")))
    assert unknown is not None
    assert table(unknown)["Mode"] == "of a newer version"

"""The ledger: what is held by whom, what is refused, what comes back."""

from __future__ import annotations

import gc
from threading import Thread

import pytest
from hypothesis import given
from hypothesis import strategies as st

from engine.backend.ledger import GIB, Account, Allocation, Held, Ledger, Purpose
from engine.errors import OutOfMemory


class Holder:
    """Something that holds memory."""


def test_lines_say_who_holds_what() -> None:
    ledger = Ledger("cpu", "Memory")
    target, draft = Account(ledger, "target"), Account(ledger, "draft")
    kept = [
        target.take(Purpose.WEIGHTS, 700, mapped=True),
        target.take(Purpose.WEIGHTS, 300),
        target.take(Purpose.KV, 400, lambda: 150),
        draft.take(Purpose.WEIGHTS, 90),
    ]
    assert ledger.lines() == (
        Held("target", Purpose.WEIGHTS, 1000, 1000, mapped=700, peak=1000),
        Held("target", Purpose.KV, 400, 150, peak=400),
        Held("draft", Purpose.WEIGHTS, 90, 90, peak=90),
    )
    for entry in kept:
        entry.release()
    assert (ledger.held, ledger.peak, ledger.lines()) == (0, 1490, ())


def test_what_is_beyond_the_budget_is_refused_in_words() -> None:
    ledger = Ledger("cuda:0", "RTX 3060", 4 * GIB)
    entry = ledger.take("target", Purpose.WEIGHTS, 3 * GIB)
    with pytest.raises(OutOfMemory) as refused:
        ledger.take("target", Purpose.KV, GIB + GIB // 2)
    for said in ("RTX 3060", "1.50 GiB (KV cache)", "budget of 4.00", "3.00 of which"):
        assert said in refused.value.cause
    assert ledger.held == ledger.peak == 3 * GIB
    ledger.take("target", Purpose.KV, GIB).release()
    entry.release()
    entry.release()
    assert ledger.held == 0


def test_an_entry_lasts_as_long_as_its_holder() -> None:
    ledger, holder = Ledger("cpu", "Memory", 10), Holder()
    ledger.take("target", Purpose.KV, 10).lasts_as_long_as(holder)
    with pytest.raises(OutOfMemory):
        ledger.take("target", Purpose.KV, 1)
    del holder
    assert ledger.held == 0


def test_garbage_in_a_cycle_makes_room() -> None:
    ledger, holder = Ledger("cpu", "Memory", 10), Holder()
    holder.itself = holder  # type: ignore[attr-defined]
    gc.disable()
    try:
        ledger.take("target", Purpose.KV, 10).lasts_as_long_as(holder)
        del holder
        assert ledger.held == 10
        ledger.take("target", Purpose.KV, 10).release()
    finally:
        gc.enable()


def test_threads_lose_nothing() -> None:
    ledger, refused = Ledger("cpu", "Memory", 64 * 40), []

    def work(size: int) -> None:
        held: list[Allocation] = []
        for turn in range(2000):
            try:
                held.append(ledger.take("target", Purpose.WORKSPACE, size))
            except OutOfMemory:
                refused.append(turn)
            if turn % 3 or len(held) > 40:
                holder = Holder()
                if held:
                    held.pop().lasts_as_long_as(holder)
        for entry in held:
            entry.release()

    threads = [Thread(target=work, args=(size,)) for size in (8, 16, 24, 64)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert ledger.held == 0
    assert ledger.peak <= 64 * 40


@given(st.lists(st.tuples(st.integers(0, 60), st.booleans()), max_size=40), st.integers(0, 100))
def test_it_is_what_was_taken_and_not_given_back(
    steps: list[tuple[int, bool]], budget: int
) -> None:
    ledger, held, peak = Ledger("cpu", "Memory", budget), [], 0
    for size, release in steps:
        before = sum(entry.nbytes for entry in held)
        if release and held:
            held.pop(size % len(held)).release()
        elif before + size > budget:
            with pytest.raises(OutOfMemory):
                ledger.take("draft", Purpose.KV, size)
        else:
            held.append(ledger.take("draft", Purpose.KV, size))
        now = sum(entry.nbytes for entry in held)
        peak = max(peak, now)
        assert (ledger.held, ledger.peak) == (now, peak)
        assert sum(line.nbytes for line in ledger.lines()) == now

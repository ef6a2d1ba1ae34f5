"""The controller on scripted timings: it finds the depth that pays, and stops what does not."""

from __future__ import annotations

from itertools import pairwise

import numpy as np
from simulated_pairs import round_of

from engine.backend.round import Budget, Round
from engine.backend.tree import TokenTree, chain
from engine.events import Interval
from engine.speculative.serial_controller import SerialController


class Machine:
    """A scripted pair: seconds per drafted level, per target forward, and chance of acceptance."""

    def __init__(self, level: float, verify: float, chance: float, per_row: float = 0.0) -> None:
        self.level, self.verify, self.chance, self.per_row = level, verify, chance, per_row
        self.rng = np.random.default_rng(1)
        self.clock = 0.0

    def play(self, controller: SerialController, budget: Budget | None) -> Round:
        tree, proposing = TokenTree.root(1), 0.0
        start = self.clock
        if budget is not None:
            levels = 1
            while levels < budget.depth and self.chance**levels >= budget.floor:
                levels += 1
            scores = np.log(self.chance) * np.arange(1, levels + 1)
            tree = controller.prune(chain(1, range(2, 2 + levels), scores.tolist()))
            proposing = self.level * levels
        begin = start + proposing
        self.clock = begin + self.verify + self.per_row * tree.drafted
        accepted = 0
        while accepted < tree.drafted and self.rng.random() < self.chance:
            accepted += 1
        offered = min(accepted + 1, tree.drafted)
        draft, verify = Interval(start, begin) if budget else None, Interval(begin, self.clock)
        done = round_of(tree, draft, verify, accepted=accepted, offered=offered)
        controller.observe(done, proposing)
        return done


def play(machine: Machine, controller: SerialController, rounds: int = 300) -> list[Round]:
    controller.begin()
    machine.play(controller, None)  # the first token, which never waits for a draft
    return [machine.play(controller, controller.next_budget(20)) for _ in range(rounds)]


def mean_drafted(rounds: list[Round]) -> float:
    return float(np.mean([done.drafted for done in rounds[-100:]]))


def speed(rounds: list[Round]) -> float:
    return sum(len(done.tokens) for done in rounds) / (rounds[-1].verify.end - 0.0)


def test_a_cheap_good_draft_goes_deep_and_a_dear_poor_one_does_not() -> None:
    cheap = play(Machine(level=0.02, verify=1.0, chance=0.9), SerialController(forced=True))
    dear = play(Machine(level=0.3, verify=1.0, chance=0.5), SerialController(forced=True))
    assert mean_drafted(cheap) > 5
    assert mean_drafted(dear) < 2.5


def test_drafting_that_pays_is_kept() -> None:
    controller = SerialController()
    rounds = play(Machine(level=0.1, verify=1.0, chance=0.8), controller)
    plain = [done for done in rounds if done.draft is None]
    assert len(plain) <= 0.06 * len(rounds), "only what keeps the comparison fresh"
    assert controller.fallback_reason is None
    assert speed(rounds) > 1.75


def test_drafting_that_does_not_pay_is_given_up_in_words_and_tried_again() -> None:
    controller = SerialController()
    rounds = play(Machine(level=0.6, verify=1.0, chance=0.2), controller, rounds=600)
    drafting = [index for index, done in enumerate(rounds) if done.draft is not None]
    assert len(drafting) < 0.05 * len(rounds)
    assert controller.fallback_reason is not None
    assert "times the plain speed" in controller.fallback_reason
    assert speed(rounds) > 0.97
    pauses = [later - earlier for earlier, later in pairwise(drafting) if later - earlier > 1]
    assert pauses, "it is tried again"


def test_what_has_not_paid_for_long_is_tried_seldom_and_found_when_it_pays() -> None:
    controller, machine = SerialController(), Machine(level=0.6, verify=1.0, chance=0.2)
    answers = [play(machine, controller, rounds=100) for _ in range(8)]
    drafting = [sum(done.draft is not None for done in rounds) for rounds in answers]
    assert 4 <= drafting[0] <= 8
    assert sum(drafting[1:]) <= 7, "some share of the time, over all answers together"
    assert 0 in drafting, "the pause outlasts an answer"
    machine.level, machine.chance = 0.05, 0.9
    assert sum(done.draft is not None for done in play(machine, controller, rounds=600)) > 300
    assert controller.fallback_reason is None
    again = play(machine, controller, rounds=100)
    assert sum(done.draft is not None for done in again) > 80


def test_forced_drafting_always_drafts() -> None:
    rounds = play(Machine(level=0.9, verify=1.0, chance=0.05), SerialController(forced=True), 100)
    assert all(done.drafted for done in rounds)


def test_it_follows_a_change() -> None:
    controller, machine = SerialController(forced=True), Machine(level=0.05, verify=1.0, chance=0.3)
    low = play(machine, controller, 200)
    machine.chance = 0.95
    high = play(machine, controller, 400)
    assert mean_drafted(high) > mean_drafted(low) + 2


def test_rows_that_cost_are_drafted_sparingly() -> None:
    free = play(Machine(level=0.02, verify=1.0, chance=0.8), SerialController(forced=True))
    dear = play(
        Machine(level=0.02, verify=1.0, chance=0.8, per_row=0.5), SerialController(forced=True)
    )
    assert mean_drafted(dear) < mean_drafted(free) - 1


def test_the_last_token_needs_no_draft() -> None:
    assert SerialController(forced=True).next_budget(0) is None


def test_a_long_catch_up_waits_until_the_answer_has_earned_it() -> None:
    controller = SerialController()
    controller.begin()
    machine = Machine(level=0.1, verify=1.0, chance=0.8)
    assert controller.worth_beginning(0.0)
    assert not controller.worth_beginning(2.5)
    for _ in range(3):
        machine.play(controller, None)
    assert controller.worth_beginning(2.5)
    assert SerialController(forced=True).worth_beginning(1e9)

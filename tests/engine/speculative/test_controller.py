"""The controller on scripted timings: it finds the depth that pays, and stops what does not."""

from __future__ import annotations

from itertools import pairwise

import numpy as np
import pytest
from simulated_pairs import round_of

from engine.backend.round import Budget, Round
from engine.backend.tree import TokenTree, chain
from engine.events import Interval
from engine.speculative.controller import Controller
from engine.speculative.costs import DraftCosts


class Machine:
    """A scripted pair: seconds per drafted level, per target forward, and chance of acceptance."""

    def __init__(self, level: float, verify: float, chance: float, per_row: float = 0.0) -> None:
        self.level, self.verify, self.chance, self.per_row = level, verify, chance, per_row
        self.rng = np.random.default_rng(1)
        self.clock = 0.0

    def proposing(self, levels: int) -> float:
        """Seconds of drafting so many levels."""
        return self.level * levels

    def play(self, controller: Controller, budget: Budget | None) -> Round:
        tree, proposing = TokenTree.root(1), 0.0
        start = self.clock
        if budget is not None:
            levels = 1
            while levels < budget.depth and self.chance**levels >= budget.floor:
                levels += 1
            scores = np.log(self.chance) * np.arange(1, levels + 1)
            tree = controller.prune(chain(1, range(2, 2 + levels), scores.tolist()))
            proposing = self.proposing(levels)
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


def play(machine: Machine, controller: Controller, rounds: int = 300) -> list[Round]:
    controller.begin()
    machine.play(controller, None)  # the first token, which never waits for a draft
    return [machine.play(controller, controller.next_budget(20)) for _ in range(rounds)]


def mean_drafted(rounds: list[Round]) -> float:
    return float(np.mean([done.drafted for done in rounds[-100:]]))


def speed(rounds: list[Round]) -> float:
    return sum(len(done.tokens) for done in rounds) / (rounds[-1].verify.end - 0.0)


def test_a_cheap_good_draft_goes_deep_and_a_dear_poor_one_does_not() -> None:
    cheap = play(Machine(level=0.02, verify=1.0, chance=0.9), Controller(forced=True))
    dear = play(Machine(level=0.3, verify=1.0, chance=0.5), Controller(forced=True))
    assert mean_drafted(cheap) > 5
    assert mean_drafted(dear) < 2.5


def test_drafting_that_pays_is_kept() -> None:
    controller = Controller()
    rounds = play(Machine(level=0.1, verify=1.0, chance=0.8), controller)
    plain = [done for done in rounds if done.draft is None]
    assert len(plain) <= 0.06 * len(rounds), "only what keeps the comparison fresh"
    assert controller.fallback_reason is None
    assert speed(rounds) > 1.75


def test_drafting_that_does_not_pay_is_given_up_in_words_and_tried_again() -> None:
    controller = Controller()
    rounds = play(Machine(level=0.6, verify=1.0, chance=0.2), controller, rounds=600)
    drafting = [index for index, done in enumerate(rounds) if done.draft is not None]
    assert len(drafting) < 0.05 * len(rounds)
    assert controller.fallback_reason is not None
    assert "times the plain speed" in controller.fallback_reason
    assert speed(rounds) > 0.97
    pauses = [later - earlier for earlier, later in pairwise(drafting) if later - earlier > 1]
    assert pauses, "it is tried again"


def test_what_has_not_paid_for_long_is_tried_seldom_and_found_when_it_pays() -> None:
    controller, machine = Controller(), Machine(level=0.6, verify=1.0, chance=0.2)
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
    rounds = play(Machine(level=0.9, verify=1.0, chance=0.05), Controller(forced=True), 100)
    assert all(done.drafted for done in rounds)


def test_it_follows_a_change() -> None:
    controller, machine = Controller(forced=True), Machine(level=0.05, verify=1.0, chance=0.3)
    low = play(machine, controller, 200)
    machine.chance = 0.95
    high = play(machine, controller, 400)
    assert mean_drafted(high) > mean_drafted(low) + 2


def test_rows_that_cost_are_drafted_sparingly() -> None:
    free = play(Machine(level=0.02, verify=1.0, chance=0.8), Controller(forced=True))
    dear = play(Machine(level=0.02, verify=1.0, chance=0.8, per_row=0.5), Controller(forced=True))
    assert mean_drafted(dear) < mean_drafted(free) - 1


def test_the_last_token_needs_no_draft() -> None:
    assert Controller(forced=True).next_budget(0) is None


def reading_controller(*, forced: bool = False, pace: float = 0.05) -> Controller:
    """A controller that knows the machine below, whose draft reads a token in so many seconds."""
    controller, machine = Controller(forced=forced), MACHINE
    for _ in range(10):
        play(machine, controller, 30)
    controller.has_read([(1000, 1000 * pace)])
    controller.begin()
    machine.play(controller, None)
    return controller


MACHINE = Machine(level=0.3, verify=1.0, chance=0.8)


@pytest.mark.parametrize("forced", [False, True])
def test_a_draft_reads_all_of_a_short_prompt_and_the_end_of_a_long_one(*, forced: bool) -> None:
    assert reading_controller(forced=forced).to_read(60, 500) == 60
    assert 16 <= reading_controller(forced=forced).to_read(3000, 500) < 300
    assert reading_controller(forced=forced).to_read(0, 500) == 0


def test_what_is_read_depends_on_what_it_costs_and_on_how_long_answers_are() -> None:
    quick, slow = (reading_controller(pace=pace).to_read(3000, 500) for pace in (0.01, 0.2))
    assert quick > 3 * slow
    brief = reading_controller()
    for _ in range(40):
        play(MACHINE, brief, 2)
    brief.begin()
    MACHINE.play(brief, None)
    assert brief.to_read(3000, 500) < 0.5 * reading_controller().to_read(3000, 500)
    assert brief.to_read(60, 500) < 60


@pytest.mark.parametrize("forced", [False, True])
def test_all_is_read_once_the_answer_is_long_where_the_end_does_not_do(*, forced: bool) -> None:
    """Until then the target decodes alone, unless drafting is forced."""
    controller, unread = reading_controller(forced=forced), 400
    read, rounds = controller.to_read(unread, 5000), 0
    assert 0 < read < unread
    controller.has_read([(read, read * 0.05)])
    useless = Machine(level=0.3, verify=1.0, chance=0.1)
    plain = 0
    while not (count := controller.to_read(unread, 5000)):
        budget = controller.next_budget(500)
        plain += budget is None
        useless.play(controller, budget)
        rounds += 1
    assert count == unread
    assert 40 < rounds < 80
    assert plain == 0 if forced else plain > 0.6 * rounds, "it is given up soon"
    controller.has_read([(count, count * 0.05)])
    assert controller.to_read(0, 5000) == 0
    assert controller.next_budget(500) is not None, "what was believed of whole texts still holds"


def test_all_is_not_read_where_the_end_does() -> None:
    controller = reading_controller()
    count = controller.to_read(400, 5000)
    controller.has_read([(count, count * 0.05)])
    for _ in range(300):
        assert not controller.to_read(400, 5000)
        MACHINE.play(controller, controller.next_budget(500))


def test_nothing_is_drafted_before_something_is_read() -> None:
    controller = reading_controller(pace=5.0)
    assert controller.to_read(3000, 500) == 0
    assert controller.next_budget(100) is None


def test_where_drafting_is_forced_the_end_is_read_at_any_price() -> None:
    controller = reading_controller(forced=True, pace=5.0)
    count = controller.to_read(3000, 500)
    assert 16 <= count < 100
    controller.has_read([(count, count * 5.0)])
    assert controller.next_budget(100) is not None


def copied(chance: float, length: int = 20) -> TokenTree:
    """A chain that lookup proposes, every token of it as likely."""
    scores = np.log(chance) * np.arange(1, length + 1)
    weights = [None] * length
    nodes = zip(range(length), range(2, 2 + length), scores.tolist(), strict=True)
    return TokenTree.build(1, nodes, weights=weights)


def test_what_lookup_is_sure_of_is_verified_without_drafting() -> None:
    controller = Controller(forced=True)
    play(MACHINE, controller, 50)
    assert controller.alone(copied(0.99)).drafted > 5
    assert controller.alone(copied(0.2)).drafted == 0, "a usual round brings more"
    assert controller.alone(TokenTree.root(1)).drafted == 0


def test_where_drafting_does_not_pay_lookup_is_used_as_soon_as_it_does() -> None:
    controller = Controller()
    play(Machine(level=0.6, verify=1.0, chance=0.2, per_row=0.1), controller, 200)
    assert controller.fallback_reason is not None
    assert controller.alone(copied(0.6)).drafted
    assert not controller.alone(copied(0.02)).drafted


def test_rows_of_lookup_behind_a_draft_are_not_the_drafts() -> None:
    """They neither make its levels seem cheap nor its trees large."""
    plain, cascade = Controller(forced=True), Controller(forced=True)
    for controller, more in ((plain, 0), (cascade, 12)):
        machine = Machine(level=0.3, verify=1.0, chance=0.8)
        play(machine, controller, 60)
        for _ in range(60):
            budget = controller.next_budget(20)
            assert budget is not None
            own = chain(1, [2, 3], [-0.2, -0.4])
            nodes = zip(own.parents[1:], own.tokens[1:], own.scores[1:], strict=True)
            behind = [(2 + at, 9, -0.5 - 0.01 * at) for at in range(more)]
            weights = [-0.2, -0.2, *[None] * more]
            tree = controller.prune(TokenTree.build(1, [*nodes, *behind], weights=weights))
            start = machine.clock
            machine.clock = start + 0.6 + 1.0
            done = round_of(
                tree,
                Interval(start, start + 0.6),
                Interval(start + 0.6, machine.clock),
                accepted=2,
                offered=2 + bool(more),
            )
            controller.observe(done, 0.6)
    one, other = cascade.next_budget(20), plain.next_budget(20)
    assert one is not None
    assert other is not None
    assert (one.nodes, one.depth, one.width) == (other.nodes, other.depth, other.width)
    assert cascade.acceptance == pytest.approx(plain.acceptance)


class OnePass(DraftCosts):
    """Costs of a draft that proposes a whole chain in one pass, however long it is."""

    def draft_seconds(self, depth: int, width: int) -> float:
        del depth
        return self.of(width)

    def learn(self, depth: int, width: int, seconds: float) -> None:
        del depth
        self.add(width, seconds)


class OnePassMachine(Machine):
    """A machine whose draft takes as long for ten levels as for one."""

    def proposing(self, levels: int) -> float:
        del levels
        return self.level


def test_how_deep_depends_on_what_the_drafter_says_a_budget_takes() -> None:
    """The same first level, and others that cost as much again or nothing."""
    each = Machine(level=0.4, verify=1.0, chance=0.75)
    once = OnePassMachine(level=0.4, verify=1.0, chance=0.75)
    shallow = play(each, Controller(costs=DraftCosts((0.4,))))
    deep = play(once, Controller(costs=OnePass((0.4,))))
    assert mean_drafted(shallow) < 3
    assert mean_drafted(deep) > 6
    taught = Controller(costs=(costs := OnePass((0.1,))))
    play(once, taught)
    assert costs.draft_seconds(8, 1) == pytest.approx(0.4, rel=0.15), "taught by rounds"

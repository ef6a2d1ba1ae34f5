"""What every budget comes to: steps, the forbidden zone, words."""

from __future__ import annotations

import re
from dataclasses import replace

import pytest
import sample_budgets as sample
from hypothesis import given, settings
from hypothesis import strategies as st

from app.tuning.budget.model import GIB, BudgetModel, MeasuredPoint, spread_of
from app.tuning.budget.tables import of_curve
from app.tuning.budget.wording import (
    card_title,
    forbidden_words,
    knee_words,
    mode_words,
    sentence,
    size_words,
    stack_words,
)
from app.widgets.memory_parts import MemoryPart
from engine.commands import Load, Mode
from engine.events import Previewed
from engine.events.models import Curve
from engine.language.units import memory
from engine.machine.facts import Machine

OTHERS = st.integers(0, 12 * GIB)
CEILINGS = st.integers(0, 13 * GIB)
EMPTY = Curve(Mode.DUO, (), 0, 0, 40, 0, "It needs 3 GiB more than there are.")


@st.composite
def budgets(draw: st.DrawFn) -> BudgetModel:
    """Any number of steps at any distances."""
    sizes = draw(st.lists(st.integers(0, 13 * GIB), min_size=1, max_size=60, unique=True))
    steps = [replace(sample.point(n, 1.0 + n), vram=vram) for n, vram in enumerate(sorted(sizes))]
    knee = draw(st.sampled_from(sizes))
    found = Curve(Mode.AUTO, tuple(steps), 11 * GIB, knee, 80, 8192)
    return sample.model(others=draw(OTHERS), curves=(found,))


@settings(deadline=None, max_examples=60)
@given(budgets(), CEILINGS, CEILINGS)
def test_snapping_is_monotone_and_stays_where_it_fits(
    model: BudgetModel, one: int, other: int
) -> None:
    low, high = sorted((one, other))
    assert model.nearest(low) <= model.nearest(high) <= model.last
    found = model.nearest(low)
    reachable = model.points[: model.last + 1]
    assert abs(model.points[found].vram - low) == min(abs(p.vram - low) for p in reachable)


@settings(deadline=None, max_examples=60)
@given(budgets())
def test_every_step_is_where_it_snaps_to(model: BudgetModel) -> None:
    for index, point in enumerate(model.points[: model.last + 1]):
        assert model.nearest(point.vram) == index == model.index(point.vram)


@settings(deadline=None, max_examples=60)
@given(budgets(), st.data())
def test_steps_and_pages_move_as_far_as_fits(model: BudgetModel, data: st.DataObject) -> None:
    index = data.draw(st.integers(0, model.last))
    assert model.stepped(index, 1) == min(index + 1, model.last)
    assert model.stepped(index, -1) == max(index - 1, 0)
    up, down = model.paged(index, 1), model.paged(index, -1)
    assert min(index + 1, model.last) <= up <= model.last
    assert max(index - 1, 0) >= down >= 0
    beyond = model.points[up].vram - model.points[index].vram
    if up > index + 1:  # never further from a GiB than the step before
        assert abs(beyond - GIB) <= abs(model.points[up - 1].vram - model.points[index].vram - GIB)


@settings(deadline=None, max_examples=60)
@given(budgets(), CEILINGS)
def test_the_sentence_agrees_with_the_point(model: BudgetModel, budget: int) -> None:
    point = model.at(budget)
    assert point is not None
    assert point.vram <= budget or point is model.points[0]
    said = sentence(model, budget)
    assert size_words(point.vram) in said
    low, high = model.range_of(point)
    numbers = [float(n) for n in re.findall(r"about ([\d.]+) .*\(([\d.]+) to ([\d.]+)\)", said)[0]]
    assert numbers == pytest.approx([point.tokens_per_s, low, high], abs=0.51)
    assert said.startswith("No layers" if not point.layers_on_gpu else f"{point.layers_on_gpu} of")


@settings(deadline=None, max_examples=60)
@given(budgets(), CEILINGS, OTHERS)
def test_the_forbidden_zone_moves_with_other_programs(
    model: BudgetModel, budget: int, others: int
) -> None:
    moved = model.with_others(others)
    assert abs(moved.others - others) < model.total / 500
    others = moved.others
    assert moved.limit == max(moved.total - others - moved.reserve, 0)
    assert moved.fits(budget) == (moved.at(budget).vram <= moved.limit)  # type: ignore[union-attr]
    assert (moved.last <= model.last) or others <= model.others
    assert moved.knee <= max(moved.limit, moved.points[0].vram)


def test_what_no_longer_fits_is_said() -> None:
    model = sample.model(others=9 * GIB)
    assert mode_words(model, 8 * GIB).endswith("other programs use too much memory.")
    assert "fit" not in mode_words(model, 2 * GIB)


def test_the_knee_in_words() -> None:
    model = sample.model()
    assert knee_words(model) == f"More than {memory(model.knee)} brings no speed."
    useless = replace(model.main, knee=0)
    assert "does not make this model faster" in knee_words(sample.model(curves=(useless,)))
    always = replace(model.main, knee=12 * GIB)
    assert knee_words(sample.model(curves=(always,))) == ""
    alone = replace(model.main, points=model.points[:9], knee=12 * GIB)
    size = memory(alone.points[-1].vram)
    assert knee_words(sample.model(curves=(alone,))) == f"More than {size} brings no speed."
    rising = sample.curve(Mode.AUTO, sample.speeds(40, 5.0, 19.0))
    assert "hardly" in knee_words(sample.model(curves=(rising,)))


def test_auto_is_the_knee_that_fits() -> None:
    model = sample.model()
    assert model.at(None) is model.at(model.knee)
    taken = model.with_others(9 * GIB)
    assert taken.at(None) is model.points[taken.last]


def test_why_not_all_of_the_card_can_be_had() -> None:
    words = forbidden_words(sample.model())
    assert memory(round(1.3 * GIB)) in words
    assert memory(384 * sample.MIB) in words
    reserved = forbidden_words(sample.model(others=0))
    assert reserved.endswith("are reserved.")
    assert "Other programs" not in reserved
    assert card_title(sample.model(card=None)) == "Memory of the GPU"
    simulated = sample.model(others=0, card=sample.SIMULATED)
    assert forbidden_words(simulated) == ""
    assert "the simulated GPU" in sentence(simulated, GIB * 4)


def test_changes_too_small_to_be_seen_change_nothing() -> None:
    model = sample.model(others=GIB)
    assert model.with_others(GIB + sample.MIB) is model
    assert model.with_others(GIB + 50 * sample.MIB) is not model


def test_a_card_that_borrows_the_memory_of_the_pc() -> None:
    own, lent = sample.model(others=0), sample.model(others=0, card=sample.SIMULATED)
    card = own.points[20].memory[1]
    budget = own.points[20].vram
    assert lent.host_then(budget).ours == own.host_then(budget).ours + card.total
    assert lent.host_then(0) == own.host_then(0)


def test_what_is_missing_is_said() -> None:
    then = sample.model(others=11 * GIB).card_then(8 * GIB)
    assert "too much" in stack_words("Card", None, then)
    assert "too much" not in stack_words("Card", None, sample.model().card_then(8 * GIB))


def test_nothing_fits() -> None:
    model = sample.model(curves=(EMPTY,))
    assert sentence(model, None) == EMPTY.refusal
    (row,) = of_curve("Speed", model).rows[:1]
    assert row[1] == EMPTY.refusal
    assert model.at(3) is None
    assert (model.last, model.index(5), model.nearest(5), model.paged(-1, 1)) == (-1, -1, -1, -1)
    assert model.stepped(-1, 1) == -1
    assert knee_words(model) == mode_words(model, None) == ""
    assert sentence(sample.model(curves=()), None).startswith("There is no data")


def test_the_band_is_what_predictions_were_wrong_by() -> None:
    found = sample.auto()
    at = found.points[20]
    seen = MeasuredPoint(at.vram, 0.8 * at.tokens_per_s, Mode.AUTO, "")
    assert spread_of((found,), [seen]) == pytest.approx(0.2)
    assert spread_of((found,), [replace(seen, tokens_per_s=at.tokens_per_s)]) == 0.05
    assert spread_of((found,), []) < spread_of((found,), [], calibrated=False)
    assert spread_of((found,), [replace(seen, mode=Mode.DUO)]) == spread_of((found,), [])


def test_made_from_a_preview() -> None:
    machine = Machine(sample.HOST, (replace(sample.CARD, device="cuda:9"), sample.CARD))
    told = Previewed(0.0, Load(sample.HOST), machine, None, (sample.auto(),))  # type: ignore[arg-type]
    model = BudgetModel.of(told, sample.PRESENT, sample.MEASURED)
    assert model.card is sample.CARD
    assert model.others == GIB
    assert BudgetModel.of(told, others=5).others == 5
    now = model.card_now()
    assert now is not None
    assert now.of(MemoryPart.OTHERS) == GIB
    assert now.ours == sample.PRESENT.memory[1].total
    assert replace(model, present=None).card_now() is None
    assert model.host_then(0).ours == model.points[0].memory[0].total
    assert "Target" in stack_words("Card", now, model.card_then(None))


def idle() -> BudgetModel:
    """Automatic stays on the CPU with any budget; Dovetail would use some memory."""
    alone = Curve(Mode.AUTO, (sample.point(0, 13.0, Mode.CPU),), 11 * GIB, 0, 40, 8192)
    using = tuple(sample.point(n, 5.0 + n / 4, Mode.DOVETAIL) for n in (2, 4, 8))
    return sample.model(
        curves=(alone, Curve(Mode.DOVETAIL, using, 11 * GIB, using[-1].vram, 40, 8192)), others=0
    )


def test_where_no_memory_is_used_the_ceiling_moves_over_what_another_mode_would_use() -> None:
    model = idle()
    assert model.rival is not None
    assert model.rival.mode is Mode.DOVETAIL
    assert model.steps == (0, *(each.vram for each in model.rival.points))
    assert model.last == len(model.steps) - 1
    assert model.at(model.steps[-1]) == model.points[0], "Automatic makes the same of it"
    assert model.index(model.steps[2]) == 2
    said = knee_words(model)
    assert "Automatic uses no GPU memory" in said
    assert "CPU reaches about 13 tokens/s" in said
    assert "Dovetail with" in said


def test_the_axis_ends_where_nothing_more_can_be_used() -> None:
    model = idle()
    assert model.steps[-1] < model.extent < model.total / 2
    whole = sample.model()
    assert whole.extent == whole.total, "there memory is what limits"

"""The tuning page: on several machines, with something chosen, refused, applied, measured."""

from __future__ import annotations

import time
from dataclasses import replace
from functools import partial
from time import perf_counter

from app.engine_link.measured import Measured
from app.shell.page_names import PageName
from app.showcase import budgets
from app.showcase.budgets import GIB, load_of, previewed
from app.showcase.scenes.shoot import Shoot, new_chat
from app.showcase.script import MODEL_NAME, PLAN, stats
from app.showcase.stage import Stage, catch_up, settle, wait_for
from app.tuning.draft_list import DraftList
from app.tuning.tuning_page import TuningPage
from engine.commands import DraftChoice, Load, Mode
from engine.events import (
    Calibrated,
    CalibrationProgress,
    Failed,
    FailureKind,
    MachineFound,
    PlanReady,
    Previewed,
    WayOut,
)
from engine.machine.facts import Machine
from engine.machine.speeds import Speeds

_TEXT = "A budget says how much of the card Duotail may use. The rest stays with other programs. "


def machines(stage: Stage, shoot: Shoot) -> None:
    """Show the page without a GPU, with an unusable one, a simulated one, a real one, several."""
    new_chat(stage)
    page = _opened(stage, budgets.WITHOUT_CARD, None)
    shoot("tuning-no-card")
    _opened(stage, budgets.WITH_UNUSABLE, None)
    shoot("tuning-unusable-card")
    _opened(stage, budgets.WITH_SIMULATED)
    shoot("tuning-simulated")
    _opened(stage, budgets.WITH_CARD)
    shoot("tuning-card")
    _to_end(page)
    shoot("tuning-card-end")
    _opened(stage, budgets.many_cards())
    _to_end(page)
    shoot("tuning-many-cards-end")


def choosing(stage: Stage, shoot: Shoot) -> None:
    """Show other budgets and modes, what does not fit, choosing during an answer, measuring."""
    new_chat(stage)
    page = _opened(stage, budgets.WITH_CARD)
    _measured(stage)
    page.choosing.choose(vram=round(2.4 * GIB))
    _planned(stage)
    shoot("tuning-change")
    _writing(stage, shoot, page)
    _refused(stage, shoot, page)
    page.choosing.undo()
    stage.tell(CalibrationProgress(perf_counter(), "", 0.4))
    catch_up()
    _to_end(page)
    shoot("tuning-measuring")
    stage.tell(Calibrated(perf_counter(), None))
    stage.window.pages.show_chat()
    stage.preview = previewed
    stage.ready()


def own_head(stage: Stage, shoot: Shoot) -> None:
    """Show the drafts of a model with an MTP head in its files: Automatic, and the head chosen."""
    new_chat(stage)
    page = _opened(stage, budgets.WITH_CARD)
    stage.preview = _with_own_head
    _ready(stage, budgets.WITH_CARD, load_of())
    page.previews.refresh()
    _planned(stage)
    _to_drafts(page)
    shoot("tuning-mtp")
    page.choosing.choose(draft=DraftChoice.MTP)
    _planned(stage)
    _to_drafts(page)
    shoot("tuning-mtp-chosen")
    page.choosing.undo()
    stage.preview = partial(_with_own_head, there=False)
    _ready(stage, budgets.WITH_CARD, load_of())
    page.previews.refresh()
    _planned(stage)
    _to_drafts(page)
    shoot("tuning-mtp-missing")
    stage.window.pages.show_chat()
    stage.preview = previewed
    stage.ready()


def _with_own_head(load: Load, *, there: bool = True) -> Previewed:
    draft = "MTP head + lookup" if load.draft is DraftChoice.AUTO else "MTP head"
    draft = draft if there else "lookup"
    found = previewed(load, budgets.WITH_CARD, speeds=budgets.SPEEDS, draft=draft)
    plan = replace(found.plan or PLAN, has_mtp=there)
    return replace(found, plan=plan)


def _writing(stage: Stage, shoot: Shoot, page: TuningPage) -> None:
    wish = page.choosing.profile
    stage.window.pages.show_chat()
    stage.assembly.session.send("What is a budget?")
    stage.stream(_TEXT * 3)
    stage.window.pages.open(PageName.TUNING)
    page.choosing.take(replace(wish, mode=Mode.DUO))
    _planned(stage)
    shoot("tuning-while-writing")
    page.bar.apply_button.click()
    _planned(stage)
    shoot("tuning-waiting")
    stage.finish(_TEXT * 3, account=replace(stats(51), tokens_per_s=14.2))
    _ready(stage, budgets.WITH_CARD, stage.assembly.bridge.status.wanted or load_of())


def _refused(stage: Stage, shoot: Shoot, page: TuningPage) -> None:
    refusal = Failed(
        0.0,
        None,
        "A context of 32,768 tokens does not fit: the KV cache needs 4.0 GiB more.",
        "Choose a shorter context, or close what else uses memory.",
        kind=FailureKind.OUT_OF_MEMORY,
        ways_out=(
            WayOut("Context of 16,384 tokens", replace(load_of(), context=16384), 9.8),
            WayOut("CPU", replace(load_of(), mode=Mode.CPU), 5.9),
        ),
    )
    stage.preview = partial(previewed, machine=budgets.WITH_CARD, refusal=refusal)
    page.choosing.choose(context=32768)
    _planned(stage)
    shoot("tuning-refused")
    stage.window.banners.clear()


def _opened(stage: Stage, machine: Machine, speeds: Speeds | None = budgets.SPEEDS) -> TuningPage:
    stage.preview = partial(previewed, machine=machine, speeds=speeds)
    _ready(stage, machine, load_of())
    stage.window.pages.open(PageName.TUNING)
    page = _page(stage)
    page.previews.refresh()
    _planned(stage)
    page.scroller.verticalScrollBar().setValue(0)
    settle()
    return page


def _ready(stage: Stage, machine: Machine, load: Load) -> None:
    plan = stage.preview(load).plan or PLAN
    found = MachineFound(perf_counter(), machine)
    stage.tell(found, PlanReady(perf_counter(), load.model, MODEL_NAME, plan, load))
    catch_up()


def _planned(stage: Stage) -> None:
    """Let the page ask for a preview, and have it."""
    page = _page(stage)
    stage.tell()
    wait_for(lambda: not page.previews.waiting)
    catch_up()


def _page(stage: Stage) -> TuningPage:
    page = stage.window.pages.page(PageName.TUNING)
    assert isinstance(page, TuningPage)  # noqa: S101 - told to the type checker
    return page


def _measured(stage: Stage) -> None:
    """Speeds as answers of the last days might have had them."""
    newest = Measured(
        model=str(load_of().model),
        at=time.time() - 600,
        mode=Mode.DOVETAIL,
        draft=PLAN.draft,
        layers_on_gpu=20,
        vram=round(3.9 * GIB),
        tokens_per_s=13.1,
        committed=200,
        acceptance_length=2.4,
        drafting=True,
        simulated=False,
    )
    older = replace(newest, at=newest.at - 9000, tokens_per_s=12.4)
    smaller = replace(newest, layers_on_gpu=12, vram=round(2.6 * GIB), tokens_per_s=10.9)
    stage.assembly.measured.add(smaller, older, newest)
    catch_up()


def _to_end(page: TuningPage) -> None:
    bar = page.scroller.verticalScrollBar()
    bar.setValue(bar.maximum())
    settle()


def _to_drafts(page: TuningPage) -> None:
    (drafts,) = page.findChildren(DraftList)
    settle()
    page.scroller.ensureWidgetVisible(drafts)
    settle()


ALL = (machines, choosing, own_head)

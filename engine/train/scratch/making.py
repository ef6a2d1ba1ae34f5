"""From raw data to models that can be shipped: model, answers, drafts, their packing.

Every stage leaves its result in the folder; one that resumes passes over what is there already.
"""

from __future__ import annotations

import shutil
from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path

from tokenizers import Tokenizer

from engine.errors import UserFixable
from engine.language import tr
from engine.train import training as drafting
from engine.train.checkpoint import FILE as CHECKPOINT
from engine.train.checkpoint import write_whole
from engine.train.draft_folder import to_json
from engine.train.scratch.answers import asked_in, write_answers
from engine.train.scratch.corpus import make_corpus
from engine.train.scratch.held_out import write_held_out
from engine.train.scratch.packaging import pack
from engine.train.scratch.recipe import DraftRecipe, Recipe
from engine.train.scratch.training import (
    CORPUS,
    STATE,
    Paused,
    Settings,
    State,
    screen_of,
    train,
    written_model,
)
from engine.train.shapes import DraftKind
from engine.train.trainer import Schedule

MODEL, ANSWERS, HELD_OUT, PACKED = "model", "answers.jsonl", "held_out.jsonl", "packed"


@dataclass(frozen=True, slots=True)
class Stage:
    """What is being made besides the model, and how much of that is done, 0 to 1."""

    words: str
    done: float


def make(
    settings: Settings,
    tell: Callable[[str, State, float], None],
    tell_stage: Callable[[Stage], None],
    stopped: Callable[[], bool],
) -> State:
    """Carry a recipe out to the end.

    Args:
        settings: as of `training.train`, but for `out`, the folder of everything.
        tell: as `training.train` does it.
        tell_stage: told of what comes behind the model.
        stopped: asked again and again.

    Raises:
        Paused: it was stopped; `resume` goes on.
        UserFixable: data are missing, a checkpoint is of another recipe, the disk is full.
    """
    if settings.begin is not None:
        settings = replace(settings, recipe=settings.begin.shaped(settings.recipe))
    out, recipe = settings.out, settings.recipe
    own = replace(settings, out=out / MODEL)
    if not settings.resume and (own.out / STATE).exists():
        raise UserFixable(
            tr("{folder} holds a training already.").format(folder=out),
            tr("Go on with it by --resume, or choose another folder."),
        )
    state = train(own, tell, stopped)
    write_held_out(out / HELD_OUT, recipe, settings.data, screen_of(own))
    if recipe.drafts and not (settings.resume and (out / ANSWERS).exists()):
        _answer(own, out / ANSWERS, tell_stage, stopped, state)
    for draft in recipe.drafts:
        if not (settings.resume and (out / draft.name / "config.json").exists()):
            _train_draft(settings, draft, tell_stage, stopped, state)
    tell_stage(Stage(tr("Packing"), 0.0))
    _pack(out, recipe)
    tell_stage(Stage(tr("Packing"), 1.0))
    return state


def _answer(
    settings: Settings,
    file: Path,
    tell: Callable[[Stage], None],
    stopped: Callable[[], bool],
    state: State,
) -> None:
    recipe, folder = settings.recipe, settings.out
    tokenizer = Tokenizer.from_file(str(folder / "tokenizer.json"))
    corpus = make_corpus(
        recipe, settings.data, tokenizer, screen_of(settings), folder / CORPUS, lambda _: None
    )
    whole = write_answers(
        file,
        written_model(folder, recipe).to(settings.device),
        tokenizer,
        asked_in(recipe.phases[-1], corpus.learned, recipe.seed),
        recipe.answers,
        recipe.longest,
        lambda done: tell(Stage(tr("Writing answers"), done)),
        stopped,
    )
    if not whole:
        raise Paused(state)


def _train_draft(
    settings: Settings,
    draft: DraftRecipe,
    tell: Callable[[Stage], None],
    stopped: Callable[[], bool],
    state: State,
) -> None:
    out = settings.out
    wishes = drafting.Settings(
        model=out / MODEL,
        data=(out / ANSWERS,),
        out=out / draft.name,
        shape=drafting.Shape(
            DraftKind(draft.kind), draft.blocks, draft.hidden, draft.heads, draft.intermediate
        ),
        schedule=Schedule(tokens=draft.tokens, rate=draft.rate, muon=draft.muon, warm_up=100),
        device=settings.device,
        halves=True,
        longest=settings.recipe.longest,
        batch=draft.batch,
        steps=draft.steps,
        seed=settings.recipe.seed,
        resume=settings.resume and (out / draft.name / CHECKPOINT).exists(),
        every=settings.every,
    )
    try:
        drafting.train(wishes, lambda report: tell(Stage(draft.title, report.done)), stopped)
    except drafting.Paused as paused:
        raise Paused(state) from paused


def _pack(out: Path, recipe: Recipe) -> None:
    """The model and drafts that are models as GGUF; heads are small, and stay as they are."""
    packed = out / PACKED
    chosen = recipe.drafts[0] if recipe.drafts else None
    for draft in recipe.drafts:
        folder = packed / f"{recipe.name}-{draft.name}"
        if draft.kind == "model":
            pack(out / draft.name, folder, draft.title)
        else:
            folder.mkdir(parents=True, exist_ok=True)
            for file in ("model.safetensors", "config.json"):
                shutil.copyfile(out / draft.name / file, folder / file)
            write_whole(folder / "duotail.json", to_json({"name": draft.title}))
    relative = None
    if chosen is not None:
        name = f"{recipe.name}-{chosen.name}"
        ending = f"/{name}.gguf" if chosen.kind == "model" else ""
        relative = f"../{name}{ending}"
    pack(out / MODEL, packed / recipe.name, recipe.title, relative)

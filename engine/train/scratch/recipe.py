"""What a model is made of: its shape, its data in phases, its schedule; read from TOML."""

from __future__ import annotations

import tomllib
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from engine.errors import UserFixable
from engine.language import listed, tr
from engine.train.optimisers import Pace

FOLDER = Path(__file__).parent / "recipes"
LESSONS = "lessons:"
"""Before the name of one of our own sources, as against a path below the data folder."""


@dataclass(frozen=True, slots=True)
class Shape:
    """A Llama whose embedding is its output matrix.

    Attributes:
        vocab: entries of the tokenizer that is trained for it.
        context: tokens of a training row, unless a phase has others, and of a document.
    """

    vocab: int
    hidden: int
    blocks: int
    heads: int
    kv_heads: int
    intermediate: int
    context: int


@dataclass(frozen=True, slots=True)
class Source:
    """A file, or lessons of our own.

    Attributes:
        name: a path below the data folder, or `lessons:` and a name.
        times: how often it is read in one pass through its phase; a part below 1.
        only: takes only examples whose "source" begins with one of these; empty: all.
    """

    name: str
    times: float = 1.0
    only: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Phase:
    """A stretch of the training with a mix of its own.

    Attributes:
        share: of all tokens.
        context: tokens of a row.
        answers_only: only what the assistant says is learned, not what is asked.
        joined: probability that a conversation goes on with the next one in its row, as people go
            from one thing to another; otherwise they do not see each other.
    """

    name: str
    share: float
    sources: tuple[Source, ...]
    context: int
    answers_only: bool = False
    joined: float = 0.0


@dataclass(frozen=True, slots=True)
class Rates:
    """Warm-up, stable, decay.

    Attributes:
        matrices: of Muon, for the matrices of the blocks.
        others: of AdamW, for the embedding and the norms.
        warm_up, decay: shares of the training in which the rates rise, and fall to 0.
    """

    matrices: float = 0.02
    others: float = 3e-3
    warm_up: float = 0.01
    decay: float = 0.3
    weight_decay: float = 0.05

    @property
    def pace(self) -> Pace:
        """The rates, where they are highest."""
        return Pace(self.others, self.matrices, self.weight_decay)

    def factor(self, done: float) -> float:
        """What the rates are multiplied with when so much is behind, 0 to 1."""
        rising = min(done / self.warm_up, 1.0) if self.warm_up else 1.0
        falling = min((1 - done) / self.decay, 1.0) if self.decay else 1.0
        return max(min(rising, falling), 0.0)


@dataclass(frozen=True, slots=True)
class DraftRecipe:
    """What drafts for the model, and learns from its answers.

    Attributes:
        name: of its folder, behind the model's; `title`: for people.
        kind: "model", a Llama of its own, or "dgf", a head on the model's features.
        tokens: to train on.
        hidden, heads, intermediate: of a model of its own.
        rate, muon: see `engine.train.trainer.Schedule`.
        steps: see `engine.train.learners.HeadLearner`.
    """

    name: str
    title: str
    kind: str
    tokens: int
    blocks: int = 1
    hidden: int | None = None
    heads: int | None = None
    intermediate: int | None = None
    rate: float = 1e-3
    muon: float | None = None
    batch: int = 4096
    steps: int | None = None


@dataclass(frozen=True, slots=True)
class Recipe:
    """A model to be made.

    Attributes:
        name: of the folder; `title`: for people.
        tokens: to train on, in all phases.
        batch: tokens of a step, in rows of `shape.context`.
        seed: of everything that is drawn.
        samples: asked now and then while it learns, to be looked at.
        answers: tokens that it writes for its drafts to learn from.
    """

    name: str
    title: str
    tokens: int
    batch: int
    shape: Shape
    rates: Rates
    phases: tuple[Phase, ...]
    seed: int = 0
    samples: tuple[str, ...] = ()
    answers: int = 0
    drafts: tuple[DraftRecipe, ...] = ()

    @property
    def longest(self) -> int:
        """Tokens of a row in the phase with the longest."""
        return max(phase.context for phase in self.phases)

    def phase_at(self, done: float) -> int:
        """The number of the phase that the training is in, `done` running from 0 to 1."""
        end = 0.0
        for number, phase in enumerate(self.phases):
            end += phase.share
            if done < end - 1e-9:
                return number
        return len(self.phases) - 1


def recipe_names() -> tuple[str, ...]:
    """Those that come with Duotail."""
    return tuple(sorted(file.stem for file in FOLDER.glob("*.toml")))


def read_recipe(name_or_path: str) -> Recipe:
    """One of ours, or a file.

    Raises:
        UserFixable: there is none of that name, or it cannot be read.
    """
    file = Path(name_or_path)
    if name_or_path in recipe_names():
        file = FOLDER / f"{name_or_path}.toml"
    try:
        return _recipe(tomllib.loads(file.read_text("utf-8")))
    except (OSError, ValueError, KeyError, TypeError, AttributeError) as error:
        raise UserFixable(
            tr("The recipe {name} cannot be read.").format(name=name_or_path[:200]),
            tr("Name a file, or one of these: {names}.").format(names=listed(recipe_names())),
            str(error)[:500],
        ) from error


def _recipe(data: dict[str, Any]) -> Recipe:
    shape = Shape(**data["shape"])
    phases: list[Phase] = []
    for phase in data["phases"]:
        phases.append(_phase(phase, phases[-1] if phases else None, shape))
    if not phases or abs(sum(phase.share for phase in phases) - 1) > 1e-6:
        raise ValueError("the shares of the phases are not 1 in all")
    recipe = Recipe(
        name=str(data["name"]),
        title=str(data["title"]),
        tokens=int(data["tokens"]),
        batch=int(data["batch"]),
        shape=shape,
        rates=Rates(**data.get("rates", {})),
        phases=tuple(phases),
        seed=int(data.get("seed", 0)),
        samples=tuple(map(str, data.get("samples", ()))),
        answers=int(data.get("answers", 0)),
        drafts=tuple(DraftRecipe(**draft) for draft in data.get("drafts", ())),
    )
    if shape.hidden % shape.heads or shape.hidden // shape.heads % 2:
        raise ValueError("the heads do not divide the hidden size into even parts")
    if recipe.batch < recipe.longest or recipe.tokens < recipe.batch:
        raise ValueError("a batch holds at least a row, the training at least a batch")
    if recipe.drafts and not recipe.answers:
        raise ValueError("drafts learn from answers")
    if any(draft.kind not in {"model", "dgf"} for draft in recipe.drafts):
        raise ValueError("a draft is a model or a dgf")
    return recipe


def _phase(data: dict[str, Any], before: Phase | None, shape: Shape) -> Phase:
    """Without sources of its own it has those of the phase before."""
    if "sources" in data or before is None:
        sources = tuple(map(_source, data["sources"]))
    else:
        sources = before.sources
    return Phase(
        name=data["name"],
        share=float(data["share"]),
        sources=sources,
        context=int(data.get("context", shape.context)),
        answers_only=bool(data.get("answers_only", False)),
        joined=float(data.get("joined", 0.0)),
    )


def _source(data: str | dict[str, Any]) -> Source:
    if isinstance(data, str):
        return Source(data)
    return Source(data["name"], float(data.get("times", 1.0)), tuple(data.get("only", ())))

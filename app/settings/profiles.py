"""Profiles: how each model runs, kept as `[[model]]` tables of the settings file."""

from __future__ import annotations

import contextlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from app.settings.kinds import Choice, Number, SettingKind, Whole, Word, Words
from engine.commands import DraftChoice, KvType, Load, Mode, WeightFormat

GIB = 2**30
_MOST = 100
_LONGEST = 4096
_NAME = Word(longest=200)


@dataclass(frozen=True, slots=True)
class ModelProfile:
    """How a user wishes a model to run; what is not wished is left to the planner.

    Attributes:
        vram: bytes of the accelerator at most; None as many as are useful.
        context: planned tokens; None as many as are reasonable.
        weights: format that the target's weights are held in.
        threads: of the CPU; None by the size of its share.
        kv: type of keys and values on the CPU.
    """

    mode: Mode = Mode.AUTO
    draft: Path | DraftChoice = DraftChoice.AUTO
    vram: int | None = None
    context: int | None = None
    weights: WeightFormat = WeightFormat.AUTO
    threads: int | None = None
    kv: KvType = KvType.F16

    @classmethod
    def of(cls, load: Load) -> ModelProfile:
        """Return the profile of a load."""
        return cls(
            load.mode, load.draft, load.vram, load.context, load.weights, load.threads, load.kv
        )

    @property
    def less(self) -> ModelProfile:
        """Return what to wish where this is not possible; the context is given up last."""
        if self.mode is not Mode.AUTO or self.vram is not None:
            return replace(self, mode=Mode.AUTO, vram=None)
        if self.draft is not DraftChoice.AUTO:
            return replace(self, draft=DraftChoice.AUTO)
        return ModelProfile()

    def put_into(self, load: Load) -> Load:
        """Return a load of the same model that runs like this, after the answer in progress."""
        return replace(
            load,
            mode=self.mode,
            draft=self.draft,
            vram=self.vram,
            context=self.context,
            weights=self.weights,
            threads=self.threads,
            kv=self.kv,
            layers_on_gpu=None,
            after_answer=True,
        )


@dataclass(frozen=True, slots=True)
class ProfiledModel:
    """A model, given by its path, with its profile and the drafts that were used with it.

    An empty path is the starter model's, from files of older versions.

    Attributes:
        name: that the user has given it; "" where it is called by its files.
    """

    model: str
    profile: ModelProfile = field(default=ModelProfile())
    drafts: tuple[str, ...] = ()
    name: str = ""

    def with_profile(self, profile: ModelProfile) -> ProfiledModel:
        """Return the model with another profile, whose draft is known from now on."""
        drafts = self.drafts
        if isinstance(profile.draft, Path):
            draft = str(profile.draft)
            drafts = (draft, *(each for each in drafts if each != draft))
        return replace(self, profile=profile, drafts=drafts)


_FIELDS: dict[str, SettingKind] = {
    "mode": Choice(Mode, tuple(Mode)),
    "draft": Word(longest=_LONGEST),
    "vram": Number(0, 100_000),
    "context": Whole(1, 2**31 - 1),
    "weights": Choice(WeightFormat, tuple(WeightFormat)),
    "threads": Whole(1, 4096),
    "kv": Choice(KvType, tuple(KvType)),
}


@dataclass(frozen=True, slots=True)
class Profiles:
    """The kind of setting that holds them, the last used first."""

    def read(self, value: object) -> tuple[ProfiledModel, ...]:
        """Return the tables that name a model; what is unusable in them is left to the planner."""
        if not isinstance(value, list):
            raise ValueError(value)
        found = [_from_table(table) for table in value if isinstance(table, dict)]
        return tuple(each for each in found if each is not None)[:_MOST]

    def write(self, value: Sequence[ProfiledModel]) -> object:
        """Return a table each, with what is not left to the planner."""
        return [_to_table(each) for each in value[:_MOST]]


def _to_table(kept: ProfiledModel) -> dict[str, object]:
    default = ModelProfile()
    table: dict[str, object] = {"model": kept.model}
    for name, kind in _FIELDS.items():
        value = getattr(kept.profile, name)
        if value != getattr(default, name):
            table[name] = kind.write(value)
    if kept.profile.draft is not DraftChoice.AUTO:
        table["draft"] = str(kept.profile.draft)
    if kept.profile.vram is not None:
        table["vram"] = kept.profile.vram / GIB
    named = {"name": kept.name} if kept.name else {}
    return table | named | ({"drafts": list(kept.drafts)} if kept.drafts else {})


def _from_table(table: Mapping[str, object]) -> ProfiledModel | None:
    model = table.get("model")
    if not isinstance(model, str) or len(model) > _LONGEST:
        return None
    values: dict[str, Any] = {}
    for name, kind in _FIELDS.items():
        with contextlib.suppress(ValueError):
            values[name] = kind.read(table[name]) if name in table else None
    known = {name: value for name, value in values.items() if value is not None and value != ""}
    if "draft" in known:
        draft = known["draft"]
        known["draft"] = DraftChoice(draft) if draft in set(DraftChoice) else Path(draft)
    if "vram" in known:
        known["vram"] = round(known["vram"] * GIB)
    drafts: tuple[str, ...] = ()
    with contextlib.suppress(ValueError):
        drafts = Words(_MOST).read(table.get("drafts", []))
    name = ""
    with contextlib.suppress(ValueError):
        name = _NAME.read(table.get("name", ""))
    return ProfiledModel(model, ModelProfile(**known), drafts, name)


def carried_forward(table: Mapping[str, Any]) -> dict[str, Any]:
    """Return a table of version 3 with its settings of models as profiles.

    It had tables for drafts, formats and modes of models, and one mode, draft and budget for all:
    these become the last model's own.
    """
    last = str(table.get("model") or "") if isinstance(table.get("model"), str) else ""
    found: dict[str, dict[str, Any]] = {}
    for key in ("draft_of", "fit_of", "mode_of"):
        tables = table.get(key)
        for each in tables if isinstance(tables, list) else ():
            if isinstance(each, dict) and isinstance(each.get("model"), str) and each["model"]:
                more = {name: value for name, value in each.items() if name != "model"}
                kept = found.setdefault(each["model"], {"model": each["model"]})
                if isinstance(draft := more.pop("draft", None), str):
                    kept.setdefault("drafts", []).append(draft)
                    if table.get("draft") == "chosen":
                        kept.setdefault("draft", draft)
                kept.update(more)
    general = {name: table[name] for name in ("mode", "draft", "vram") if name in table}
    if general.get("draft") == "chosen":
        del general["draft"]
    if general:
        found[last] = {"model": last} | general | found.get(last, {})
    gone = {"draft_of", "fit_of", "mode_of", "mode", "draft", "vram", "model"}
    kept_tables = {key: value for key, value in table.items() if key not in gone}
    return kept_tables | {"last_model": last} | ({"model": list(found.values())} if found else {})

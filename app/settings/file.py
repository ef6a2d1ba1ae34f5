"""The settings file: read tolerantly, carried forward from older versions, written whole."""

from __future__ import annotations

import contextlib
import logging
import os
import tomllib
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from tomli_w import dumps

from app.settings.model import DEFAULTS, SPECS, Settings
from app.settings.presets import (
    AS_BEFORE,
    BALANCED,
    CREATIVE,
    PRECISE,
    STARTER,
    Preset,
    Presets,
)
from app.settings.profiles import carried_forward
from engine.errors import UserFixable
from engine.language import tr

_log = logging.getLogger(__name__)

VERSION = 5
_HEADER = "# Duotail's settings. Change them in the window, or here while Duotail is closed.\n"


@dataclass(frozen=True, slots=True)
class Loaded:
    """Content of a settings file."""

    settings: Settings = DEFAULTS
    rest: dict[str, Any] = field(default_factory=dict)
    """Settings of a newer version, unknown to this one, which `save` writes back as they were."""
    trouble: UserFixable | None = None
    """The error to tell the user when the file was unreadable."""


def load(path: Path) -> Loaded:
    """The settings in `path`. An unreadable file is kept beside it as `*.bad`."""
    try:
        table = tomllib.loads(path.read_text(encoding="utf-8"))
    except FileNotFoundError:
        return Loaded()
    except (OSError, UnicodeDecodeError, tomllib.TOMLDecodeError, RecursionError) as error:
        return Loaded(trouble=_set_aside(path, str(error)))
    return _from_table(migrated(table))


def save(path: Path, settings: Settings, rest: dict[str, Any] | None = None) -> None:
    """Write `settings` in one go: a crash leaves the old file or the new one.

    Raises:
        UserFixable: the folder cannot be written.
    """
    text = _HEADER + dumps(_to_table(settings, rest or {}))
    part = path.with_suffix(".part")
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        part.write_text(text, encoding="utf-8", errors="replace")  # halves of surrogate pairs
        os.replace(part, path)
    except OSError as error:
        raise UserFixable(
            tr("Your settings could not be saved."),
            tr("Make the folder {folder} writable for your user.").format(folder=path.parent),
            str(error),
        ) from error


def migrated(table: dict[str, Any]) -> dict[str, Any]:
    """`table` as this version writes it. A newer version's table stays what it is."""
    version = table.get("version")
    version = version if isinstance(version, int) else 1
    for migrate in _MIGRATIONS[max(version, 1) - 1 :]:
        table = migrate(table)
    return table | {"version": max(version, VERSION)}


def _named_presets(table: dict[str, Any]) -> dict[str, Any]:
    """Version 1 had one temperature and one seed for everything: now a preset of their own."""
    unset = {"temperature": (None, 0), "seed": (None,)}
    own = {key: table[key] for key, values in unset.items() if table.get(key) not in values}
    table = {key: value for key, value in table.items() if key not in unset}
    if not own:
        return table
    presets = [*_written(PRECISE, BALANCED, CREATIVE), {"name": AS_BEFORE} | own]
    return table | {"preset": presets, "default_preset": AS_BEFORE}


def _starter_preset(table: dict[str, Any]) -> dict[str, Any]:
    """Version 2 knew no preset of the starter model, and wrote the usual one down as if chosen."""
    presets = table.get("preset")
    if isinstance(presets, list):
        names = {each.get("name") for each in presets if isinstance(each, dict)}
        if STARTER.name not in names:
            table = table | {"preset": [*presets, *_written(STARTER)]}
    if table.get("default_preset") == PRECISE.name:
        table = {key: value for key, value in table.items() if key != "default_preset"}
    return table


def _new_balanced_preset(table: dict[str, Any]) -> dict[str, Any]:
    """Version 4 had a balanced preset with which small models got into loops."""
    old = {"name": BALANCED.name, "temperature": 0.7, "top_p": 0.95}
    presets = table.get("preset")
    if not isinstance(presets, list) or old not in presets:
        return table
    (new,) = _written(BALANCED)
    return table | {"preset": [new if each == old else each for each in presets]}


def _written(*presets: Preset) -> list[Any]:
    written = Presets().write(presets)
    assert isinstance(written, list)  # noqa: S101 - told to the type checker
    return written


_MIGRATIONS: tuple[Callable[[dict[str, Any]], dict[str, Any]], ...] = (
    _named_presets,
    _starter_preset,
    carried_forward,
    _new_balanced_preset,
)
"""The n-th leads from version n to n + 1."""


def _from_table(table: dict[str, Any]) -> Loaded:
    settings, known = DEFAULTS, set()
    for name, spec in SPECS.items():
        key = spec.key or name
        known.add(key)
        if key not in table:
            continue
        try:
            value = spec.kind.read(table[key])
        except (ValueError, TypeError, OverflowError):
            _log.warning("the setting %r has an unusable value and is left at its default", key)
            continue
        settings = replace(settings, **{name: value})
    return Loaded(settings, {key: value for key, value in table.items() if key not in known})


def _to_table(settings: Settings, rest: dict[str, Any]) -> dict[str, Any]:
    table: dict[str, Any] = {"version": VERSION} | rest
    for name, spec in SPECS.items():
        value = getattr(settings, name)
        if value is not None:
            table[spec.key or name] = spec.kind.write(value)
    return table


def _set_aside(path: Path, reason: str) -> UserFixable:
    kept = path.with_suffix(path.suffix + ".bad")
    with contextlib.suppress(OSError):
        os.replace(path, kept)
    return UserFixable(
        tr("Your settings could not be read, so the defaults are used."),
        tr("The unreadable file is kept as {name} in {folder}.").format(
            name=kept.name, folder=kept.parent
        ),
        reason,
    )

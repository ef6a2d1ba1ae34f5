"""A typed, distrustful view of a JSON object from a model folder."""

from __future__ import annotations

import json
import math
import re
import reprlib
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from engine.errors import UserFixable
from engine.language import later, tr
from engine.model.small_file import TooLarge, read_at_most

_SURROGATE = re.compile(rb"\\u[dD][89a-fA-F]")

DOWNLOAD_AGAIN = later("Download the model again, or choose another one.")


@dataclass(frozen=True, slots=True)
class JsonObject:
    """The members of a JSON object, each read with its type and range checked.

    `origin` names the file in messages. A member that is null counts as absent. Every reader
    raises `UserFixable` for a wrong type or a value out of range.
    """

    data: Mapping[str, object]
    origin: str

    @classmethod
    def read(cls, path: Path, *, max_bytes: int = 64 << 20) -> JsonObject:
        """Read a UTF-8 file that holds one object; `UserFixable` for anything else."""
        try:
            raw = read_at_most(path, max_bytes)
            data = json.loads(raw)
            if _SURROGATE.search(raw):
                json.dumps(data, ensure_ascii=False).encode()  # raises for half a character
        except FileNotFoundError:
            raise UserFixable(
                tr("The model folder has no {path}.").format(path=path.name),
                tr("Choose the folder that holds the model's files, or download it again."),
                str(path),
            ) from None
        except TooLarge as error:
            raise UserFixable(
                tr("{path} is too large.").format(path=path.name), tr(DOWNLOAD_AGAIN), str(error)
            ) from error
        except OSError as error:
            raise UserFixable(
                tr("{path} cannot be read.").format(path=path.name),
                tr("Check the file's permissions."),
                str(error),
            ) from error
        except (ValueError, RecursionError) as error:
            raise UserFixable(
                tr("{path} is damaged: it is not valid JSON.").format(path=path.name),
                tr(DOWNLOAD_AGAIN),
                f"{path}: {error}",
            ) from error
        if not isinstance(data, dict):
            raise UserFixable(
                tr("{path} is damaged: it holds no object.").format(path=path.name),
                tr(DOWNLOAD_AGAIN),
                str(path),
            )
        return cls(data, path.name)

    @classmethod
    def read_optional(cls, path: Path) -> JsonObject:
        """Read a file with `read`; one that is not there reads as an empty object."""
        return cls.read(path) if path.exists() else cls({}, path.name)

    def over(self, defaults: Mapping[str, object]) -> JsonObject:
        """The object with defaults for the members that it does not name; null stays null."""
        return JsonObject({**defaults, **self.data}, self.origin)

    def wrong(self, key: str, expected: str) -> UserFixable:
        """The error for a member that is not what it should be."""
        return UserFixable(
            tr("{origin} is not usable: “{key}” should be {expected}.").format(
                origin=self.origin, key=key, expected=expected
            ),
            tr(DOWNLOAD_AGAIN),
            f"{key} = {reprlib.repr(self.data.get(key))}",
        )

    def has(self, key: str) -> bool:
        """Return whether the member is there and not null."""
        return self.data.get(key) is not None

    def integer(self, key: str, low: int, high: int, default: int | None = None) -> int:
        """A whole number in [low, high]; required when there is no default."""
        if not self.has(key) and default is not None:
            return default
        value = self.data.get(key)
        if isinstance(value, float) and value.is_integer():
            value = int(value)
        if not isinstance(value, int) or isinstance(value, bool) or not low <= value <= high:
            raise self.wrong(
                key, tr("a whole number from {low} to {high}").format(low=low, high=high)
            )
        return value

    def number(self, key: str, low: float, high: float, default: float | None = None) -> float:
        """A finite number in [low, high]; required when there is no default."""
        if not self.has(key) and default is not None:
            return default
        value = self.data.get(key)
        if (
            not isinstance(value, int | float)
            or isinstance(value, bool)
            or not low <= value <= high
            or not math.isfinite(value)
        ):
            raise self.wrong(
                key, tr("a number from {low:g} to {high:g}").format(low=low, high=high)
            )
        return float(value)

    def optional_number(self, key: str, low: float, high: float) -> float | None:
        """A finite number in [low, high], or None when absent."""
        return self.number(key, low, high) if self.has(key) else None

    def flag(self, key: str, default: bool) -> bool:
        """True or false."""
        value = self.data.get(key)
        if value is None:
            return default
        if not isinstance(value, bool):
            raise self.wrong(key, tr("true or false"))
        return value

    def text(self, key: str) -> str | None:
        """A string, or None when absent."""
        value = self.data.get(key)
        if value is not None and not isinstance(value, str):
            raise self.wrong(key, tr("a text"))
        return value

    def member(self, key: str) -> JsonObject | None:
        """A nested object, or None when absent."""
        value = self.data.get(key)
        if value is None:
            return None
        if not isinstance(value, dict):
            raise self.wrong(key, tr("an object"))
        return JsonObject(value, self.origin)

    def items(self, key: str) -> tuple[object, ...]:
        """The elements of an array; a single value stands for an array of one."""
        value = self.data.get(key)
        if value is None:
            return ()
        return tuple(value) if isinstance(value, list) else (value,)

    def token_ids(self, key: str, vocab_size: int) -> tuple[int, ...]:
        """One token id or an array of them, each below `vocab_size`."""
        values = self.items(key)
        for value in values:
            if not isinstance(value, int) or isinstance(value, bool) or not 0 <= value < vocab_size:
                raise self.wrong(
                    key, tr("token ids below {vocab_size}").format(vocab_size=vocab_size)
                )
        return tuple(value for value in values if isinstance(value, int))

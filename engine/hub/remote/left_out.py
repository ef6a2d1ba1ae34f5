"""Files of a repository that look like a model and cannot be used, and why, in words."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from enum import StrEnum

from engine.language import later, listed, tr, tr_count

_NAMED = 3


class Reason(StrEnum):
    """Reasons to leave a file out; the values are texts for `tr`."""

    RUNS_CODE = later("{files}: an old format that can run hidden code when read.")
    REMOTE_CODE = later(
        "{files}: the model runs only with a program of its own, which could do anything."
    )
    PICTURES = later("{files}: the part that sees or hears, not the model itself.")
    STATISTICS = later("{files}: statistics for making other versions.")
    ADAPTER = later("{files}: an adapter (LoRA) that changes another model.")
    NO_MODEL = later("{files}: no whole model.")
    INCOMPLETE = later("{files}: parts are missing.")
    CANNOT_BE_STORED = later("{files}: a name that not every system can store.")
    NO_CONFIG = later("{files}: there is no config.json that says what model this is.")
    NO_TOKENIZER = later("{files}: there is no tokenizer.")
    ELSEWHERE = later("{files}: not where a model's weights lie.")
    OTHER_FORMAT = later("{files}: a format of other programs.")
    UNKNOWN_MODEL = later("{files}: Duotail cannot run this kind of model yet.")


@dataclass(frozen=True, slots=True)
class LeftOut:
    """A file that is left out; `words`: a sentence of its own, where the reason's is too vague."""

    reason: Reason
    path: str
    words: str = ""


def in_words(files: Iterable[LeftOut]) -> tuple[str, ...]:
    """Return one line for each reason."""
    groups: dict[tuple[Reason, str], list[str]] = {}
    for each in files:
        groups.setdefault((each.reason, each.words), []).append(each.path)
    return tuple(_line(reason, words, paths) for (reason, words), paths in groups.items())


def _line(reason: Reason, words: str, paths: list[str]) -> str:
    names = listed(path[:80] for path in sorted(paths)[:_NAMED])
    more = len(paths) - _NAMED
    if more > 0:
        others = tr_count("{n} other file", "{n} other files", more)
        names = tr("{names} and {others}").format(names=names, others=others)
    if words:
        return tr("{files}: {reason}").format(files=names, reason=words)
    return tr(reason.value).format(files=names)

"""Which files of a repository may be written on a disk, and why the others are left out.

A hub's answer is a stranger's text: it decides nothing about where a file goes. A name that would
lead out of its folder speaks of a hostile server; one that some system cannot store only leaves
that file out.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass
from enum import StrEnum

from engine.language import later, listed, tr, tr_count

_LONGEST_PATH = 240
_LONGEST_PART = 120
_LONGEST_REPO = 96
_RESERVED = {"con", "prn", "aux", "nul", "conin$", "conout$"} | {
    f"{port}{n}" for port in ("com", "lpt") for n in (*"0123456789", "¹", "²", "³")
}
"""Names of devices on Windows, with any ending."""
_FORBIDDEN = frozenset('<>:"|?*\\')
"""Signs that Windows has no files with; the backslash and the colon lead elsewhere there."""
_REPO_PART = re.compile(r"[A-Za-z0-9_][A-Za-z0-9_.-]*", re.ASCII)
_COMMIT = re.compile(r"[0-9a-f]{40}", re.ASCII)
_SHA256 = re.compile(r"[0-9a-f]{64}", re.ASCII)
_MTP_HEAD = re.compile(r"mtp[-_.]", re.IGNORECASE)
_RUNS_CODE = (
    ".bin", ".pt", ".pth", ".ckpt", ".pkl", ".pickle", ".joblib", ".npy", ".npz", ".h5", ".keras",
    ".mar", ".nemo", ".msgpack", ".py", ".pyc", ".so", ".dll", ".dylib", ".exe", ".sh", ".bat",
    ".cmd", ".ps1", ".js", ".jar", ".llamafile", ".whl",
)  # fmt: skip
"""Endings of files that are programs, or that can hold some where others read them."""
_OLD_WEIGHTS = (".bin", ".pt", ".pth", ".ckpt", ".h5", ".msgpack", ".nemo")


class Danger(StrEnum):
    """Reasons to refuse a file's name."""

    LEADS_OUT = "leads out"
    """Absolute, or with a way up: no honest hub has one."""
    CANNOT_BE_STORED = "cannot be stored"
    """Too long, or forbidden on some system."""


def danger(path: object) -> Danger | None:
    """Return what is wrong with the relative path of a file in a repository; None: nothing."""
    if not isinstance(path, str) or not path:
        return Danger.LEADS_OUT
    parts = path.split("/")
    ways = path.replace("\\", "/").split("/")
    if ways[0] == "" or ".." in ways or path[1:2] == ":" or any(map(_is_control, path)):
        return Danger.LEADS_OUT
    if len(path.encode("utf-8", "surrogatepass")) > _LONGEST_PATH:
        return Danger.CANNOT_BE_STORED
    return None if all(map(_can_be_stored, parts)) else Danger.CANNOT_BE_STORED


def is_repo(name: object) -> bool:
    """Return whether this is "owner/name", as the hub allows it; old models have no owner."""
    if not isinstance(name, str) or not 0 < len(name) <= _LONGEST_REPO:
        return False
    parts = name.split("/")
    usable = all(
        _REPO_PART.fullmatch(part) and ".." not in part and "--" not in part for part in parts
    )
    return usable and len(parts) <= 2 and not name.endswith((".git", "."))


def is_commit(text: object) -> bool:
    """Return whether this is a SHA-1, which names one state of a repository or a small file."""
    return isinstance(text, str) and _COMMIT.fullmatch(text) is not None


def is_sha256(text: object) -> bool:
    """Return whether this is a SHA-256 in hexadecimal digits."""
    return isinstance(text, str) and _SHA256.fullmatch(text) is not None


def is_mtp_head(path: str) -> bool:
    """Return whether a file has the name of one that holds an MTP head alone."""
    return _MTP_HEAD.match(path.rpartition("/")[2]) is not None


def can_run_code(path: str) -> bool:
    """Return whether a file of this name is never fetched."""
    return path.lower().endswith(_RUNS_CODE)


def is_old_weights(path: str) -> bool:
    """Return whether this is weights in a format that can hide programs."""
    return path.lower().endswith(_OLD_WEIGHTS)


def _is_control(sign: str) -> bool:
    """Return whether a sign is a control character, a line separator or turns the direction."""
    code = ord(sign)
    return (
        code < 0x20
        or 0x7F <= code < 0xA0
        or code in (0x2028, 0x2029, 0x200E, 0x200F, 0x061C, 0xFEFF)
        or 0x202A <= code <= 0x202E
        or 0x2066 <= code <= 0x2069
        or 0xD800 <= code <= 0xDFFF
    )


def _can_be_stored(part: str) -> bool:
    if part in ("", ".") or part[-1] in ". " or part[0] == " " or len(part) > _LONGEST_PART:
        return False
    stem = part.split(".", maxsplit=1)[0].rstrip().lower()
    return stem not in _RESERVED and not _FORBIDDEN & set(part)


_NAMED = 3


class Reason(StrEnum):
    """Reasons to leave a file out; the values are texts for `tr`."""

    RUNS_CODE = later("{files}: an old format that can run hidden code when read.")
    REMOTE_CODE = later("{files}: the model needs code of its own, which could do anything.")
    PICTURES = later("{files}: the part that sees or hears, not the model itself.")
    STATISTICS = later("{files}: statistics for making other versions.")
    ADAPTER = later("{files}: an adapter (LoRA) that changes another model.")
    HEAD = later("{files}: an MTP head alone; take a file of the model that has it inside.")
    NO_MODEL = later("{files}: not a complete model.")
    INCOMPLETE = later("{files}: parts are missing.")
    CANNOT_BE_STORED = later("{files}: a file name that not every system allows.")
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

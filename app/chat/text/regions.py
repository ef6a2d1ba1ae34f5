"""The parts of a document that something is painted behind, and our marks on its text blocks."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field, replace
from enum import IntEnum, StrEnum

from PySide6.QtGui import QTextFormat

INVISIBLE = "\u200b"
"""Fills a text block that has no text of its own."""


class Property(IntEnum):
    """Our own marks on text blocks."""

    CONTINUES = QTextFormat.Property.UserProperty + 1
    """Property of a text block that goes on in the line before (a giant line broken for layout)."""
    FILLER = QTextFormat.Property.UserProperty + 2
    """An empty text block that Qt needs around a table, or one that keeps room for a widget."""
    SOURCE = QTextFormat.Property.UserProperty + 3
    """Property of a character format: the source of a formula; selecting it copies that."""


class RegionKind(StrEnum):
    """Kinds of background that the view paints behind text."""

    CODE = "code"
    QUOTE = "quote"
    RULE = "rule"
    THOUGHT = "thought"
    """Room for the widget that shows a thought."""


@dataclass(frozen=True, slots=True)
class Region:
    """Text blocks `first` to `last` that share a background or a bar at `indent` pixels."""

    kind: RegionKind
    first: int
    last: int
    indent: float = 0
    language: str = ""
    code: str = ""
    continues: bool = field(default=False, compare=False)
    """True if it is the next part of the region before it."""
    joint: str = field(default="\n", compare=False)
    """The text between the code of that region and its own."""


def joined(regions: Iterable[Region]) -> list[Region]:
    """`regions` with parts that continue one another made one."""
    whole: list[Region] = []
    for region in regions:
        before = whole[-1] if whole else None
        if region.continues and before is not None and before.kind is region.kind:
            code = before.code + region.joint + region.code
            whole[-1] = replace(before, last=region.last, code=code)
        else:
            whole.append(region)
    return whole

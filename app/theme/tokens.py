"""The colours and measures that everything visible is made of, once for light, once for dark."""

from __future__ import annotations

from dataclasses import dataclass, replace

RADIUS = 8
"""Corner radius of cards and fields, in logical pixels."""
GAP = 8
"""The unit of spacing; distances are multiples of it."""
COLUMN = 760
"""Widest column of running text: longer lines are hard to read."""


@dataclass(frozen=True, slots=True)
class Tokens:
    """One colour scheme. Every colour is "#rrggbb"; text colours hold 4.5:1 on what is below."""

    dark: bool
    window: str
    sidebar: str
    surface: str
    """Cards, fields and menus."""
    sunken: str
    """Code blocks and tracks."""
    hover: str
    selected: str
    border: str
    border_strong: str
    text: str
    muted: str
    accent: str
    accent_hover: str
    on_accent: str
    accent_soft: str
    bubble: str
    danger: str
    danger_soft: str
    warning: str
    warning_soft: str
    success: str
    draft: str
    """The draft's lane and share, always with a second mark beside the colour."""
    verify: str
    """The target's lane and share."""
    memory_kept: str
    """Keys and values; like the two below always with a pattern beside the colour."""
    memory_work: str
    memory_runtime: str
    code_keyword: str
    code_string: str
    code_comment: str
    code_number: str
    code_name: str
    code_type: str


LIGHT = Tokens(
    dark=False,
    window="#fcfcfb",
    sidebar="#f4f4f1",
    surface="#ffffff",
    sunken="#f5f5f2",
    hover="#ebebe7",
    selected="#e3ecec",
    border="#e3e3de",
    border_strong="#c9c9c2",
    text="#1c1d1f",
    muted="#63656b",
    accent="#0d7480",
    accent_hover="#0a606a",
    on_accent="#ffffff",
    accent_soft="#e0f0f1",
    bubble="#edf3f3",
    danger="#b3261e",
    danger_soft="#fcefed",
    warning="#8a5a00",
    warning_soft="#fdf4e1",
    success="#1f7a46",
    draft="#b45f06",
    verify="#0d7480",
    memory_kept="#1f5fb8",
    memory_work="#1f7a46",
    memory_runtime="#8b3dba",
    code_keyword="#8b3dba",
    code_string="#287a3c",
    code_comment="#6b6f76",
    code_number="#a6530a",
    code_name="#1f5fb8",
    code_type="#0d7480",
)

DARK = Tokens(
    dark=True,
    window="#17181a",
    sidebar="#1d1f21",
    surface="#222427",
    sunken="#101113",
    hover="#2a2d30",
    selected="#25383b",
    border="#303337",
    border_strong="#484c52",
    text="#e6e7e9",
    muted="#a0a4aa",
    accent="#4fb9c4",
    accent_hover="#72cbd4",
    on_accent="#08282c",
    accent_soft="#1c3437",
    bubble="#26292c",
    danger="#f28b82",
    danger_soft="#382221",
    warning="#e8b75a",
    warning_soft="#352c1b",
    success="#6fcf97",
    draft="#e8a15a",
    verify="#4fb9c4",
    memory_kept="#82b4f5",
    memory_work="#6fcf97",
    memory_runtime="#c99ae8",
    code_keyword="#c99ae8",
    code_string="#92cf96",
    code_comment="#8b9098",
    code_number="#e8ab76",
    code_name="#82b4f5",
    code_type="#66c9d3",
)


def high_contrast(tokens: Tokens) -> Tokens:
    """The scheme for systems that ask for high contrast: lines as strong as text."""
    strongest = "#ffffff" if tokens.dark else "#000000"
    ground = "#000000" if tokens.dark else "#ffffff"
    return replace(
        tokens,
        window=ground,
        sidebar=ground,
        surface=ground,
        sunken=ground,
        bubble=ground,
        border=strongest,
        border_strong=strongest,
        text=strongest,
        muted="#cfcfcf" if tokens.dark else "#404040",  # still another than text: disabled
    )

"""A tool that conversations may use, and what came of a call."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import dataclass

from engine.request import Tool

Cancel = Callable[[], object]


@dataclass(frozen=True, slots=True)
class ToolEntry:
    """A tool.

    Attributes:
        key: names it in the setups of conversations.
        tool: what the model is told of it.
        title: its name for people.
        source: the server that has it; empty for one that is built in.
        identity: what else makes it this tool: the command or address of its server.
        about: what people are told of it; empty: what the model is told.
    """

    key: str
    tool: Tool
    title: str
    source: str = ""
    identity: str = ""
    about: str = ""

    @property
    def digest(self) -> str:
        """Return what a permission holds for: it ends where anything about the tool changes."""
        import hashlib  # not for the first picture

        tool = self.tool
        whole = [self.key, tool.description, tool.parameters, self.identity]
        return hashlib.sha256(json.dumps(whole).encode()).hexdigest()


@dataclass(frozen=True, slots=True)
class ToolResult:
    """The result of a call, as the model reads it; `failed`: it says why there is none."""

    text: str
    failed: bool = False

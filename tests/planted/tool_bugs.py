"""Defects of tools in the window."""

from __future__ import annotations

import json
from dataclasses import replace
from typing import Any


def calls_run_without_being_asked_for() -> None:
    """A tool runs although nobody has allowed it."""
    from app.tools.loop import ToolLoop

    ToolLoop._may_run = lambda self, message: self.entry(message) is not None  # type: ignore[method-assign]


def permissions_that_outlive_their_tool() -> None:
    """What was allowed holds for whatever has the tool's name later on."""
    from app.tools.entry import ToolEntry

    ToolEntry.digest = property(lambda self: self.key)  # type: ignore[assignment,method-assign]


def imports_that_bring_their_tools() -> None:
    """An imported conversation may use the tools that its file names."""
    from app.history import exchange
    from app.history.columns import unpack_setup

    honest = exchange._own_tree_in

    def own_tree_in(told: Any) -> Any:
        tree, lost = honest(told)
        tools = unpack_setup(json.dumps(told.get("setup"))).tools
        about = replace(tree.conversation, setup=replace(tree.conversation.setup, tools=tools))
        return replace(tree, conversation=about), lost

    exchange._own_tree_in = own_tree_in


def loops_of_calls_without_a_bound() -> None:
    """A model calls tools for ever."""
    from app.tools import loop

    loop.MOST_CALLS = 10**9


def the_whole_environment_given_to_servers() -> None:
    """A server's program sees the variables of every other program."""
    import os

    from mcp.client import stdio

    stdio.get_default_environment = lambda: dict(os.environ)


def results_with_control_characters() -> None:
    """What a tool says reaches the window as it is."""
    from app.tools import results

    results.harmless = lambda text: text


def redirects_to_anywhere() -> None:
    """A server sends requests, with their keys, to another address."""
    from mcp.client import streamable_http
    from mcp.shared import _httpx_utils

    _httpx_utils.next_request_within_origin = lambda response: response.next_request
    streamable_http.stream_within_origin = _httpx_utils.stream_within_origin


def changed_tools_run_all_the_same() -> None:
    """A server's tool is called although it is another one than the user has seen."""
    from app.tools.server import KnownTool

    KnownTool.__ne__ = lambda self, other: self.name != getattr(other, "name", "")  # type: ignore[method-assign]


def cards_without_a_height() -> None:
    """A card in which no text wraps is a line."""
    from app.chat.messages.tool_card import ToolCard

    def height_in(self: Any, width: int) -> int:
        height: int = self.layout().totalHeightForWidth(width)
        return height

    ToolCard.height_in = height_in  # type: ignore[method-assign]

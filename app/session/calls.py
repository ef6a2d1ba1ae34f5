"""Tool calls in answers: found at their end, and left out where answers are shown.

An answer's text is stored as the model wrote it, so that its ids stay its own; what it calls is
shown by the messages of the tools that follow it.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Final

from app.history import ChatSetup, StoredMessage
from app.session.file_parts import FILES, files_named
from engine.model.text.thinking import AnswerPart, Piece, ThoughtSplitter, parts, pieces_of
from engine.model.text.tool_calls import OPENINGS, ToolCallParser
from engine.request import Message, Role, Tool, ToolCall, ToolChoice

# In place of results: models read English, whatever people read.
NOT_RUN: Final = "The tool was not run."
DECLINED: Final = "The user declined to run this tool."
STOPPED: Final = "The user stopped this tool before it ended."
UNKNOWN: Final = "This tool is not available any more."
TURNED_OFF: Final = "The server of this tool is turned off."
NO_OBJECT: Final = "The arguments are not a JSON object."
CHANGED: Final = "This tool has changed since the user saw it, so it was not run."


def calls_in(text: str, choice: ToolChoice) -> tuple[ToolCall, ...]:
    """Return the calls that a whole answer asks for; what it only thought calls nothing."""
    if not choice.tools:
        return ()
    said = "".join(each.text for each in pieces_of(text) if each.part is AnswerPart.SAID)
    parser = ToolCallParser(choice.tools)
    read = [*parser.feed(said), *parser.finish()]
    found = tuple(each for each in read if isinstance(each, ToolCall))
    return found if choice.parallel else found[:1]


def turns_with_calls(
    messages: Sequence[StoredMessage], setup: ChatSetup, tools: ToolChoice
) -> tuple[Message, ...]:
    """Return messages as the model reads them, where tools are offered or were called.

    A model that is offered none is told in words what they gave. Long files are only named where
    the tool that reads them is chosen, and can be called or has been.
    """
    called = any(message.role is Role.TOOL for message in messages)
    named = FILES in setup.tools and (bool(tools.tools) or called)
    turns: list[Message] = []
    for message in messages:
        if message.calls:
            turn = _turn_of(message) if tools.tools else _in_words(message)
            turns += [] if turn is None else [turn]
        elif message.text:
            reads = named and message.role is Role.USER
            text = files_named(message.text) if reads else message.text
            turns.append(Message(message.role, text, message.token_ids))
    return tuple(turns)


def _turn_of(message: StoredMessage) -> Message:
    """Return a message with calls as the model reads it: an answer, or the result of a tool.

    An answer's ids hold its calls. They go in where the calls stand in a family's form; a bare
    object, which some models write, reads better in the template's own. Past thoughts are left to
    the template, too.
    """
    if message.role is Role.TOOL:
        return Message(Role.TOOL, message.text or NOT_RUN, call_id=message.calls[0].id)
    marked = any(opening in message.text for opening in OPENINGS)
    if message.token_ids is None or not marked or parts(message.text)[0]:
        return Message(message.role, shown_text(message), calls=message.calls)
    return Message(message.role, message.text, message.token_ids)


def _in_words(message: StoredMessage) -> Message | None:
    """Return a message with calls for a model that is offered no tools: results in plain words.

    None: the answer says nothing but its calls.
    """
    if message.role is Role.TOOL:
        (call,) = message.calls
        result = message.text or NOT_RUN
        return Message(Role.USER, f"Result of {call.name}, {call.arguments}:\n{result}")
    text = shown_text(message)
    return Message(message.role, text) if text.strip() else None


def shown_text(message: StoredMessage) -> str:
    """Return an answer's text as it is shown: without the calls that became messages."""
    if not message.calls or not message.text:
        return message.text
    shown = CallFilter([Tool(call.name) for call in message.calls])
    return (shown.feed(message.text) + shown.finish()).rstrip()


class CallFilter:
    """Leaves calls out of an answer that is being written; what may become one is held back.

    Args:
        tools: those that may be called.
    """

    def __init__(self, tools: Sequence[Tool]) -> None:
        self._parser = ToolCallParser(tools)
        self._thoughts = ThoughtSplitter()

    def feed(self, text: str) -> str:
        """Return what is to be shown once this stretch has come."""
        return "".join(self._shown(piece) for piece in self._thoughts.feed(text))

    def finish(self) -> str:
        """Return what was held back: no more comes."""
        rest = "".join(self._shown(piece) for piece in self._thoughts.finish())
        return rest + _joined(self._parser.finish())

    def _shown(self, piece: Piece) -> str:
        said = piece.part is AnswerPart.SAID
        return _joined(self._parser.feed(piece.text)) if said else piece.text


def _joined(read: Iterator[str | ToolCall]) -> str:
    return "".join(each for each in read if isinstance(each, str))

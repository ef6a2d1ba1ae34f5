"""Conversations as Markdown: a page to read that can also be imported again.

A comment before each message, which no viewer shows, tells its role. The comment's first word
occurs in no message, like a boundary in MIME: a message may hold anything, even another export.
"""

from __future__ import annotations

import re
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from datetime import datetime
from itertools import chain, count

from app.history.foreign import sensible_time
from app.history.message import StoredMessage
from app.history.records import ChatSetup, Conversation
from app.history.trees import Tree
from engine.language import tr
from engine.model.text.code_fence import FENCE, closes
from engine.model.text.thinking import AnswerPart, pieces_of
from engine.request import Role, ToolCall

_WORD, _SYSTEM = "duotail", "system"
_TIME = "%Y-%m-%d %H:%M"
_FIRST_MARK = re.compile(rf"\n<!-- ({_WORD}(?:-\d+)?) (?:system|user|assistant|tool) -->\n")
_HEADING = re.compile(r"## (.*), (\d{4}-\d\d-\d\d \d\d:\d\d)")
_TICKS = re.compile(r"`{3,}")
_PROMPT = re.compile(r"\n\*\*[^\n]+\*\*\n\n")


@dataclass(frozen=True, slots=True)
class _Section:
    role: str
    heading: str
    text: str


def markdown(conversation: Conversation, messages: Sequence[StoredMessage]) -> str:
    """Return the branch on show, without what the model only thought."""
    sections = [_section(each) for each in messages]
    if prompt := conversation.setup.system_prompt:
        sections.insert(0, _Section(_SYSTEM, "**" + tr("System prompt") + "**", prompt))
    words = chain([_WORD], (f"{_WORD}-{number}" for number in count(2)))
    word = next(each for each in words if not any(f"<!-- {each} " in s.text for s in sections))
    title = " ".join(conversation.title.split()) or tr("New chat")
    told = (f"\n<!-- {word} {s.role} -->\n{s.heading}\n\n{s.text}\n" for s in sections)
    return "".join([f"# {title}\n", *told])


def reading_copy(conversation: Conversation, messages: Sequence[StoredMessage]) -> str:
    """Return the branch on show for people: no system prompt, no comments, no thoughts."""
    title = " ".join(conversation.title.split()) or tr("New chat")
    sections = map(_section, messages)
    return "".join([f"# {title}\n", *(f"\n{s.heading}\n\n{s.text}\n" for s in sections)])


def read_markdown(text: str) -> Tree | None:
    """Return the conversation in an export; None if the text is none.

    Exports of earlier versions have no comments: their headings separate the messages, and the
    first heading names the user.
    """
    first, _, rest = text.partition("\n")
    if not first.startswith("# "):
        return None
    if first.endswith("\r"):  # saved by an editor that ends lines so
        rest = rest.replace("\r\n", "\n")
    mark = _FIRST_MARK.match(rest)
    sections = list(_marked(rest, mark[1]) if mark is not None else _unmarked(rest))
    told = [each for each in sections if each.role != _SYSTEM]
    if not told:
        return None
    messages = tuple(_message(number, each) for number, each in enumerate(told, start=1))
    prompt = next((each.text for each in sections if each.role == _SYSTEM), "")
    updated_at = max(each.created_at for each in messages)
    about = Conversation(0, first[2:].strip(), updated_at, setup=ChatSetup(system_prompt=prompt))
    return Tree(about, messages, len(messages))


def _section(message: StoredMessage) -> _Section:
    who, text = tr("You"), message.text
    if message.role is Role.ASSISTANT:
        who = " ".join(message.model.split()) or tr("Assistant")
        said = "".join(each.text for each in pieces_of(text) if each.part is AnswerPart.SAID)
        text = text if said == text else said.strip()
    elif message.role is Role.TOOL:
        who = " ".join("".join(call.name for call in message.calls).split())
        text = _with_arguments(message)
    when = datetime.fromtimestamp(message.created_at).astimezone().strftime(_TIME)
    return _Section(message.role, f"## {who}, {when}", text)


def _with_arguments(message: StoredMessage) -> str:
    """Return the result of a call behind its arguments, each in a fence that it cannot close."""
    parts = [(call.arguments, "json") for call in message.calls] + [(message.text, "")]
    runs = [run for text, _ in parts for run in _TICKS.findall(text)]
    fence = "`" * max([3, *(len(run) + 1 for run in runs)])
    return "\n\n".join(f"{fence}{kind}\n{text}\n{fence}" for text, kind in parts if text)


def _call_in(name: str, text: str) -> tuple[tuple[ToolCall, ...], str]:
    """Return the call in a tool's section, and its result."""
    fence, _, _ = text.partition("json\n")
    match = re.fullmatch(
        rf"{re.escape(fence)}json\n(.*?)\n{re.escape(fence)}(?:\n\n{re.escape(fence)}\n(.*)\n"
        rf"{re.escape(fence)})?",
        text,
        re.DOTALL,
    )
    if match is None or not fence:
        return (ToolCall("", name),), text
    return (ToolCall("", name, match[1]),), match[2] or ""


def _marked(rest: str, word: str) -> Iterator[_Section]:
    _, *pieces = re.split(rf"\n<!-- {word} (system|user|assistant|tool) -->\n", rest)
    for role, piece in zip(pieces[::2], pieces[1::2], strict=True):
        heading, _, text = piece.partition("\n\n")
        yield _Section(role, heading, text.removesuffix("\n"))


def _unmarked(rest: str) -> Iterator[_Section]:
    """Yield the sections of an old export; a heading in a code block is none."""
    first = heading = fence = ""
    lines: list[str] = []
    for line in [*rest.split("\n"), None]:
        found = None if line is None or fence else _HEADING.fullmatch(line)
        if line is None or found is not None:
            text = "\n".join(lines)
            if heading:
                role = Role.USER if _name(heading) == first else Role.ASSISTANT
                yield _Section(role, heading, text.strip("\n"))
            elif (prompt := _PROMPT.match(text)) is not None:
                yield _Section(_SYSTEM, "", text[prompt.end() :].strip("\n"))
        if line is None:
            return
        if found is not None:
            heading, lines, first = line, [], first or found[1]
            continue
        lines.append(line)
        if fence:
            fence = "" if closes(line, fence) else fence
        elif (opening := FENCE.match(line)) is not None:
            fence = opening[2]


def _name(heading: str) -> str:
    found = _HEADING.fullmatch(heading)
    return found[1] if found is not None else ""


def _message(number: int, section: _Section) -> StoredMessage:
    found = _HEADING.fullmatch(section.heading)
    name, when = found.groups() if found is not None else ("", "")
    try:
        created_at = sensible_time(datetime.strptime(when, _TIME).astimezone().timestamp())
    except (ValueError, OSError, OverflowError):
        created_at = 0.0
    answer = section.role == Role.ASSISTANT
    calls: tuple[ToolCall, ...] = ()
    text = section.text
    if section.role == Role.TOOL:
        calls, text = _call_in(name, section.text)
    return StoredMessage(
        number,
        Role(section.role),
        text,
        model=name if answer and name != tr("Assistant") else "",
        parent_id=number - 1 or None,
        created_at=created_at or time.time(),
        calls=calls,
    )

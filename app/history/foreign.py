"""Reading conversations that other programs wrote.

These are OpenAI's messages, ChatGPT, Claude, Open WebUI, LM Studio and Jan.

What they have in common is a graph: entries with a parent, some of which are messages. Nothing is
believed: an entry that makes no sense is left out, and what follows it moves up to its parent.
"""

from __future__ import annotations

import heapq
import time
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, replace
from datetime import datetime
from typing import Any

from app.history.foreign_text import MessageWords, tool_words, words_of
from app.history.message import StoredMessage
from app.history.records import EARLIEST, AnswerState, ChatSetup, Conversation
from app.history.trees import Tree
from engine.request import Role

LONGEST_TEXT = 16_000_000
_MOST_ENTRIES = 1_000_000
_LONGEST_TITLE = 500
_MOST_THOUGHTS = 1_000
_ROLES = {
    "user": Role.USER,
    "human": Role.USER,
    "prompter": Role.USER,
    "assistant": Role.ASSISTANT,
    "gpt": Role.ASSISTANT,
    "model": Role.ASSISTANT,
    "bot": Role.ASSISTANT,
    "chatbot": Role.ASSISTANT,
}
_SYSTEM = {"system", "developer"}


class Unreadable(Exception):
    """The value is no conversation."""


@dataclass(slots=True)
class Graph:
    """Entries of a conversation by key, in the order of the file; None where it is no message."""

    title: str = ""
    updated_at: float = 0.0
    current: object = None
    """Key of the entry that ends the branch on show."""
    system: str = ""
    entries: dict[object, StoredMessage | None] = field(default_factory=dict)
    parents: dict[object, object] = field(default_factory=dict)
    thoughts: dict[object, str] = field(default_factory=dict)
    """Thoughts, and words to and by tools, of entries that are no messages."""
    left_out: int = 0
    marks: int = 0
    """References that were removed from texts."""

    def tree(self) -> Tree:
        """The messages in a tree; `Unreadable` if there are none."""
        messages, ids = self.placed()
        if not messages:
            raise Unreadable
        updated_at = self.updated_at or max(message.created_at for message in messages)
        return Tree(
            Conversation(0, self.title, updated_at, setup=ChatSetup(system_prompt=self.system)),
            messages,
            ids.get(self.kept(self.current), len(messages)),
        )

    def placed(self) -> tuple[tuple[StoredMessage, ...], dict[object, int]]:
        """The messages numbered from 1, parents first, else in the file's order; ids by key."""
        ids: dict[object, int] = {}
        messages: list[StoredMessage] = []
        for key in self._parents_first():
            message = self.entries[key]
            if message is not None:
                above = self.kept(self.parents.get(key))
                ids[key] = len(messages) + 1
                text = self._with_thoughts(key, message)
                messages.append(replace(message, text=text, id=ids[key], parent_id=ids.get(above)))
        there = sum(message is not None for message in self.entries.values())
        self.left_out += there - len(messages)  # in circles that begin nowhere
        return tuple(messages), ids

    def _with_thoughts(self, key: object, message: StoredMessage) -> str:
        """An answer's text, behind what was thought in the entries just above it."""
        found: list[str] = []
        above = self.parents.get(key)
        while message.role is Role.ASSISTANT and above in self.thoughts and above is not None:
            if self.entries.get(above) is not None or len(found) > _MOST_THOUGHTS:
                break
            found.insert(0, self.thoughts[above])
            above = self.parents.get(above)
        thought = "\n\n".join(filter(None, found))
        return MessageWords(message.text, thought).text if thought else message.text

    def _parents_first(self) -> Iterator[object]:
        places = {key: place for place, key in enumerate(self.entries)}
        children: dict[object, list[tuple[int, object]]] = {}
        ready: list[tuple[int, object]] = []
        for key, place in places.items():
            parent = self.parents.get(key)
            (children.setdefault(parent, []) if parent in places else ready).append((place, key))
        while ready:
            _, key = heapq.heappop(ready)
            yield key
            for child in children.get(key, ()):
                heapq.heappush(ready, child)

    def kept(self, key: object) -> object:
        """Return this entry, or the nearest above it that is a message."""
        seen = set()
        while key is not None and key not in seen and key in self.entries:
            if self.entries[key] is not None:
                return key
            seen.add(key)
            key = self.parents.get(key)
        return None


def from_messages(told: Mapping[str, Any], listed: list[Any]) -> Graph:
    """`{"messages": [{"role", "content"}, ...]}` and its cousins: one branch."""
    graph = Graph(_title(told), _time(told))
    last = None
    for number, entry in enumerate(_bounded(listed)):
        _put(graph, number, last, entry)
        last = graph.current = number
    return graph


def from_chatgpt(told: Mapping[str, Any]) -> Graph:
    """A conversation of ChatGPT's export: `mapping` holds the nodes of its tree."""
    graph = Graph(_title(told), _time(told), key_of(told.get("current_node")))
    for key, node in _bounded(told["mapping"]).items():
        inside = node.get("message") if isinstance(node, Mapping) else None
        _put(graph, key, node.get("parent") if isinstance(node, Mapping) else None, inside)
    return graph


def from_open_webui(told: Mapping[str, Any]) -> Graph:
    """A chat of Open WebUI: `history.messages` holds the nodes of its tree."""
    chat = told["chat"]
    history = chat.get("history")
    if not (isinstance(history, Mapping) and isinstance(history.get("messages"), Mapping)):
        return from_messages({**told, **chat}, chat.get("messages") or [])
    graph = Graph(_title(chat) or _title(told), _time(told), key_of(history.get("currentId")))
    for key, node in _bounded(history["messages"]).items():
        _put(graph, key, node.get("parentId") if isinstance(node, Mapping) else None, node)
    return graph


def from_claude(told: Mapping[str, Any]) -> Graph:
    """A conversation of Claude's export, whose messages name the one before them."""
    graph = Graph(_title(told), _time(told))
    last: object = None
    for number, entry in enumerate(_bounded(told["chat_messages"])):
        if not isinstance(entry, Mapping):
            graph.left_out += 1
            continue
        key = key_of(entry.get("uuid")) or number
        parent = key_of(entry.get("parent_message_uuid"))
        _put(graph, key, last if parent is None else parent, {**entry, "role": entry.get("sender")})
        last = graph.current = key
    return graph


def from_lm_studio(told: Mapping[str, Any]) -> Graph:
    """A conversation of LM Studio's: each message in versions, answers in steps."""
    graph = Graph(_title(told), _time(told))
    graph.system = told["systemPrompt"] if isinstance(told.get("systemPrompt"), str) else ""
    last: object = None
    for number, entry in enumerate(_bounded(told["messages"])):
        versions = entry.get("versions") if isinstance(entry, Mapping) else None
        shown = entry.get("currentlySelected") if isinstance(entry, Mapping) else None
        after = last
        for index, version in enumerate(versions if isinstance(versions, list) else ()):
            key = f"{number}.{index}"
            _put(graph, key, after, _lm_studio_message(version))
            if index == shown or last is after:
                last = graph.current = key
    return graph


def _lm_studio_message(version: object) -> object:
    """A version of a message, its steps as parts."""
    if not isinstance(version, Mapping) or not isinstance(version.get("steps"), list):
        return version
    parts: list[object] = []
    for step in version["steps"]:
        content = step.get("content") if isinstance(step, Mapping) else None
        style = step.get("style") if isinstance(step, Mapping) else None
        thinking = isinstance(style, Mapping) and style.get("type") == "thinking"
        for part in content if isinstance(content, list) else ():
            text = part.get("text") if isinstance(part, Mapping) else None
            parts.append({"type": "thinking", "thinking": text} if thinking and text else part)
    sender = version.get("senderInfo")
    model = sender.get("senderName") if isinstance(sender, Mapping) else None
    return {"role": version.get("role"), "content": parts, "model": model}


def graph_of(told: object) -> Graph:
    """Whatever this is, as a graph; `Unreadable` for what it cannot be."""
    if isinstance(told, list) and told and isinstance(told[0], Mapping):
        return from_messages({}, told)
    if isinstance(told, Mapping):
        if isinstance(told.get("mapping"), Mapping):
            return from_chatgpt(told)
        if isinstance(told.get("chat"), Mapping):
            return from_open_webui(told)
        if isinstance(told.get("chat_messages"), list):
            return from_claude(told)
        listed = told.get("messages")
        if isinstance(listed, list) and any(
            isinstance(each, Mapping) and "versions" in each for each in listed[:1]
        ):
            return from_lm_studio(told)
        for name in ("messages", "conversations", "conversation"):
            if isinstance(told.get(name), list):
                return from_messages(told, told[name])
    raise Unreadable


def _put(graph: Graph, key: object, parent: object, entry: object) -> None:
    """Add an entry: a message, or the system prompt, or a gap that counts where it had words."""
    graph.parents[key] = key_of(parent)
    graph.entries[key] = None
    if not isinstance(entry, Mapping):
        graph.left_out += entry is not None
        return
    author = entry.get("author")
    role = entry.get("role") or entry.get("from")
    if isinstance(author, Mapping):
        role = author.get("role")
    role = str(role)
    words = words_of(entry)
    if _to_a_tool(entry, role):
        asked = tool_words(
            {"name": entry.get("recipient") or _author_name(entry), "input": words.said}
        )
        graph.thoughts[key] = "\n\n".join(filter(None, (words.thought, asked)))
        return
    graph.marks += words.marks
    if not words.said and words.thought and role in _ROLES:
        graph.thoughts[key] = words.thought
    elif not words.said or len(words.text) > LONGEST_TEXT:
        graph.left_out += bool(words.said)
    elif role in _SYSTEM:
        graph.system = graph.system or words.said
    elif role in _ROLES:
        model = entry.get("model")
        graph.entries[key] = StoredMessage(
            0,
            _ROLES[role],
            words.text if _ROLES[role] is Role.ASSISTANT else words.said,
            state=AnswerState.COMPLETE,
            model=model if isinstance(model, str) and role != "user" else "",
            created_at=_time(entry) or graph.updated_at or time.time(),
        )
    else:
        graph.left_out += 1


def _to_a_tool(entry: Mapping[str, Any], role: str) -> bool:
    """Return whether a message is what a tool was asked, or what it gave."""
    recipient = entry.get("recipient")
    asked = role == "assistant" and isinstance(recipient, str) and recipient != "all"
    return asked or role in ("tool", "function")


def _author_name(entry: Mapping[str, Any]) -> str:
    """Return the name of the tool that a message is from."""
    author = entry.get("author")
    name = author.get("name") if isinstance(author, Mapping) else entry.get("name")
    return name if isinstance(name, str) else ""


def key_of(value: object) -> object:
    """Return a value that can name an entry; None for anything else."""
    return value if isinstance(value, (str, int)) else None


def _bounded(entries: Any) -> Any:  # noqa: ANN401 - a list or a mapping, the same comes back
    if not isinstance(entries, list | Mapping) or len(entries) > _MOST_ENTRIES:
        raise Unreadable
    return entries


def _title(told: Mapping[str, Any]) -> str:
    title = told.get("title") or told.get("name")
    return " ".join(title.split())[:_LONGEST_TITLE] if isinstance(title, str) else ""


def _time(told: Mapping[str, Any]) -> float:
    """Seconds since the epoch, 0 where the file has none that make sense."""
    names = (
        "update_time",
        "updatedAt",
        "createdAt",
        "updated_at",
        "create_time",
        "created_at",
        "created",
        "timestamp",
    )
    for name in names:
        seconds = sensible_time(told.get(name))
        if seconds:
            return seconds
    return 0.0


def sensible_time(value: object) -> float:
    """Seconds since the epoch from seconds, finer units or a date; 0 for what cannot be."""
    if isinstance(value, str):
        try:
            value = datetime.fromisoformat(value).timestamp()
        except (ValueError, OverflowError, OSError):
            return 0.0
    if not isinstance(value, (int, float)) or not EARLIEST < value < 1e30:
        return 0.0
    while value > 1e11:  # milliseconds, or finer
        value /= 1000
    return float(value) if value < time.time() + 86_400 else 0.0

"""Reading conversations that other programs wrote: OpenAI's messages, ChatGPT, Open WebUI.

What they have in common is a graph: entries with a parent, some of which are messages. Nothing is
believed: an entry that makes no sense is left out, and what follows it moves up to its parent.
"""

from __future__ import annotations

import heapq
import time
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, replace
from typing import Any

from app.history.message import StoredMessage
from app.history.records import AnswerState, ChatSetup, Conversation
from app.history.trees import Tree
from engine.request import Role

LONGEST_TEXT = 16_000_000
_MOST_ENTRIES = 1_000_000
_LONGEST_TITLE = 500
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
    left_out: int = 0

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
                messages.append(replace(message, id=ids[key], parent_id=ids.get(above)))
        there = sum(message is not None for message in self.entries.values())
        self.left_out += there - len(messages)  # in circles that begin nowhere
        return tuple(messages), ids

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


def graph_of(told: object) -> Graph:
    """Whatever this is, as a graph; `Unreadable` for what it cannot be."""
    if isinstance(told, list) and told and isinstance(told[0], Mapping):
        return from_messages({}, told)
    if isinstance(told, Mapping):
        if isinstance(told.get("mapping"), Mapping):
            return from_chatgpt(told)
        if isinstance(told.get("chat"), Mapping):
            return from_open_webui(told)
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
    text = text_of(entry.get("content", entry.get("value")))
    if not text or len(text) > LONGEST_TEXT:
        graph.left_out += bool(text)
    elif isinstance(role, str) and role in _SYSTEM:
        graph.system = graph.system or text
    elif isinstance(role, str) and role in _ROLES:
        model = entry.get("model")
        graph.entries[key] = StoredMessage(
            0,
            _ROLES[role],
            text,
            state=AnswerState.COMPLETE,
            model=model if isinstance(model, str) and role != "user" else "",
            created_at=_time(entry) or graph.updated_at or time.time(),
        )
    else:
        graph.left_out += 1


def key_of(value: object) -> object:
    """Return a value that can name an entry; None for anything else."""
    return value if isinstance(value, (str, int)) else None


def text_of(content: object) -> str:
    """The words of a message, which may be in parts; pictures and the like are left out."""
    if isinstance(content, str):
        return content
    if isinstance(content, Mapping):
        content = content.get("parts", content.get("text"))
        if isinstance(content, str):
            return content
    if not isinstance(content, list):
        return ""
    texts = [part.get("text") if isinstance(part, Mapping) else part for part in content]
    return "\n\n".join(text for text in texts if isinstance(text, str) and text)


def _bounded(entries: Any) -> Any:  # noqa: ANN401 - a list or a mapping, the same comes back
    if not isinstance(entries, list | Mapping) or len(entries) > _MOST_ENTRIES:
        raise Unreadable
    return entries


def _title(told: Mapping[str, Any]) -> str:
    title = told.get("title") or told.get("name")
    return " ".join(title.split())[:_LONGEST_TITLE] if isinstance(title, str) else ""


def _time(told: Mapping[str, Any]) -> float:
    """Seconds since the epoch, 0 where the file has none that make sense."""
    names = ("update_time", "updated_at", "create_time", "created_at", "created", "timestamp")
    for name in names:
        seconds = sensible_time(told.get(name))
        if seconds:
            return seconds
    return 0.0


def sensible_time(value: object) -> float:
    """Seconds since the epoch from seconds or finer units; 0 for what cannot be."""
    if not isinstance(value, (int, float)) or not 0 < value < 1e30:
        return 0.0
    while value > 1e11:  # milliseconds, or finer
        value /= 1000
    return float(value) if value < time.time() + 86_400 else 0.0

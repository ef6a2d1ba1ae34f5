"""Conversations as JSON, which loses nothing, and imports of every format that Duotail reads."""

from __future__ import annotations

import base64
import binascii
import json
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, replace

from app.history.columns import (
    unpack_calls,
    unpack_marks,
    unpack_sampling,
    unpack_setup,
    unpack_stats,
)
from app.history.foreign import LONGEST_TEXT, Graph, Unreadable, graph_of, key_of, sensible_time
from app.history.markdown_file import read_markdown
from app.history.message import StoredMessage
from app.history.records import AnswerState, Conversation, TokenMarks
from app.history.rounds import unpack
from app.history.trees import Tree, Trees
from engine.errors import UserFixable
from engine.language import sentences, tr, tr_count
from engine.request import Role

_FORMAT = "duotail-conversations"
_VERSION = 1
_LONGEST_FILE = 512_000_000
_MOST_CONVERSATIONS = 200_000
_STATES = {str(state): state for state in AnswerState}


@dataclass(frozen=True, slots=True)
class _Own:
    """A conversation of our own format."""

    told: object


class Imported(list[Conversation]):
    """The conversations that were taken in, and how much could not be.

    Args:
        conversations: those that were taken in.
        left_out: parts of the file that could not be read.
        marks: references that lead nowhere outside of the program they come from.
    """

    def __init__(
        self, conversations: Sequence[Conversation], left_out: int = 0, marks: int = 0
    ) -> None:
        super().__init__(conversations)
        self.left_out, self.marks = left_out, marks

    @property
    def said(self) -> str:
        """Return what happened, in a sentence or two."""
        words = tr_count(
            "{n} conversation was imported.", "{n} conversations were imported.", len(self)
        )
        if self.left_out:
            lost = tr_count(
                "{n} part of the file could not be read and was left out.",
                "{n} parts of the file could not be read and were left out.",
                self.left_out,
            )
            words = sentences(words, lost)
        if self.marks:
            removed = tr_count(
                "{n} reference that leads nowhere was removed.",
                "{n} references that lead nowhere were removed.",
                self.marks,
            )
            words = sentences(words, removed)
        return words


def export_json(
    store: Trees, ids: Sequence[int], step: Callable[[int, int], None] = lambda *_: None
) -> str:
    """Conversations with all their branches; `import_text` gives the same again.

    `step` hears how many are done, of how many; what it raises ends the export.
    """
    trees = []
    for number, conversation_id in enumerate(ids):
        step(number, len(ids))
        trees.append(_tree_out(store.tree(conversation_id)))
    whole = {"format": _FORMAT, "version": _VERSION, "conversations": trees}
    return json.dumps(whole, ensure_ascii=False, indent=1)


def import_text(
    store: Trees, text: str, step: Callable[[int, int], None] = lambda *_: None
) -> Imported:
    """Take in conversations of our own formats, or of ChatGPT, Open WebUI, OpenAI's messages.

    What cannot be read is left out and counted. All of it is stored, or nothing; `step` hears how
    much is done, as in `Trees.add`.

    Raises:
        UserFixable: there is no conversation in the text, or it cannot be stored.
    """
    trees, left_out, marks = read_trees(text)
    return Imported(store.add(trees, step), left_out, marks)


def read_trees(text: str) -> tuple[list[Tree], int, int]:
    """The conversations in a text, how much was left out, and how many references were removed.

    Touches no file: any thread will do.

    Raises:
        UserFixable: there is none, or far too much.
    """
    if len(text) > _LONGEST_FILE:
        raise UserFixable(
            tr("This file is too large to be imported."),
            tr("Split it into parts of less than {megabytes} MB.").format(
                megabytes=_LONGEST_FILE // 1_000_000
            ),
        )
    text = text.lstrip("\ufeff")
    if (tree := read_markdown(text)) is not None:
        return [tree], 0, 0
    trees: list[Tree] = []
    left_out = marks = 0
    for told in _conversations(text):
        try:
            if len(trees) >= _MOST_CONVERSATIONS:
                raise Unreadable
            tree, lost, removed = _tree_in(told)
            trees.append(tree)
            left_out += lost
            marks += removed
        except (Unreadable, RecursionError):  # read, and too deep to be looked at
            left_out += 1
    if not trees:
        raise _nothing_here()
    return trees, left_out, marks


def _conversations(text: str) -> Iterator[object]:
    """Yield candidates for conversations: of one JSON text, or of one in each line."""
    try:
        whole = json.loads(text)
    except RecursionError as error:
        raise _nothing_here("nested too deeply") from error
    except ValueError as error:
        yield from _lines(text, error)
        return
    if isinstance(whole, Mapping) and whole.get("format") == _FORMAT:
        if not isinstance(whole.get("version"), int) or whole["version"] > _VERSION:
            raise UserFixable(
                tr("These conversations were exported by a newer version of Duotail."),
                tr("Update Duotail to import them."),
            )
        listed = whole.get("conversations")
        if isinstance(listed, list):
            yield from (_Own(each) for each in listed)
    elif isinstance(whole, list) and not _is_message(whole[:1]):
        yield from whole
    else:
        yield whole


def _lines(text: str, error: ValueError) -> Iterator[object]:
    lines = [line for line in text.splitlines() if line.strip()]
    if len(lines) < 2:
        raise _nothing_here(str(error)) from error
    found: list[object] = []
    for line in lines:
        try:
            found.append(json.loads(line))
        except (ValueError, RecursionError):
            found.append(None)
    if not _is_message(found):
        yield from found
        return
    threads: dict[object, list[object]] = {}
    for each in found:  # a message in each line, as in Jan's threads
        thread = each.get("thread_id") if isinstance(each, Mapping) else None
        threads.setdefault(key_of(thread), []).append(each)
    yield from threads.values()


def _is_message(first: list[object]) -> bool:
    return any(isinstance(each, Mapping) and "role" in each for each in first)


def _nothing_here(details: str = "") -> UserFixable:
    return UserFixable(
        tr("No conversation was found in this file."),
        tr(
            "Duotail reads its own exports and those of ChatGPT, Claude, LM Studio, Jan, Open "
            "WebUI and OpenAI's API."
        ),
        details,
    )


def _tree_out(tree: Tree) -> dict[str, object]:
    told = tree.conversation
    return {
        "title": told.title,
        "updated_at": told.updated_at,
        "folder": tree.folder,
        "pinned": told.pinned,
        "setup": asdict(told.setup),
        "leaf": tree.leaf,
        "messages": [
            _message_out(message, tree.rounds.get(message.id, ())) for message in tree.messages
        ],
    }


def _message_out(message: StoredMessage, rounds: Sequence[bytes]) -> dict[str, object]:
    told: dict[str, object] = {
        "id": message.id,
        "parent": message.parent_id,
        "role": message.role,
        "text": message.text,
        "created_at": message.created_at,
    }
    if message.calls:
        told["calls"] = [asdict(call) for call in message.calls]
    if message.role is Role.TOOL:
        told["state"] = message.state
    if message.role is Role.ASSISTANT:
        marks = message.marks
        told |= {
            "state": message.state,
            "model": message.model,
            "signature": message.signature,
            "sampling": asdict(message.sampling),
            "varied": message.varied,
            "stats": None if message.stats is None else asdict(message.stats),
            "token_ids": message.token_ids,
            "marks": None if marks is None else base64.b64encode(marks.packed).decode(),
        }
        if rounds:
            told["rounds"] = [base64.b64encode(packed).decode() for packed in rounds]
    return told


def _tree_in(told: object) -> tuple[Tree, int, int]:
    """One conversation, and as `read_trees` tells; `Unreadable` if there is none in it."""
    if isinstance(told, _Own):
        return (*_own_tree_in(told.told), 0)
    graph = graph_of(told)
    return graph.tree(), graph.left_out, graph.marks


def _own_tree_in(told: object) -> tuple[Tree, int]:
    if not (isinstance(told, Mapping) and isinstance(told.get("messages"), list)):
        raise Unreadable
    graph = Graph()
    packed: dict[object, tuple[bytes, ...]] = {}
    for entry in told["messages"]:
        message = _message_in(entry)
        if message is None or message.id in graph.entries:
            graph.left_out += 1
        if isinstance(entry, Mapping) and type(entry.get("id")) is int:
            graph.parents.setdefault(entry["id"], key_of(entry.get("parent")))
            graph.entries.setdefault(entry["id"], message)
            packed.setdefault(entry["id"], _rounds(entry.get("rounds")))
    messages, ids = graph.placed()
    title, folder = told.get("title"), told.get("folder")
    setup = unpack_setup(json.dumps(told.get("setup")))
    conversation = Conversation(
        0,
        title if isinstance(title, str) else "",
        _when(told.get("updated_at")),
        pinned=told.get("pinned") is True,
        setup=replace(setup, seen_after=ids.get(setup.seen_after), tools=()),
    )
    leaf = ids.get(graph.kept(key_of(told.get("leaf"))), len(messages) or None)
    named = folder if isinstance(folder, str) else ""
    rounds = {number: packed[key] for key, number in ids.items() if packed.get(key)}
    return Tree(conversation, messages, leaf, named, rounds), graph.left_out


def _message_in(entry: object) -> StoredMessage | None:
    """A message of our own format; None if it has no id, no text or a role nobody has."""
    if not isinstance(entry, Mapping):
        return None
    number, role, text = entry.get("id"), entry.get("role"), entry.get("text")
    if type(number) is not int or role not in (Role.USER, Role.ASSISTANT, Role.TOOL):
        return None
    if not isinstance(text, str) or len(text) > LONGEST_TEXT:
        return None
    message = StoredMessage(
        number, Role(role), text, None, created_at=_when(entry.get("created_at"))
    )
    if role == Role.USER:
        return message
    state = _STATES.get(_words(entry.get("state")), AnswerState.COMPLETE)
    message = replace(message, calls=unpack_calls(json.dumps(entry.get("calls"))))
    if role == Role.TOOL:
        if len(message.calls) != 1:
            return None
        # What a file brings along is never asked to be run.
        waits = state is AnswerState.INTERRUPTED
        return replace(message, state=AnswerState.STOPPED if waits else state)
    return replace(
        message,
        state=state,
        model=_words(entry.get("model")),
        signature=_words(entry.get("signature")),
        sampling=unpack_sampling(json.dumps(entry.get("sampling"))),
        varied=entry.get("varied") is True,
        stats=unpack_stats(json.dumps(entry.get("stats"))),
        token_ids=_token_ids(entry.get("token_ids")),
        marks=_marks(entry.get("marks")),
    )


def _token_ids(value: object) -> tuple[int, ...] | None:
    if not isinstance(value, list):
        return None
    known = all(type(each) is int and 0 <= each < 2**32 for each in value)
    return tuple(value) if known else None


def _marks(value: object) -> TokenMarks | None:
    if not isinstance(value, str):
        return None
    try:
        return unpack_marks(base64.b64decode(value, validate=True))
    except binascii.Error:
        return None


def _rounds(value: object) -> tuple[bytes, ...]:
    """Return the packed rounds of an answer; what is no such thing is left out."""
    if not isinstance(value, list):
        return ()
    found = []
    for each in value:
        try:
            packed = base64.b64decode(each, validate=True) if isinstance(each, str) else b""
        except ValueError:
            continue
        if unpack(packed) is not None:
            found.append(packed)
    return tuple(found)


def _words(value: object) -> str:
    return value if isinstance(value, str) else ""


def _when(value: object) -> float:
    return sensible_time(value) or time.time()

"""Text that a model is judged by: plain text, or conversations in JSON Lines."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path

from engine.errors import UserFixable
from engine.language import tr
from engine.model.text.chat_template import ChatTemplate
from engine.model.text.tokenizer import Tokenizer
from engine.request import Message, Role


def read_passages(
    path: Path, tokenizer: Tokenizer, template: ChatTemplate, window: int
) -> list[list[int]]:
    """Token ids of the file's passages, in pieces of at most `window` tokens.

    A `.jsonl` file holds a conversation per line, `{"messages": [{"role", "content"}, ...]}` that
    ends with an answer; any other file is one plain text.

    Raises:
        UserFixable: the file cannot be read, or holds too little.
    """
    try:
        text = path.read_text("utf-8-sig")
    except (OSError, UnicodeDecodeError) as error:
        raise UserFixable(
            tr("The text in {path} cannot be read.").format(path=path),
            tr("Give a file in UTF-8."),
            str(error),
        ) from error
    if path.suffix == ".jsonl":
        lines = enumerate(text.split("\n"), 1)  # only a line feed ends a line of JSON Lines
        conversations = [
            _conversation(line, number, path) for number, line in lines if line.strip()
        ]
        whole = [
            template.prompt(turns, tokenizer, continue_answer=True).ids for turns in conversations
        ]
    else:
        start = [tokenizer.bos_id] if tokenizer.adds_bos and tokenizer.bos_id is not None else []
        whole = [start + tokenizer.encode_text(text)]
    pieces = [piece for ids in whole for piece in _cut(ids, window)]
    if not pieces:
        raise UserFixable(
            tr("{path} holds too little text.").format(path=path), tr("Give a longer one.")
        )
    return pieces


def _cut(ids: Sequence[int], window: int) -> list[list[int]]:
    """Pieces with at least one token to guess."""
    pieces = [list(ids[start : start + window]) for start in range(0, len(ids), window)]
    return [piece for piece in pieces if len(piece) > 1]


def _conversation(line: str, number: int, path: Path) -> list[Message]:
    try:
        rows = json.loads(line)["messages"]
        turns = [Message(Role(row["role"]), row["content"]) for row in rows]
        if not turns or turns[-1].role is not Role.ASSISTANT:
            raise ValueError("it does not end with an answer")
        if not all(isinstance(turn.text, str) for turn in turns):
            raise ValueError("a message is no text")
    except (ValueError, KeyError, TypeError) as error:
        raise UserFixable(
            tr("Line {number} of {path} is no conversation.").format(number=number, path=path),
            tr(
                'Each line needs {"messages": [{"role": "user", "content": text}, ...]} '
                "and ends with an answer."
            ),
            str(error),
        ) from error
    return turns

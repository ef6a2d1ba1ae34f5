"""Attached files that a model reads in parts."""

from __future__ import annotations

import pytest

from app.history import ChatSetup, StoredMessage
from app.session.attachments import Attachment, as_block, with_attachments
from app.session.file_parts import FILES, READ_FILE_TOOL, NoSuchPart, files_named, read_part
from app.session.request import request_messages
from engine.request import Role, ToolChoice

LONG = "\n\n".join(f"Paragraph {i} tells of number {i} only." for i in range(400))


def message(*files: Attachment, text: str = "What is it?", number: int = 1) -> StoredMessage:
    return StoredMessage(number, Role.USER, with_attachments(files, text))


def long_file(name: str = "long.txt", text: str = LONG) -> Attachment:
    return Attachment(name, text, len(text))


def test_a_long_file_is_only_named_while_the_tool_may_be_called() -> None:
    short = Attachment("short.txt", "Few words.", 10)
    asked = message(long_file(), short)
    whole = request_messages([asked], ChatSetup(tools=(FILES,)))  # the model cannot call it now
    assert whole[0].text == asked.text
    (named,) = request_messages([asked], ChatSetup(tools=(FILES,)), ToolChoice((READ_FILE_TOOL,)))
    assert "Paragraph 7" not in named.text
    assert "`long.txt`: " in named.text
    assert READ_FILE_TOOL.name in named.text
    assert as_block(short).strip() in named.text
    assert named.text.endswith("What is it?")


def test_parts_hold_the_whole_file_in_order() -> None:
    asked = message(long_file())
    first = read_part([asked], "long.txt", "", 1)
    count = int(first.split(" of ")[1].split(":")[0])
    assert count > 2
    bodies = [
        read_part([asked], "`Long.txt`", "", part).split("\n", 1)[1] for part in range(1, count + 1)
    ]
    assert "\n\n".join(bodies) == LONG


def test_a_search_finds_the_passage() -> None:
    text = LONG + "\n\nThe treasure lies under the oak."
    assert "under the oak" in read_part([message(long_file(text=text))], "long", "treasure oak", 1)


def test_what_is_not_there_is_said() -> None:
    asked = message(long_file("a.txt"), long_file("ab.txt"))
    for name, part in (("c.txt", 1), ("", 1), ("a.txt", 0), ("a.txt", 999)):
        with pytest.raises(NoSuchPart):
            read_part([asked], name, "", part)
    with pytest.raises(NoSuchPart, match="none"):
        read_part([StoredMessage(1, Role.USER, "Hello")], "a.txt", "", 1)


def test_the_last_file_of_a_name_is_read_and_answers_attach_nothing() -> None:
    old, new = long_file(text="old " * 2000), long_file(text="new " * 2000)
    said = StoredMessage(2, Role.ASSISTANT, with_attachments([long_file(text="mine " * 2000)], ""))
    messages = [message(old), said, message(new, number=3)]
    assert "new new" in read_part(messages, "long.txt", "", 1)
    assert files_named("No file at all") == "No file at all"

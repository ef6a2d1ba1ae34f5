"""The words of other programs' messages: thoughts, tools and marks are told from text."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from html import unescape
from typing import Any

_DETAILS = re.compile(r"<details\s+type=\"(\w+)\"([^>]*)>(.*?)</details>\s*", re.DOTALL)
_SUMMARY = re.compile(r"<summary>.*?</summary>", re.DOTALL)
_ATTRIBUTE = re.compile(r"(\w+)=\"([^\"]*)\"")
_QUOTED = re.compile(r"^> ?", re.MULTILINE)
_MARK = re.compile(r"\ue200[^\ue200\ue201]*\ue201|[\ue200-\ue206]|【\d+[^】]{0,40}†[^】]{0,80}】")
"""ChatGPT's references to what its tools found, which lead nowhere outside of it."""
_THOUGHT_PARTS = {"thinking": "thinking", "reasoning": "text", "redacted_thinking": ""}
_TOOL_PARTS = frozenset(
    {"tool_use", "tool_result", "tool-call", "toolCallRequest", "toolCallResult"}
)


@dataclass(frozen=True, slots=True)
class MessageWords:
    """The words of a message.

    Attributes:
        said: what the reader is told.
        thought: what was thought before, and what tools were asked and gave.
        marks: references that were removed.
    """

    said: str = ""
    thought: str = ""
    marks: int = 0

    @property
    def text(self) -> str:
        """Return both as an answer has them."""
        return f"<think>\n{self.thought}\n</think>\n\n{self.said}" if self.thought else self.said

    def after(self, thought: str) -> MessageWords:
        """Return the words with a thought before them."""
        whole = "\n\n".join(filter(None, (thought, self.thought)))
        return MessageWords(self.said, whole, self.marks)


def words_of(entry: Mapping[str, Any]) -> MessageWords:
    """Return the words of a message in whatever form: texts, parts, details, steps."""
    said: list[str] = []
    thought: list[str] = []
    for name in ("reasoning_content", "reasoning", "thinking"):
        if isinstance(entry.get(name), str):
            thought.append(entry[name])
            break
    content = entry.get("content", entry.get("value"))
    if not content and isinstance(entry.get("text"), str):
        content = entry["text"]
    for kind, text in _pieces(content):
        (thought if kind else said).append(text)
    for file in _attachments(entry):
        said.insert(0, file)
    text, folded = _without_details("\n\n".join(filter(None, said)))
    text, marks = _MARK.subn("", text)
    inner = "\n\n".join(each.strip() for each in (*thought, *folded) if each.strip())
    return MessageWords(text, inner, marks)


def _pieces(content: object) -> Iterator[tuple[bool, str]]:
    """Yield each part's text, and whether it is a thought; pictures and the like are left out."""
    if isinstance(content, str):
        yield False, content
        return
    if isinstance(content, Mapping):
        if isinstance(content.get("thoughts"), list):  # ChatGPT's
            for each in content["thoughts"]:
                if isinstance(each, Mapping) and isinstance(each.get("content"), str):
                    yield True, each["content"]
            return
        if content.get("content_type") == "reasoning_recap":
            return
        yield from _pieces(content.get("parts", content.get("text")))
        return
    for part in content if isinstance(content, list) else ():
        if isinstance(part, str):
            yield False, part
        elif isinstance(part, Mapping):
            yield from _part(part)


def _part(part: Mapping[str, Any]) -> Iterator[tuple[bool, str]]:
    kind = str(part.get("type"))
    if kind in _TOOL_PARTS:
        yield True, tool_words(part)
    elif kind in _THOUGHT_PARTS:
        text = part.get(_THOUGHT_PARTS[kind])
        if isinstance(text, str):
            yield True, text
    else:
        text = part.get("text")
        if isinstance(text, Mapping):  # Jan's and OpenAI's assistants
            text = text.get("value")
        if isinstance(text, str):
            yield False, text


def tool_words(told: Mapping[str, Any]) -> str:
    """Return what a tool was asked, or what it gave, as a person would note it."""
    name = told.get("name") or told.get("toolName") or ""
    for member in ("input", "arguments", "parameters", "content", "result", "output"):
        value = told.get(member)
        if value in (None, "", [], {}):
            continue
        text = "\n".join(each for _, each in _pieces(value)) if member == "content" else value
        written = text if isinstance(text, str) else json.dumps(text, ensure_ascii=False, indent=1)
        heading = f"`{name}`\n" if isinstance(name, str) and name else ""
        return f"{heading}```\n{written}\n```" if written else ""
    return f"`{name}`" if isinstance(name, str) and name else ""


def _attachments(entry: Mapping[str, Any]) -> Iterator[str]:
    """Files whose text an export holds, as Duotail puts them into a message."""
    listed = entry.get("attachments")
    for each in listed if isinstance(listed, list) else ():
        text = each.get("extracted_content") if isinstance(each, Mapping) else None
        if isinstance(text, str) and text.strip():
            name = str(each.get("file_name") or "text").replace("`", "")
            fence = "`" * max(3, *(len(run) + 1 for run in re.findall(r"`{3,}", text)), 3)
            yield f"`{name}`:\n{fence}\n{text}\n{fence}"


def _without_details(text: str) -> tuple[str, list[str]]:
    """The text without the folded parts that Open WebUI keeps in it, and those parts."""
    folded: list[str] = []

    def take(match: re.Match[str]) -> str:
        kind, attributes, inner = match.groups()
        if kind not in ("reasoning", "tool_calls", "code_interpreter"):
            return match[0]
        if kind == "tool_calls":
            told = {key: unescape(value) for key, value in _ATTRIBUTE.findall(attributes)}
            folded.extend(filter(None, (tool_words(told), _result(told))))
        else:
            folded.append(unescape(_QUOTED.sub("", _SUMMARY.sub("", inner).strip())))
        return ""

    return _DETAILS.sub(take, text), folded


def _result(told: Mapping[str, str]) -> str:
    return f"```\n{told['result']}\n```" if told.get("result") and told.get("arguments") else ""

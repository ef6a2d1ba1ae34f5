"""Conversations to token ids, through the model's own chat template.

Thinking. A template may have a switch for it, and a prompt may end inside a think block that the
template itself has opened. That opening (`<think>` and the blanks behind it) is part of the answer:
it is shown and stored in front of what the model writes, text and ids alike. So what is stored says
by itself which part is thought, "continue" puts back exactly the ids that were there, and a request
that goes on with an answer finds its opening in it and not in the template.

Past thoughts are kept or dropped as the template says: an answer with a closed think block goes as
text to a template that knows `</think>`. All others go in by their ids.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import date
from functools import partial
from pathlib import Path

from engine.errors import UserFixable
from engine.language import tr
from engine.model.text.placeholders import Placeholders
from engine.model.text.shown_text import said_in
from engine.model.text.template_sandbox import UNDATED, SandboxedTemplate, TemplateFailure
from engine.model.text.template_source import (
    FALLBACK,
    FALLBACK_STOP,
    folder_template,
    gguf_template,
)
from engine.model.text.template_traits import TemplateTraits, text_parts
from engine.model.text.thinking import parts
from engine.model.text.tokenizer import Tokenizer
from engine.model.text.tool_style import described, tools_in_words
from engine.model.text.turns import (
    arguments,
    merged,
    one_system_text,
    system_as_user,
    tools_as_text,
    user_first,
)
from engine.request import Message, Role, Tool

THINK, THOUGHT = "<think>", "</think>"
_OPENED = re.compile(r"(?:<think(?:ing)?>|\[THINK\])\s*\Z")
_EFFORT = "reasoning_effort"
"""Name of the variable in which templates are told how much to think (gpt-oss)."""
_SWITCHES = ("enable_thinking", "thinking")
"""Names of the variable that templates ask whether to think (Qwen3 and most; DeepSeek, Granite)."""


@dataclass(frozen=True, slots=True)
class Prompt:
    """The tokens that the model reads before it writes.

    Attributes:
        ids: all of them.
        begun: the last of them, which are the part of the answer that is there already.
        opening: how many ids of `begun` are the template's; the others are those of the answer that
            is to be continued.
    """

    ids: list[int]
    begun: tuple[int, ...] = ()
    opening: int = 0

    @property
    def answer_start(self) -> int:
        """The index in `ids` at which the answer's own tokens begin."""
        return len(self.ids) - len(self.begun) + self.opening


@dataclass(frozen=True, slots=True)
class TemplateChoices:
    """The choices that templates ask for besides the messages.

    Attributes:
        thinking: whether to think, for templates that leave the choice.
        effort: how much, for templates that ask ("low", "high").
        day: the date for templates that want one.
        tools: those that the answer may call.
    """

    thinking: bool | None = None
    effort: str | None = None
    day: date = UNDATED
    tools: tuple[Tool, ...] = ()


class ChatTemplate:
    """A model's chat template.

    The ids of a conversation are a pure function of its messages. Answers that carry their ids
    are put in verbatim, so the prompt and answer of an earlier turn are a prefix of later ones.
    """

    def __init__(self, template: SandboxedTemplate) -> None:
        self._template = template
        self._traits = TemplateTraits(template)
        self._thinking_switch = self._find_switch()
        self.missing = template.source == FALLBACK
        """True if the model brings none: it was trained to continue text, not to answer."""
        self.stop = FALLBACK_STOP if template.source == FALLBACK else ()
        """Stop strings that it needs: the fallback has no token that ends an answer."""

    @classmethod
    def open(cls, folder: Path) -> ChatTemplate:
        """Read the folder's template; without one, a plain "User: ... Assistant:" serves."""
        return cls(folder_template(folder))

    @classmethod
    def from_gguf(cls, metadata: Mapping[str, object], own: str | None = None) -> ChatTemplate:
        """The user's own template, else that in a GGUF file's metadata, else as for folders."""
        return cls(gguf_template(metadata, own))

    @property
    def caveat(self) -> str:
        """Return what the user should know of it, in words; empty if nothing."""
        if not self._template.stands_in:
            return ""
        return tr(
            "The model's chat template is damaged; a usual one takes its place. A file of the "
            "model's name that ends in .jinja, beside it, gives it another."
        )

    @property
    def source(self) -> str:
        """The template's text."""
        return self._template.source

    @property
    def can_think(self) -> bool:
        """Tell whether thinking can be switched on and off."""
        return self._thinking_switch is not None

    def _find_switch(self) -> str | None:
        """The variable that makes a difference to the prompt."""
        for name in _SWITCHES:
            try:
                question = [
                    {"role": "user", "content": text_parts("a") if self._traits.parts else "a"}
                ]
                on, off = (
                    self._template.render(question, add_generation_prompt=True, switches={name: on})
                    for on in (True, False)
                )
            except TemplateFailure:
                continue
            except UserFixable:  # it was stopped; asking it is told in words
                return None
            if on != off:
                return name
        return None

    def prompt(
        self,
        messages: Sequence[Message],
        tokenizer: Tokenizer,
        *,
        continue_answer: bool,
        choices: TemplateChoices | None = None,
    ) -> Prompt:
        """Return the prompt for the next answer.

        Args:
            messages: the conversation.
            tokenizer: of the model.
            continue_answer: whether the last message is an unfinished answer, which ends the
                prompt.
            choices: for templates that ask; an answer that began with a thought goes on as one.

        Raises:
            UserFixable: the template does not take the conversation; with its own words.
        """
        choices = choices or TemplateChoices()
        if not continue_answer:
            return self._opened(messages, tokenizer, choices)
        if not messages or messages[-1].role is not Role.ASSISTANT:
            raise ValueError("there is no answer to continue")
        answer = messages[-1]
        if answer.text.startswith(THINK):
            choices = replace(choices, thinking=True)
        fresh = self._opened(messages[:-1], tokenizer, choices)
        opening, begun = fresh.begun, answer_ids(answer, tokenizer)
        if not begun:
            return fresh
        opened = tokenizer.decode(opening)
        if begun[: len(opening)] != list(opening) and answer.text.startswith(opened):
            begun = [*opening, *tokenizer.encode_text(answer.text[len(opened) :])]
        before = fresh.ids[: len(fresh.ids) - len(opening)]
        own_opening = len(opening) if begun[: len(opening)] == list(opening) else 0
        return Prompt(before + begun, tuple(begun), own_opening)

    def _opened(
        self, messages: Sequence[Message], tokenizer: Tokenizer, choices: TemplateChoices
    ) -> Prompt:
        """The prompt for a new answer, `begun` by the template alone."""
        render = partial(self._template.render, switches=self._switches(choices), today=choices.day)
        objection: TemplateFailure | None = None
        tools = choices.tools if self._traits_offer(choices.tools) else ()
        messages = messages if tools else tools_in_words(messages, choices.tools)
        for turns in self._forms(messages):
            try:
                ids, opening = self._turn_ids(turns, tokenizer, render, tools)
            except TemplateFailure as failure:
                objection = objection or failure
                continue
            if turns and not ids:
                raise UserFixable(
                    tr("The model's chat template produces an empty prompt."),
                    tr("Choose another model, or a copy of this one from a source you trust."),
                )
            return Prompt(_one_bos(ids, tokenizer), opening, len(opening))
        raise UserFixable(
            tr("The model's chat template does not accept this conversation."),
            tr("Start a new conversation, or choose another model."),
            str(objection),
        ) from objection

    def _traits_offer(self, tools: Sequence[Tool]) -> bool:
        """Tell whether there are tools, and the template has a place for them."""
        return bool(tools) and self._traits.offers

    def _switches(self, choices: TemplateChoices) -> dict[str, object]:
        switches: dict[str, object] = {}
        if self._thinking_switch is not None and choices.thinking is not None:
            switches[self._thinking_switch] = choices.thinking
        if choices.effort is not None:
            switches[_EFFORT] = choices.effort
        return switches

    def _forms(self, messages: Sequence[Message]) -> Iterator[list[Message]]:
        """The conversation as it is, then in forms that more templates accept."""
        turns = one_system_text(messages)
        if any(turn.role is Role.TOOL or turn.calls for turn in turns):
            if self._traits.tools:
                yield self._with_system(turns)
            turns = tools_as_text(turns)
        yield self._with_system(turns)
        yield merged(self._with_system(turns))
        yield merged(self._with_system(user_first(turns)))

    def _with_system(self, turns: list[Message]) -> list[Message]:
        leads = bool(turns) and turns[0].role is Role.SYSTEM
        return system_as_user(turns) if leads and not self._traits.system else turns

    def _turn_ids(
        self,
        turns: Sequence[Message],
        tokenizer: Tokenizer,
        render: Callable[..., str],
        tools: Sequence[Tool],
    ) -> tuple[list[int], tuple[int, ...]]:
        """Render with a mark for each answer whose ids are known, and put the ids in there.

        An answer whose mark does not come out exactly once goes in as text instead. With the ids
        come those at their end that open a think block.
        """
        texts = [turn.text + "".join(call.arguments for call in turn.calls) for turn in turns]
        texts += [tool.description + tool.parameters for tool in tools]
        placeholders = Placeholders(tokenizer.control_tokens, [*texts, self._template.source])
        if tools:
            told = [described(tool, placeholders.hide_json) for tool in tools]
            render = partial(render, tools=told)
        marks: dict[str, Sequence[int]] = {}
        marked: list[dict[str, object]] = []
        plain: list[dict[str, object]] = []
        for turn in turns:
            answer = turn.role is Role.ASSISTANT
            text = said_in(turn.text) if answer and tokenizer.channels else turn.text
            hidden = placeholders.hide_answer(text) if answer else placeholders.hide(text)
            plain.append(self._as_asked(turn, hidden, placeholders))
            marked.append(plain[-1])
            if answer and (ids := self._own_ids(turn, tokenizer)):
                mark = placeholders.mark()
                marks[mark] = ids
                marked[-1] = self._as_asked(turn, mark, placeholders)
        text = render(marked, add_generation_prompt=True)
        lost = _not_once(marks, text)
        if lost:
            marked = [
                as_text if any(mark in str(as_mark["content"]) for mark in lost) else as_mark
                for as_mark, as_text in zip(marked, plain, strict=True)
            ]
            text = render(marked, add_generation_prompt=True)
            marks = {mark: ids for mark, ids in marks.items() if mark not in lost}
        if not marks and not _OPENED.search(text):
            return tokenizer.encode_rendered(text, restore=placeholders.restore), ()
        unprompted = render(marked, add_generation_prompt=False)
        header = text[len(unprompted) :] if text.startswith(unprompted) else None
        opened = _OPENED.search(header) if header else None
        opening = opened[0] if opened else ""
        if marks and header is not None:
            text = _as_prompted(text, header.removesuffix(opening), marks)
        # A mark that stands for nothing: what is behind it has ids of its own.
        cut, end = placeholders.mark(), len(text) - len(opening)
        marks[cut] = ()
        return (
            tokenizer.encode_rendered(
                text[:end] + cut + text[end:], restore=placeholders.restore, splices=marks
            ),
            tuple(tokenizer.encode_rendered(cut + opening, splices={cut: ()})),
        )

    def _own_ids(self, answer: Message, tokenizer: Tokenizer) -> Sequence[int]:
        """The ids with which a past answer goes in; none for one that goes in as text."""
        if not answer.token_ids or not _says(answer, tokenizer):
            return ()
        if tokenizer.channels:
            said = tokenizer.channels.said(answer.token_ids, tokenizer.token_bytes)
            return () if said is None else said
        thinks = THOUGHT in self._template.source and bool(parts(answer.text)[0])
        return () if thinks else answer.token_ids

    def _as_asked(
        self, turn: Message, content: str, placeholders: Placeholders
    ) -> dict[str, object]:
        """Return a message as the template wants it, with this content in place of its text."""
        message: dict[str, object] = {
            "role": turn.role.value,
            "content": text_parts(content) if self._traits.parts else content,
        }
        if turn.calls:
            message["tool_calls"] = [
                {
                    "id": call.id,
                    "type": "function",
                    "function": {
                        "name": placeholders.hide(call.name),
                        "arguments": placeholders.hide_json(arguments(call)),
                    },
                }
                for call in turn.calls
            ]
        if turn.role is Role.TOOL:
            message["tool_call_id"] = turn.call_id
        return message


def _as_prompted(text: str, header: str, marks: Mapping[str, Sequence[int]]) -> str:
    """Put before each marked answer the blanks that stood at the end of its own prompt.

    Templates like Llama 2's put a blank before past answers that the prompt did not have; the
    answer's ids already hold it. `header` is what the template puts before a new answer.
    """
    ending = header if header.strip() else text
    blanks = ending[len(ending.rstrip()) :]
    pieces = _any_of(marks).split(text)
    for index, before in enumerate(pieces[:-1]):
        if before.rstrip().endswith(header.rstrip()):
            pieces[index] = before.rstrip() + blanks
    return "".join(
        part
        for pair in zip(pieces, [*_any_of(marks).findall(text), ""], strict=True)
        for part in pair
    )


def answer_ids(answer: Message, tokenizer: Tokenizer) -> list[int]:
    """An answer's own ids, or those of its text when there are none that say it."""
    if answer.token_ids is not None and _says(answer, tokenizer):
        return list(answer.token_ids)
    if tokenizer.channels:
        return tokenizer.channels.tokens_of(answer.text, tokenizer.encode_text)
    return tokenizer.encode_text(answer.text)


def _says(answer: Message, tokenizer: Tokenizer) -> bool:
    """Return whether an answer's ids stand for its text, and not for another or earlier one.

    Half a character at the end need not be in the text: it is shown with its other half.
    """
    said, whole = tokenizer.decode_both(answer.token_ids or ())
    return answer.text in (said, whole)


def _any_of(marks: Iterable[str]) -> re.Pattern[str]:
    return re.compile(f"[{''.join(map(re.escape, marks))}]")


def _not_once(marks: Collection[str], text: str) -> set[str]:
    """The marks that do not occur exactly once."""
    if not marks:
        return set()
    seen = Counter(_any_of(marks).findall(text))
    return {mark for mark in marks if seen[mark] != 1}


def _one_bos(ids: list[int], tokenizer: Tokenizer) -> list[int]:
    """The begin-of-text id once, whether template, tokenizer or both put it there."""
    bos = tokenizer.bos_id
    if bos is None:
        return ids
    start = 0
    while start < len(ids) and ids[start] == bos:
        start += 1
    return [bos] * (start > 0 or tokenizer.adds_bos) + ids[start:]

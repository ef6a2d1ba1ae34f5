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
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path

from engine.errors import UserFixable
from engine.language import tr
from engine.model.text.shown_text import said_in
from engine.model.text.template_sandbox import SandboxedTemplate, TemplateFailure
from engine.model.text.template_source import (
    FALLBACK,
    FALLBACK_STOP,
    PROBE,
    folder_template,
    gguf_template,
)
from engine.model.text.tokenizer import Tokenizer, translated
from engine.request import Message, Role

THINK, THOUGHT = "<think>", "</think>"
_OPENED = re.compile(r"<think>\s*\Z")
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


class ChatTemplate:
    """A model's chat template.

    The ids of a conversation are a pure function of its messages. Answers that carry their ids
    are put in verbatim, so the prompt and answer of an earlier turn are a prefix of later ones.
    """

    def __init__(self, template: SandboxedTemplate) -> None:
        self._template = template
        self._knows_system: bool | None = None
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
    def from_gguf(cls, metadata: Mapping[str, object]) -> ChatTemplate:
        """The template in a GGUF file's metadata; without one, as for folders."""
        return cls(gguf_template(metadata))

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
        question = [{"role": "user", "content": "a"}]
        for name in _SWITCHES:
            try:
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
        thinking: bool | None = None,
    ) -> Prompt:
        """Return the prompt for the next answer.

        Args:
            messages: the conversation.
            tokenizer: of the model.
            continue_answer: whether the last message is an unfinished answer, which ends the
                prompt.
            thinking: for templates that leave the choice; an answer that began with a thought goes
                on as one.

        Raises:
            UserFixable: the template does not take the conversation; with its own words.
        """
        if not continue_answer:
            return self._opened(messages, tokenizer, thinking)
        if not messages or messages[-1].role is not Role.ASSISTANT:
            raise ValueError("there is no answer to continue")
        answer = messages[-1]
        fresh = self._opened(messages[:-1], tokenizer, answer.text.startswith(THINK) or thinking)
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
        self, messages: Sequence[Message], tokenizer: Tokenizer, thinking: bool | None
    ) -> Prompt:
        """The prompt for a new answer, `begun` by the template alone."""
        turns = self._fold_system(messages)
        switches = {}
        if self._thinking_switch is not None and thinking is not None:
            switches[self._thinking_switch] = thinking
        try:
            ids, opening = self._turn_ids(turns, tokenizer, switches)
        except TemplateFailure as failure:
            try:
                ids, opening = self._turn_ids(_merge(turns), tokenizer, switches)
            except TemplateFailure:
                raise UserFixable(
                    tr("The model's chat template does not accept this conversation."),
                    tr("Start a new conversation, or choose another model."),
                    str(failure),
                ) from failure
        if turns and not ids:
            raise UserFixable(
                tr("The model's chat template produces an empty prompt."),
                tr("Choose another model, or a copy of this one from a source you trust."),
            )
        return Prompt(_one_bos(ids, tokenizer), opening, len(opening))

    def _fold_system(self, messages: Sequence[Message]) -> list[Message]:
        """Put a leading system text before the first question if the template has no place."""
        if not messages or messages[0].role is not Role.SYSTEM or self._has_system_role():
            return list(messages)
        system, *turns = messages
        for index, turn in enumerate(turns):
            if turn.role is Role.USER:
                turns[index] = replace(turn, text=f"{system.text}\n\n{turn.text}")
                return turns
        return [replace(system, role=Role.USER), *turns]

    def _has_system_role(self) -> bool:
        """Return whether a system text appears in the rendered template."""
        if self._knows_system is None:
            turns = [{"role": "system", "content": PROBE}, {"role": "user", "content": "a"}]
            try:
                text = self._template.render(turns, add_generation_prompt=True)
                self._knows_system = PROBE in text
            except TemplateFailure:
                self._knows_system = False
        return self._knows_system

    def _turn_ids(
        self, turns: Sequence[Message], tokenizer: Tokenizer, switches: Mapping[str, bool]
    ) -> tuple[list[int], tuple[int, ...]]:
        """Render with a mark for each answer whose ids are known, and put the ids in there.

        An answer whose mark does not come out exactly once goes in as text instead. With the ids
        come those at their end that open a think block.
        """
        render = partial(self._template.render, switches=switches)
        texts = [turn.text for turn in turns]
        placeholders = Placeholders(tokenizer.control_tokens, [*texts, self._template.source])
        marks: dict[str, Sequence[int]] = {}
        marked: list[dict[str, str]] = []
        plain: list[dict[str, str]] = []
        for turn in turns:
            answer = turn.role is Role.ASSISTANT
            text = said_in(turn.text) if answer and tokenizer.channels else turn.text
            hidden = placeholders.hide_answer(text) if answer else placeholders.hide(text)
            plain.append({"role": turn.role.value, "content": hidden})
            marked.append(plain[-1])
            if answer and (ids := self._own_ids(turn, tokenizer)):
                mark = placeholders.mark()
                marks[mark] = ids
                marked[-1] = {"role": turn.role.value, "content": mark}
        text = render(marked, add_generation_prompt=True)
        lost = _not_once(marks, text)
        if lost:
            marked = [
                as_text if as_mark["content"] in lost else as_mark
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
        thought = THOUGHT in answer.text and THOUGHT in self._template.source
        return () if thought else answer.token_ids


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


def _merge(turns: Sequence[Message]) -> list[Message]:
    """One message per change of speaker; a system text later on is said by the user."""
    merged: list[Message] = []
    for index, original in enumerate(turns):
        late_system = index > 0 and original.role is Role.SYSTEM
        turn = replace(original, role=Role.USER) if late_system else original
        if merged and merged[-1].role is turn.role:
            text = f"{merged[-1].text}\n\n{turn.text}"
            merged[-1] = Message(turn.role, text)
        else:
            merged.append(turn)
    return merged


def _one_bos(ids: list[int], tokenizer: Tokenizer) -> list[int]:
    """The begin-of-text id once, whether template, tokenizer or both put it there."""
    bos = tokenizer.bos_id
    if bos is None:
        return ids
    start = 0
    while start < len(ids) and ids[start] == bos:
        start += 1
    return [bos] * (start > 0 or tokenizer.adds_bos) + ids[start:]


PRIVATE = range(0x10FFFD, 0xEFFFF, -1)  # the private-use planes, which no template writes
REASONING = re.compile(r"(</?think>)")
_PRIVATE = re.compile(f"[{chr(PRIVATE[-1])}-{chr(PRIVATE[0])}]")


class Placeholders:
    """One-to-one placeholders for the characters at which control tokens begin and end.

    With them replaced inside messages, no control token in a rendered text can begin or end in
    a message. Lengths stay as they are, so templates that cut or measure texts work as usual.

    Args:
        control_tokens: texts of the control tokens.
        texts: in which the private-use characters that serve as placeholders do not occur.
    """

    __slots__ = ("_free", "_hide", "restore")

    def __init__(self, control_tokens: Collection[str], texts: Iterable[str]) -> None:
        used = {character for text in texts for character in _PRIVATE.findall(text)}
        self._free: Iterator[str] = (chr(code) for code in PRIVATE if chr(code) not in used)
        edges = sorted({token[edge] for token in control_tokens if token for edge in (0, -1)})
        placeholders = {
            character: next(self._free) for character in edges if not character.isspace()
        }
        self._hide = str.maketrans(placeholders)
        self.restore = {ord(mark): character for character, mark in placeholders.items()}

    def hide(self, text: str) -> str:
        """Return a message's text with its placeholders."""
        return translated(text, self._hide)

    def hide_answer(self, text: str) -> str:
        """Return an answer's text with its placeholders, but `<think>` tags as they are.

        Templates look for them in answers.
        """
        parts = REASONING.split(text)
        return "".join(part if index % 2 else self.hide(part) for index, part in enumerate(parts))

    def mark(self) -> str:
        """Return a fresh placeholder, to stand for something else."""
        return next(self._free)

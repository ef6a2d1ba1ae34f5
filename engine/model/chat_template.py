"""Conversations to token ids, through the model's own chat template."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Collection, Iterable, Sequence
from dataclasses import replace
from pathlib import Path

from engine.errors import UserFixable
from engine.model.disguise import Disguise
from engine.model.template_sandbox import SandboxedTemplate, TemplateFailure
from engine.model.template_source import FALLBACK_STOP, read_template, template_text
from engine.model.tokenizer import PROBE, Tokenizer
from engine.request import Message, Role


class ChatTemplate:
    """A model's chat template; `stop` are stop strings it needs (the fallback has no end token).

    The ids of a conversation are a pure function of its messages. Answers that carry their ids
    are put in verbatim, so the prompt and answer of an earlier turn are a prefix of later ones.
    """

    def __init__(self, template: SandboxedTemplate, stop: tuple[str, ...] = ()) -> None:
        self._template = template
        self._knows_system: bool | None = None
        self.stop = stop

    @classmethod
    def open(cls, folder: Path) -> ChatTemplate:
        """Read the folder's template; without one, a plain "User: ... Assistant:" serves."""
        return cls(read_template(folder), FALLBACK_STOP if template_text(folder) is None else ())

    def render_ids(
        self, messages: Sequence[Message], tokenizer: Tokenizer, *, continue_answer: bool
    ) -> list[int]:
        """Ids of the prompt for the next answer.

        With `continue_answer` the last message is an unfinished answer and ends the prompt.
        Raises `UserFixable`, with the template's own words, for a conversation it does not take.
        """
        if not continue_answer:
            return self._prompt_ids(messages, tokenizer)
        if not messages or messages[-1].role is not Role.ASSISTANT:
            raise ValueError("there is no answer to continue")
        begun = messages[-1]
        return self._prompt_ids(messages[:-1], tokenizer) + answer_ids(begun, tokenizer)

    def _prompt_ids(self, messages: Sequence[Message], tokenizer: Tokenizer) -> list[int]:
        turns = self._fold_system(messages)
        try:
            ids = self._turn_ids(turns, tokenizer)
        except TemplateFailure as failure:
            try:
                ids = self._turn_ids(_merge(turns), tokenizer)
            except TemplateFailure:
                raise UserFixable(
                    "The model's chat template does not accept this conversation.",
                    "Start a new conversation, or choose another model.",
                    str(failure),
                ) from failure
        return _one_bos(ids, tokenizer)

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
        """Whether a system text comes out at the other end of the template."""
        if self._knows_system is None:
            turns = [{"role": "system", "content": PROBE}, {"role": "user", "content": "a"}]
            try:
                text = self._template.render(turns, add_generation_prompt=True)
                self._knows_system = PROBE in text
            except TemplateFailure:
                self._knows_system = False
        return self._knows_system

    def _turn_ids(self, turns: Sequence[Message], tokenizer: Tokenizer) -> list[int]:
        """Render with a mark for each answer whose ids are known, and put the ids in there.

        An answer whose mark does not come out exactly once goes in as text instead.
        """
        texts = [turn.text for turn in turns]
        disguise = Disguise(tokenizer.control_tokens, [*texts, self._template.source])
        marks: dict[str, Sequence[int]] = {}
        marked: list[dict[str, str]] = []
        plain: list[dict[str, str]] = []
        for turn in turns:
            answer = turn.role is Role.ASSISTANT
            hidden = disguise.hide_answer(turn.text) if answer else disguise.hide(turn.text)
            plain.append({"role": turn.role.value, "content": hidden})
            marked.append(plain[-1])
            if answer and turn.token_ids and _says(turn, tokenizer):
                mark = disguise.mark()
                marks[mark] = turn.token_ids
                marked[-1] = {"role": turn.role.value, "content": mark}
        text = self._template.render(marked, add_generation_prompt=True)
        lost = _not_once(marks, text)
        if lost:
            marked = [
                as_text if as_mark["content"] in lost else as_mark
                for as_mark, as_text in zip(marked, plain, strict=True)
            ]
            text = self._template.render(marked, add_generation_prompt=True)
            marks = {mark: ids for mark, ids in marks.items() if mark not in lost}
        if marks:
            text = self._as_prompted(text, marked, marks)
        return tokenizer.encode_rendered(text, restore=disguise.restore, splices=marks)

    def _as_prompted(
        self, text: str, turns: Sequence[dict[str, str]], marks: dict[str, Sequence[int]]
    ) -> str:
        """Before each marked answer, the blanks that stood at the end of its own prompt.

        Templates like Llama 2's put a blank before past answers that the prompt did not have;
        the answer's ids already hold it.
        """
        without = self._template.render(turns, add_generation_prompt=False)
        if not text.startswith(without):
            return text
        opening = text[len(without) :]
        ending = opening if opening.strip() else text
        blanks = ending[len(ending.rstrip()) :]
        pieces = _any_of(marks).split(text)
        for index, before in enumerate(pieces[:-1]):
            if before.rstrip().endswith(opening.rstrip()):
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
    return tokenizer.encode_text(answer.text)


def _says(answer: Message, tokenizer: Tokenizer) -> bool:
    """Whether the ids are the text's: those of another model, or of a text edited since, lie."""
    return tokenizer.decode(answer.token_ids or ()) == answer.text


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

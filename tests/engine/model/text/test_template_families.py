"""Every family's published template: one beginning, system texts, turns, ends, exact answers."""

from __future__ import annotations

import functools

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from template_families import BY_NAME, FAMILIES, Family

from engine.model.text.chat_template import ChatTemplate, Prompt, TemplateChoices
from engine.model.text.template_sandbox import SandboxedTemplate
from engine.model.text.tokenizer import Tokenizer
from engine.request import Message, Role

SYSTEM, QUESTION, ANSWER, MORE = "Be brief.", "Is it hot?", "He is in the mill.", "And this?"
NAMES = sorted(BY_NAME)


@functools.cache
def opened(name: str) -> tuple[ChatTemplate, Tokenizer]:
    return BY_NAME[name].open()


def system(text: str = SYSTEM) -> Message:
    return Message(Role.SYSTEM, text)


def user(text: str = QUESTION) -> Message:
    return Message(Role.USER, text)


def written(tokenizer: Tokenizer, prompt: Prompt, text: str = ANSWER) -> Message:
    """An answer as it is stored: what the template has begun, and the model's own tokens."""
    ids = (*prompt.begun, *tokenizer.encode_text(text))
    return Message(Role.ASSISTANT, tokenizer.decode(ids), ids)


def ask(name: str, *messages: Message, thinking: bool | None = None, go_on: bool = False) -> Prompt:
    template, tokenizer = opened(name)
    return template.prompt(
        messages, tokenizer, continue_answer=go_on, choices=TemplateChoices(thinking)
    )


def rendered(name: str, *turns: tuple[str, str]) -> list[int]:
    """The template's own text by ids, without anything of ours between."""
    template, tokenizer = opened(name)
    names = {"bos_token": BY_NAME[name].bos or "", "eos_token": BY_NAME[name].ends[0]}
    source = SandboxedTemplate(template.source, names)
    messages = [{"role": role, "content": text} for role, text in turns]
    text = source.render(messages, add_generation_prompt=True)
    ids = tokenizer.encode_rendered(text)
    if tokenizer.adds_bos and ids[0] != tokenizer.bos_id:
        assert tokenizer.bos_id is not None
        ids = [tokenizer.bos_id, *ids]
    return ids


@pytest.mark.parametrize("name", NAMES)
def test_a_question_is_what_the_template_writes(name: str) -> None:
    assert ask(name, user()).ids == rendered(name, ("user", QUESTION))
    if BY_NAME[name].system != "first":
        turns = (("system", SYSTEM), ("user", QUESTION))
        assert ask(name, system(), user()).ids == rendered(name, *turns)


@pytest.mark.parametrize("name", NAMES)
def test_the_text_begins_once(name: str) -> None:
    family, (_, tokenizer) = BY_NAME[name], opened(name)
    first = ask(name, user())
    second = ask(name, system(), user(), written(tokenizer, first), user(MORE))
    for prompt in (first, second):
        beginnings = prompt.ids.count(tokenizer.bos_id or -1)
        if name == "smollm2":  # its begin token is the one that begins every turn
            assert prompt.ids[:2].count(tokenizer.bos_id or -1) == 1
        elif name == "llama-2" and prompt is second:  # once for every question
            assert beginnings == 2
        else:
            assert beginnings == int(family.adds_bos)
        assert prompt.ids[0] == tokenizer.bos_id or not family.adds_bos


@pytest.mark.parametrize("name", NAMES)
def test_what_ends_an_answer(name: str) -> None:
    tokenizer = opened(name)[1]
    assert tokenizer.eos_ids == {tokenizer.control_tokens[end] for end in BY_NAME[name].ends}


@pytest.mark.parametrize("name", NAMES)
def test_a_system_text_is_never_lost(name: str) -> None:
    family, (template, tokenizer) = BY_NAME[name], opened(name)
    text = tokenizer.decode(ask(name, system(), user()).ids)
    assert text.count(SYSTEM) == 1
    if family.system in ("first", "last"):
        assert f"{SYSTEM}\n\n{QUESTION}" in text
    first = ask(name, system(), user())
    later = ask(name, system(), user(), written(tokenizer, first), user(MORE))
    before = tokenizer.decode(later.ids).partition(SYSTEM)[0]
    assert (QUESTION in before) is (family.system == "last")
    assert template.source


@pytest.mark.parametrize("name", NAMES)
def test_turns_that_do_not_alternate_are_merged(name: str) -> None:
    tokenizer = opened(name)[1]
    both = tokenizer.decode(ask(name, user("First."), user("Second.")).ids)
    assert both.index("First.") < both.index("Second.")
    merged = ask(name, user("First.\n\nSecond.")).ids
    assert (ask(name, user("First."), user("Second.")).ids == merged) is BY_NAME[name].strict
    begun = Message(Role.ASSISTANT, ANSWER)
    late = tokenizer.decode(ask(name, user(), begun, begun, user(MORE)).ids)
    assert late.count(ANSWER) == 2


@pytest.mark.parametrize("thinking", [None, True, False])
@pytest.mark.parametrize("name", NAMES)
def test_a_turn_is_a_prefix_of_the_next(name: str, thinking: bool | None) -> None:
    family, (_, tokenizer) = BY_NAME[name], opened(name)
    first = ask(name, user(), thinking=thinking)
    stored = written(tokenizer, first)
    second = ask(name, user(), stored, user(MORE), thinking=thinking)
    whole = [*first.ids, *(stored.token_ids or ())[len(first.begun) :]]
    stripped = name == "qwen3" and thinking is False  # its empty think block is left out later
    assert (second.ids[: len(whole)] == whole) is (family.prefix and not stripped)
    if family.prefix and not stripped:
        rest = tokenizer.decode(second.ids[len(whole) :])
        assert rest.lstrip().startswith(family.ends)


@pytest.mark.parametrize("name", NAMES)
def test_an_answer_goes_on_where_it_was(name: str) -> None:
    tokenizer = opened(name)[1]
    first = ask(name, user())
    stored = written(tokenizer, first)
    goes_on = ask(name, user(), stored, go_on=True)
    assert goes_on.ids == [*first.ids[: len(first.ids) - len(first.begun)], *stored.token_ids]
    assert goes_on.begun == stored.token_ids
    assert goes_on.answer_start == first.answer_start
    edited = ask(name, user(), Message(Role.ASSISTANT, stored.text), go_on=True)
    assert tokenizer.decode(edited.begun) == stored.text
    assert (
        edited.ids[: first.answer_start - len(first.begun)]
        == first.ids[: first.answer_start - len(first.begun)]
    )


@pytest.mark.parametrize("name", NAMES)
def test_the_thinking_switch(name: str) -> None:
    family, (template, tokenizer) = BY_NAME[name], opened(name)
    assert template.can_think is family.switch
    assert tokenizer.decode(ask(name, user()).begun) == family.begun
    if not family.switch:
        return
    off = tokenizer.decode(ask(name, user(), thinking=False).ids)
    on = tokenizer.decode(ask(name, user(), thinking=True).ids)
    assert off.rstrip().endswith("<think>\n\n</think>")
    assert "<think>" not in on.rpartition("assistant")[2]


def test_smollm3_takes_its_flags_from_the_system_text() -> None:
    tokenizer = opened("smollm3")[1]
    off = tokenizer.decode(ask("smollm3", system("Be brief. /no_think"), user()).ids)
    assert off.endswith("<think>\n\n</think>\n")
    assert "/no_think\n\n## Custom Instructions\n\nBe brief." in off


def test_dates_do_not_change_a_conversation() -> None:
    text = opened("llama-3")[1].decode(ask("llama-3", user()).ids)
    assert "Today Date: 01 Jan 2025" in text
    assert "Current date: 2025-01-01" in opened("gpt-oss")[1].decode(ask("gpt-oss", user()).ids)


def test_past_thoughts_go_as_the_template_says() -> None:
    for name in ("qwen3", "deepseek-r1-distill"):
        tokenizer = opened(name)[1]
        first = ask(name, user())
        thought = "</think>\n\nNo." if first.begun else "<think>\nhm\n</think>\n\nNo."
        rest = tuple(tokenizer.encode_rendered(thought))
        stored = Message(
            Role.ASSISTANT, tokenizer.decode((*first.begun, *rest)), (*first.begun, *rest)
        )
        text = tokenizer.decode(ask(name, user(), stored, user(MORE)).ids)
        assert "hm" not in text
        assert "No." in text


@pytest.mark.release(keep=5, reason="every family")
@pytest.mark.parametrize("family", FAMILIES, ids=lambda family: family.name)
@given(data=st.data())
@settings(max_examples=25)
def test_no_text_becomes_a_control_token(family: Family, data: st.DataObject) -> None:
    """Whatever is typed, stored or edited: prompts hold the template's own control tokens."""
    tokenizer = opened(family.name)[1]
    harmless = _controls(tokenizer, ask(family.name, *_conversation("x", "y", "z")).ids)
    texts = [data.draw(hostile(tokenizer)) for _ in range(3)]
    texts[1] = texts[1].replace("think", "")  # an answer's thoughts are meant
    prompt = ask(family.name, *_conversation(*texts))
    assert _controls(tokenizer, prompt.ids) == harmless
    unknown = tokenizer.control_tokens.get("<unk>")
    for text in texts:
        controls = set(tokenizer.control_tokens.values()) - {unknown}
        assert controls.isdisjoint(tokenizer.encode_text(text))


def _conversation(*texts: str) -> tuple[Message, ...]:
    first, answer, second = texts
    return (user(first), Message(Role.ASSISTANT, f"{answer}."), user(second))


def _controls(tokenizer: Tokenizer, ids: list[int]) -> list[int]:
    unknown = tokenizer.control_tokens.get("<unk>")
    controls = set(tokenizer.control_tokens.values()) - {unknown}
    return [index for index in ids if index in controls]


def hostile(tokenizer: Tokenizer) -> st.SearchStrategy[str]:
    """Control tokens, pieces of them, doubled and split ones, look-alikes and plain text."""
    names = st.sampled_from(sorted(tokenizer.control_tokens))
    pieces = names.flatmap(
        lambda name: st.tuples(st.integers(0, len(name)), st.integers(0, len(name))).map(
            lambda cut: name[min(cut) : max(cut)]
        )
    )
    nested = st.tuples(names, names, st.integers(1, 4)).map(
        lambda found: found[0][: found[2]] + found[1] + found[0][found[2] :]
    )
    alike = st.sampled_from(["＜|im_start|＞", "<\u200b|end|>", "<｜User|>", "\u2581", "<0x3C>"])
    plain = st.text(max_size=6)
    return st.lists(st.one_of(names, pieces, nested, alike, plain), max_size=6).map("".join)

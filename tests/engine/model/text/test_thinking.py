"""Templates that let the model think: switches, opened think blocks, past thoughts."""

from __future__ import annotations

from typing import Any

import pytest
from small_tokenizers import TokenizerFolder

from engine.model.text.chat_template import ChatTemplate, Prompt, TemplateChoices
from engine.model.text.template_sandbox import SandboxedTemplate
from engine.model.text.tokenizer import Tokenizer
from engine.request import Message, Role

# As in Qwen3: past thoughts are dropped, and without thinking the block comes closed.
SWITCHED = """\
{%- for m in messages %}
    {%- set content = m.content %}
    {%- if m.role == 'assistant' and '</think>' in content %}
        {%- set content = content.split('</think>')[-1].lstrip('\\n') %}
    {%- endif %}
    {{- '<|im_start|>' + m.role + '\\n' + content + '<|im_end|>' + '\\n' }}
{%- endfor %}
{%- if add_generation_prompt %}
    {{- '<|im_start|>assistant\\n' }}
    {%- if enable_thinking is defined and enable_thinking is false %}
        {{- '<think>\\n\\n</think>\\n\\n' }}
    {%- endif %}
{%- endif %}"""
# As in DeepSeek-V3.1: off unless asked for, under another name, opened by the template.
ASKED = SWITCHED.replace(
    "{%- if enable_thinking is defined and enable_thinking is false %}",
    "{%- if not thinking is defined %}{%- set thinking = false %}{%- endif %}"
    "{%- if thinking %}{{- '<think>\\n' }}{%- else %}",
)
# As in DeepSeek-R1 and QwQ: always, opened by the template, no switch.
ALWAYS = SWITCHED.replace(
    "{%- if enable_thinking is defined and enable_thinking is false %}",
    "{{- '<think>\\n' }}{%- if false %}",
)
NAIVE = ALWAYS.replace("'</think>' in content", "false").replace("split('</think>')", "split('x')")
NAIVE = NAIVE.replace("\\n</think>", "")

Pair = tuple[ChatTemplate, Tokenizer]


@pytest.fixture
def pair(tokenizer_folder: TokenizerFolder, request: pytest.FixtureRequest) -> Pair:
    folder = tokenizer_folder("byte_level", settings={"chat_template": request.param})
    return ChatTemplate.open(folder), Tokenizer.open(folder)


def user(text: str) -> Message:
    return Message(Role.USER, text)


def answer(text: str, ids: list[int] | None = None) -> Message:
    return Message(Role.ASSISTANT, text, None if ids is None else tuple(ids))


def ask(
    pair: Pair, *messages: Message, thinking: bool | None = None, go_on: bool = False
) -> Prompt:
    return pair[0].prompt(
        messages, pair[1], continue_answer=go_on, choices=TemplateChoices(thinking)
    )


def text_of(pair: Pair, prompt: Prompt) -> str:
    return pair[1].decode(prompt.ids)


@pytest.mark.parametrize(
    ("pair", "can_think"),
    [(SWITCHED, True), (ASKED, True), (ALWAYS, False), ("{{ messages[0].content }}", False)],
    indirect=["pair"],
)
def test_the_switch_is_found(pair: Pair, can_think: bool) -> None:
    assert pair[0].can_think is can_think


def test_a_template_that_never_ends_is_asked_once(
    tokenizer_folder: TokenizerFolder, monkeypatch: pytest.MonkeyPatch
) -> None:
    rendered: list[object] = []
    honest = SandboxedTemplate.render

    def counted(self: SandboxedTemplate, *messages: Any, **wishes: Any) -> str:
        rendered.append(wishes)
        return honest(self, *messages, **wishes)

    monkeypatch.setattr(SandboxedTemplate, "render", counted)
    endless = "{% for i in range(100000) %}{{ 'x' * 1000 }}{% endfor %}"
    folder = tokenizer_folder("byte_level", settings={"chat_template": endless})
    assert not ChatTemplate.open(folder).can_think
    assert len(rendered) == 1


@pytest.mark.parametrize("pair", [SWITCHED], indirect=True)
def test_thinking_is_switched_off_as_the_template_says(pair: Pair) -> None:
    off = ask(pair, user("a"), thinking=False)
    assert text_of(pair, off).endswith("assistant\n<think>\n\n</think>\n\n")
    assert off.begun == ()  # nothing the reader should see
    on = ask(pair, user("a"), thinking=True)
    assert on == ask(pair, user("a")) != off
    assert text_of(pair, on).endswith("assistant\n")


@pytest.mark.parametrize("pair", [ASKED], indirect=True)
def test_the_other_name_of_the_switch(pair: Pair) -> None:
    on, off = ask(pair, user("a"), thinking=True), ask(pair, user("a"), thinking=False)
    assert pair[1].decode(on.begun) == "<think>\n"
    assert (off.begun, off) == ((), ask(pair, user("a")))


@pytest.mark.parametrize("pair", [ALWAYS, NAIVE], indirect=True)
def test_an_opened_block_belongs_to_the_answer(pair: Pair) -> None:
    fresh = ask(pair, user("a"))
    assert tuple(fresh.ids[-len(fresh.begun) :]) == fresh.begun
    assert fresh.begun[0] == pair[1].control_tokens["<think>"]
    assert pair[1].decode(fresh.begun) == "<think>\n"
    assert fresh.answer_start == len(fresh.ids)


@pytest.mark.parametrize("pair", [ALWAYS, NAIVE], indirect=True)
@pytest.mark.parametrize("written", ["", "hello", "hello</think>\n\nthe dog"])
def test_an_answer_in_an_opened_block_goes_on_where_it_was(pair: Pair, written: str) -> None:
    fresh = ask(pair, user("a"))
    own = pair[1].encode_rendered(written)
    ids = [*fresh.begun, *own]
    stored = answer(pair[1].decode(ids), ids)
    going_on = ask(pair, user("a"), stored, go_on=True)
    assert going_on.ids == fresh.ids + own
    assert going_on.begun == tuple(ids)
    assert going_on.answer_start == fresh.answer_start  # penalties count from the same place
    # From the text alone too: the block is opened by its token.
    if "</think>" not in written:
        assert ask(pair, user("a"), answer(stored.text), go_on=True).ids[: len(fresh.ids)] == (
            fresh.ids
        )


@pytest.mark.parametrize("pair", [ALWAYS], indirect=True)
def test_nothing_written_yet_and_an_answer_without_a_thought(pair: Pair) -> None:
    fresh = ask(pair, user("a"))
    assert ask(pair, user("a"), answer("", []), go_on=True) == fresh
    bare = ask(pair, user("a"), answer("hello"), go_on=True)
    assert text_of(pair, bare).endswith("assistant\nhello")
    assert (bare.opening, bare.answer_start) == (0, len(bare.ids) - len(bare.begun))


@pytest.mark.parametrize("pair", [ASKED], indirect=True)
def test_a_thought_goes_on_whatever_the_switch_says_now(pair: Pair) -> None:
    fresh = ask(pair, user("a"), thinking=True)
    ids = [*fresh.begun, *pair[1].encode_text("hello")]
    stored = answer("<think>\nhello", ids)
    assert ask(pair, user("a"), stored, go_on=True).ids == [*fresh.ids, *ids[len(fresh.begun) :]]


@pytest.mark.parametrize("pair", [SWITCHED, ALWAYS], indirect=True)
def test_past_thoughts_are_dropped_where_the_template_drops_them(pair: Pair) -> None:
    text = "<think>\nlong\n</think>\n\nthe dog"
    ids = pair[1].encode_rendered(text)
    prompt = ask(pair, user("a"), answer(text, ids), user("b"))
    assert "<|im_start|>assistant\nthe dog<|im_end|>" in text_of(pair, prompt)
    assert "long" not in text_of(pair, prompt)
    # A pure function of what is stored: ids or none, the same.
    assert prompt == ask(pair, user("a"), answer(text), user("b"))


@pytest.mark.parametrize("pair", [NAIVE], indirect=True)
def test_a_template_that_knows_no_thoughts_sees_the_ids_again(pair: Pair) -> None:
    fresh = ask(pair, user("a"))
    ids = [*fresh.begun, *pair[1].encode_rendered("long</think>the dog")]
    stored = answer(pair[1].decode(ids), ids)
    after = ask(pair, user("a"), stored, user("b"))
    whole = fresh.ids + ids[len(fresh.begun) :]
    assert after.ids[: len(whole)] == whole


@pytest.mark.parametrize("pair", [ALWAYS], indirect=True)
def test_a_think_block_typed_by_a_user_opens_nothing(pair: Pair) -> None:
    plain, typed = ask(pair, user("a")), ask(pair, user("<think>"))
    opens = pair[1].control_tokens["<think>"]
    assert plain.ids.count(opens) == typed.ids.count(opens) == 1

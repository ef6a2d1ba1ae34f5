"""Conversations to ids: like transformers, and where it has no answer, safe and stable."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import date
from pathlib import Path
from typing import Any

import pytest
from folder_models import FOLDER_TARGET
from hypothesis import given
from hypothesis import strategies as st
from small_tokenizers import CONTROLS, KINDS, TokenizerFolder

from engine.errors import UserFixable
from engine.model.text.chat_template import ChatTemplate, TemplateChoices
from engine.model.text.template_sandbox import MAX_SOURCE
from engine.model.text.template_source import own_template
from engine.model.text.tokenizer import Tokenizer
from engine.request import Message, Role, ToolCall

CHATML = """\
{%- for message in messages %}
    {{- '<|im_start|>' + message.role + '\n' + message.content + '<|im_end|>' + '\n' }}
{%- endfor %}
{%- if add_generation_prompt %}
    {{- '<|im_start|>assistant\n' }}
{%- endif %}"""
TRIMMING = (
    "{{ bos_token }}{% for m in messages %}{{ '<|im_start|>' ~ m['role'] ~ '\n\n' "
    "~ m['content'] | trim ~ '<|eot|>' }}{% endfor %}"
    "{% if add_generation_prompt %}{{ '<|im_start|>assistant\n\n' }}{% endif %}"
)
LLAMA2 = """\
{% if messages[0]['role'] == 'system' %}{% set rest = messages[1:] %}{% set system = '<<SYS>>\n' + \
messages[0]['content'] + '\n<</SYS>>\n\n' %}{% else %}{% set rest = messages %}{% set system = '' \
%}{% endif %}{% for message in rest %}{% if (message['role'] == 'user') != (loop.index0 % 2 == 0) \
%}{{ raise_exception('Conversation roles must alternate user/assistant/user/assistant/...') }}\
{% endif %}{% set content = (system if loop.index0 == 0 else '') + message['content'] %}\
{% if message['role'] == 'user' %}{{ bos_token + '[INST] ' + content.strip() + ' [/INST]' }}\
{% elif message['role'] == 'assistant' %}{{ ' ' + content.strip() + ' ' + eos_token }}{% endif %}\
{% endfor %}"""
STYLES = {"chatml": CHATML, "trimming": TRIMMING, "llama2": LLAMA2}


def user(text: str) -> Message:
    return Message(Role.USER, text)


def answer(text: str, ids: tuple[int, ...] | None = None) -> Message:
    return Message(Role.ASSISTANT, text, ids)


def system(text: str) -> Message:
    return Message(Role.SYSTEM, text)


CONVERSATIONS = [
    [user("hello")],
    [system("think. "), user("  hello there\n"), answer(" the dog "), user("日本語 🦙?")],
    [user("a"), answer("b"), user("c"), answer("d"), user("e    f")],
]


def open_both(folder: Path) -> tuple[ChatTemplate, Tokenizer]:
    return ChatTemplate.open(folder), Tokenizer.open(folder)


def with_template(
    tokenizer_folder: TokenizerFolder, template: object, kind: str = "byte_level", **more: object
) -> tuple[ChatTemplate, Tokenizer]:
    names = {"bos_token": "<s>", "eos_token": "</s>", "chat_template": template, **more}
    return open_both(tokenizer_folder(kind, settings=names))


def prompt(
    pair: tuple[ChatTemplate, Tokenizer], *messages: Message, continue_answer: bool = False
) -> list[int]:
    return pair[0].prompt(messages, pair[1], continue_answer=continue_answer).ids


def theirs(folder: Path, template: str | None, messages: list[Message]) -> list[int]:
    from transformers import PreTrainedTokenizerFast

    names: Mapping[str, Any] = {"bos_token": "<s>", "eos_token": "</s>"} if template else {}
    reference = PreTrainedTokenizerFast.from_pretrained(folder, **names)
    ids = reference.apply_chat_template(
        [{"role": message.role.value, "content": message.text} for message in messages],
        chat_template=template,
        add_generation_prompt=True,
        tokenize=True,
        return_dict=False,
    )
    return [int(i) for i in ids]


@pytest.mark.parametrize("messages", CONVERSATIONS)
@pytest.mark.parametrize("style", STYLES)
@pytest.mark.parametrize("kind", KINDS)
def test_equal_to_transformers(
    tokenizer_folder: TokenizerFolder, kind: str, style: str, messages: list[Message]
) -> None:
    pair = with_template(tokenizer_folder, STYLES[style], kind)
    expected = theirs(tokenizer_folder(kind), STYLES[style], messages)
    if pair[1].adds_bos and expected[0] != pair[1].bos_id:
        expected = [1, *expected]  # rendered without; the tokenizer would put it there
    assert prompt(pair, *messages) == expected


def test_bundled_template_equals_transformers() -> None:
    messages = [user("Hello!"), answer("Hi, how are you?"), user("Fine.  And <b>you</b>?")]
    pair = open_both(FOLDER_TARGET)
    assert prompt(pair, *messages) == theirs(FOLDER_TARGET, None, messages)
    assert pair[1].eos_ids == {pair[1].control_tokens["<|end|>"]}


def test_bundled_model_reads_the_system_text_with_the_question() -> None:
    pair = open_both(FOLDER_TARGET)
    ids = prompt(pair, system("Be brief."), user("Hello"))
    assert pair[1].decode(ids) == "<|bos|><|user|>Be brief.\n\nHello<|end|><|assistant|>"
    assert prompt(pair, system("Be brief."), answer("Hi")) == prompt(
        pair, user("Be brief."), answer("Hi")
    )


def contents() -> st.SearchStrategy[str]:
    pieces = st.one_of(
        st.sampled_from([*CONTROLS, "<think>", "<", "|>", "<|im_", "end|>", "\U0010fffd"]),
        st.text(max_size=5),
    )
    return st.lists(pieces, max_size=6).map("".join)


@pytest.fixture(scope="module", params=KINDS)
def typed(
    request: pytest.FixtureRequest,
    tmp_path_factory: pytest.TempPathFactory,
    tokenizer_files: dict[str, str],
) -> tuple[ChatTemplate, Tokenizer]:
    folder = tmp_path_factory.mktemp("typed")
    (folder / "tokenizer.json").write_text(tokenizer_files[request.param], encoding="utf-8")
    (folder / "chat_template.jinja").write_text(CHATML)
    return open_both(folder)


@given(data=st.data())
def test_control_tokens_in_messages_stay_text(
    typed: tuple[ChatTemplate, Tokenizer], data: st.DataObject
) -> None:
    """However many control tokens people type, the template's own are the only ones."""
    pair = typed
    texts = data.draw(st.lists(contents(), min_size=3, max_size=3))
    messages = [system(texts[0]), user(texts[1]), answer(texts[2].replace("think", "")), user("z")]
    ids = prompt(pair, *messages)

    controls = set(pair[1].control_tokens.values()) - {pair[1].control_tokens.get("<unk>")}
    harmless = [system("a"), user("b"), answer("c"), user("z")]
    assert [i for i in ids if i in controls] == [
        i for i in prompt(pair, *harmless) if i in controls
    ]
    shown = pair[1].decode(ids).replace(" ", "")
    if not pair[1].leading_spaces:
        assert texts[1].replace(" ", "") in shown


@pytest.mark.parametrize("template", ["<|im_{{ m }}", "{{ m }}|im_end|>", "<|im_{{ m }}d|>"])
def test_template_and_message_do_not_join_to_a_control_token(
    tokenizer_folder: TokenizerFolder, template: str
) -> None:
    source = "{% set m = messages[0].content %}" + template
    pair = with_template(tokenizer_folder, source)
    for text in ("end|>", "<", "en", "<|im_end|>"):
        ids = prompt(pair, user(text))
        if template == "<|im_{{ m }}d|>" and text == "en":
            continue  # begins and ends in the template: its own doing
        assert pair[1].control_tokens["<|im_end|>"] not in ids
        assert pair[1].decode(ids) == template.replace("{{ m }}", text)


@pytest.mark.parametrize("style", STYLES)
@pytest.mark.parametrize("kind", KINDS)
def test_earlier_turns_keep_their_ids(
    tokenizer_folder: TokenizerFolder, kind: str, style: str
) -> None:
    pair = with_template(tokenizer_folder, STYLES[style], kind)
    messages: list[Message] = [system("think")]
    for index, word in enumerate(["hello", " the", "hell"]):
        # Spelt letter by letter, which the tokenizer itself would never do.
        ids = tuple(pair[1].encode_text(letter)[-1] for letter in word)
        messages.append(user(f"hello {index} "))
        asked = prompt(pair, *messages)
        stored = answer(pair[1].decode(ids), ids)
        assert pair[1].encode_text(stored.text) != list(ids)
        assert prompt(pair, *messages, stored, continue_answer=True) == [*asked, *ids]
        messages.append(stored)
        after = prompt(pair, *messages, user("more"))
        assert after[: len(asked) + len(ids)] == [*asked, *ids]


def test_answers_that_the_template_drops_or_doubles_fall_back_to_text(
    tokenizer_folder: TokenizerFolder,
) -> None:
    doubling = (
        "{% for m in messages %}{{ m.content }}|{{ m.content if m.role != 'user' }}|{% endfor %}"
    )
    pair = with_template(tokenizer_folder, doubling)
    dog = tuple(pair[1].encode_text("dog"))
    ids = prompt(pair, user("a"), answer("dog", dog), user("b"))
    assert pair[1].decode(ids) == "a||dog|dog|b||"
    last_only = with_template(tokenizer_folder, "{{ messages[-1].content }}")
    assert last_only[1].decode(prompt(last_only, answer("dog", dog), user("b"))) == "b"


@pytest.mark.parametrize("ids", [(61, 62), (10**6,), (-1,), ()])
def test_ids_that_do_not_say_the_text_are_not_used(
    tokenizer_folder: TokenizerFolder, ids: tuple[int, ...]
) -> None:
    """After a switch of models, or when a text was edited."""
    pair = with_template(tokenizer_folder, CHATML)
    for tail in ([], [user("b")]):
        texts = [user("a"), answer("the dog"), *tail]
        stored = [user("a"), answer("the dog", ids), *tail]
        assert prompt(pair, *stored, continue_answer=not tail) == prompt(
            pair, *texts, continue_answer=not tail
        )


def test_continuing_from_text_alone(tokenizer_folder: TokenizerFolder) -> None:
    pair = with_template(tokenizer_folder, CHATML)
    begun = prompt(pair, user("a"), answer("the <|im_end|>"), continue_answer=True)
    assert begun == prompt(pair, user("a")) + pair[1].encode_text("the <|im_end|>")
    empty = prompt(pair, user("a"), answer("", ()), continue_answer=True)
    assert empty == prompt(pair, user("a"))
    with pytest.raises(ValueError, match="no answer"):
        prompt(pair, user("a"), continue_answer=True)


def test_reasoning_is_stripped_as_the_template_says(tokenizer_folder: TokenizerFolder) -> None:
    stripping = CHATML.replace("message.content +", "message.content.split('</think>')[-1] +")
    pair = with_template(tokenizer_folder, stripping)
    ids = prompt(pair, user("a"), answer("<think>long</think>short"), user("b"))
    assert "long" not in pair[1].decode(ids)
    typed = prompt(pair, user("see </think> this"))
    assert "see </think> this" in pair[1].decode(typed)
    assert pair[1].control_tokens["</think>"] not in typed


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("written", [0, 1, 2])
@pytest.mark.parametrize("flag", [None, True, False])
def test_the_beginning_comes_once(
    tokenizer_folder: TokenizerFolder, kind: str, written: int, flag: bool | None
) -> None:
    template = "{{ bos_token }}" * written + CHATML
    pair = with_template(tokenizer_folder, template, kind, add_bos_token=flag)
    ids = prompt(pair, user("hello <s>"))
    bos = pair[1].bos_id
    assert bos is not None
    assert ids.count(bos) == int(written > 0 or pair[1].adds_bos)
    assert bos not in ids[1:]


def test_a_template_that_refuses_the_system_role(tokenizer_folder: TokenizerFolder) -> None:
    refusing = (
        "{% if messages[0].role == 'system' %}{{ raise_exception('System role not supported') }}"
        "{% endif %}" + CHATML
    )
    pair = with_template(tokenizer_folder, refusing)
    assert prompt(pair, system("s"), user("q")) == prompt(pair, user("s\n\nq"))


def test_roles_that_do_not_alternate_are_merged(tokenizer_folder: TokenizerFolder) -> None:
    pair = with_template(tokenizer_folder, LLAMA2)
    merged = prompt(pair, user("a\n\nb"), answer("c"), user("d\n\ne"))
    assert prompt(pair, user("a"), user("b"), answer("c"), system("d"), user("e")) == merged


def test_what_a_template_does_not_take_is_told_in_its_words(
    tokenizer_folder: TokenizerFolder,
) -> None:
    pair = with_template(tokenizer_folder, "{{ raise_exception('never on Sundays') }}")
    with pytest.raises(UserFixable, match="does not accept") as caught:
        prompt(pair, user("d"))
    assert "never on Sundays" in caught.value.details


def test_several_system_texts_and_a_greeting(tokenizer_folder: TokenizerFolder) -> None:
    pair = with_template(tokenizer_folder, LLAMA2)
    one = prompt(pair, system("a\n\nb"), user("q"))
    assert prompt(pair, system("a"), system("b"), user("q")) == one
    greeted = prompt(pair, answer("Hi!"), user("q"))
    assert greeted == prompt(pair, user(""), answer("Hi!"), user("q"))
    told = prompt(pair, system("s"), answer("Hi!"), user("q"))
    assert told == prompt(pair, system("s"), user(""), answer("Hi!"), user("q"))


PARTS = """\
{%- for message in messages %}{{ message.role | capitalize + ': ' }}
{%- for part in message.content %}{% if part.type == 'text' %}{{ part.text }}{% endif %}{% endfor %}
{{- '<|im_end|>' }}{% endfor %}{% if add_generation_prompt %}Assistant:{% endif %}"""


def test_a_template_that_reads_parts_only(tokenizer_folder: TokenizerFolder) -> None:
    template, tokenizer = with_template(tokenizer_folder, PARTS)
    ids = prompt((template, tokenizer), system("s"), user("Hi"), answer("Ho"), user("<|im_end|>"))
    text = tokenizer.decode(ids)
    assert text == (
        "System: s<|im_end|>User: Hi<|im_end|>Assistant: Ho<|im_end|>User: <|im_end|><|im_end|>"
        "Assistant:"
    )
    assert ids.count(tokenizer.control_tokens["<|im_end|>"]) == 4  # the user's own is text
    known = tuple(tokenizer.encode_text(" Ho"))
    spliced = prompt((template, tokenizer), user("Hi"), answer(" Ho", known), user("!"))
    assert " ".join(map(str, known)) in " ".join(map(str, spliced))
    assert "User: Hi<|im_end|>Assistant: Ho<|im_end|>" in tokenizer.decode(spliced)


@pytest.mark.parametrize(
    ("broken", "rendered"),
    [
        (CHATML + "{% for", "<|im_start|>user\nHi<|im_end|>\n<|im_start|>assistant\n"),
        (
            "{% for %}<start_of_turn>",
            "<s><start_of_turn>user\nHi<end_of_turn>\n",
        ),
        ("[INST] {{", "<s>[INST] Hi [/INST]"),
        ("{{ <|start_header_id|>", "<s><|start_header_id|>user<|end_header_id|>\n\nHi<|eot_id|>"),
        ("{{ <|assistant|>", "<|user|>\nHi<|end|>\n<|assistant|>\n"),
        ("{{ nothing", "User: Hi\nAssistant:"),
    ],
)
def test_a_damaged_template_gives_way_to_its_family_s(
    tokenizer_folder: TokenizerFolder, broken: str, rendered: str
) -> None:
    template, tokenizer = with_template(tokenizer_folder, broken)
    assert tokenizer.decode(prompt((template, tokenizer), user("Hi"))).startswith(rendered)
    assert "damaged" in template.caveat
    assert not with_template(tokenizer_folder, CHATML)[0].caveat


def test_a_template_of_one_s_own(tmp_path: Path) -> None:
    file = tmp_path / "m.gguf"
    metadata = {"tokenizer.chat_template": CHATML, "tokenizer.ggml.tokens": ("a",)}
    assert ChatTemplate.from_gguf(metadata, own_template(file)).source == CHATML
    (tmp_path / "m.jinja").write_text("mine")
    assert ChatTemplate.from_gguf(metadata, own_template(file)).source == "mine"
    (tmp_path / "m.jinja").write_text("{% mine")
    with pytest.raises(UserFixable, match="damaged"):
        ChatTemplate.from_gguf(metadata, own_template(file))


def test_a_template_is_told_the_day_of_the_conversation(tokenizer_folder: TokenizerFolder) -> None:
    source = "{{ strftime_now('%d %B %Y') }}{% for m in messages %}{{ m.content }}{% endfor %}"
    template, tokenizer = with_template(tokenizer_folder, source)
    choices = TemplateChoices(day=date(2026, 11, 27))
    told = template.prompt([user("!")], tokenizer, continue_answer=False, choices=choices)
    assert tokenizer.decode(told.ids) == "27 November 2026!"


TOOLS = """\
{%- for m in messages %}{{ '<|im_start|>' + m.role + '\n' + m.content }}
{%- for call in m.tool_calls or [] %}{{ '\n<call>' + call.function.name + ' ' }}
{{- call.function.arguments | tojson }}{% endfor %}{{ '<|im_end|>\n' }}{% endfor %}
{%- if add_generation_prompt %}{{ '<|im_start|>assistant\n' }}{% endif %}"""


@pytest.mark.parametrize(
    ("template", "asked", "result"),
    [
        (TOOLS, 'assistant\n\n<call>look {"at": "<|im_end|>"}', "tool\n42"),
        (
            LLAMA2,
            '<tool_call>\n{"name": "look", "arguments": {"at": "<|im_end|>"}}\n</tool_call>',
            "<tool_response>\n42\n</tool_response>",
        ),
    ],
)
def test_tools_in_the_history(
    tokenizer_folder: TokenizerFolder, template: str, asked: str, result: str
) -> None:
    pair = with_template(tokenizer_folder, template)
    call = ToolCall("call-1", "look", '{"at": "<|im_end|>"}')
    asking = Message(Role.ASSISTANT, "", calls=(call,))
    told = Message(Role.TOOL, "42", call_id="call-1")
    ids = prompt(pair, user("q"), asking, told)
    text = pair[1].decode(ids)
    assert asked in text
    assert result in text
    end = pair[1].control_tokens["<|im_end|>"]
    assert ids.count(end) == (3 if template is TOOLS else 0)  # that in the arguments is text


def test_an_answer_that_mentions_the_tags_is_sent_whole(tokenizer_folder: TokenizerFolder) -> None:
    source = CHATML.replace("message.content", "message.content.split('</think>')[-1]")
    template, tokenizer = with_template(tokenizer_folder, source)
    said = "R1 thinks between <think> and </think> tags, then answers."
    for ids in (None, tuple(tokenizer.encode_text(said))):
        turns = (user("a"), answer(said, ids), user("b"))
        assert said in tokenizer.decode(prompt((template, tokenizer), *turns))
    thought = answer("<think>\nhm, <think> and </think>\n</think>\n\nYes.")
    text = tokenizer.decode(prompt((template, tokenizer), user("a"), thought, user("b")))
    assert "hm" not in text
    assert "Yes." in text


def test_without_a_template_a_plain_one_serves(tokenizer_folder: TokenizerFolder) -> None:
    pair = with_template(tokenizer_folder, None)
    ids = prompt(pair, system("Think."), user("a"), answer(" b", None), user("c"))
    assert pair[1].decode(ids) == "Think.\n\nUser: a\nAssistant:  b\nUser: c\nAssistant:"
    assert pair[0].stop == ("\nUser:",)
    stored = tuple(pair[1].encode_text(" b"))
    asked = [*prompt(pair, user("a")), *stored]
    assert prompt(pair, user("a"), answer(" b", stored), user("c"))[: len(asked)] == asked


def test_where_templates_are_kept(tokenizer_folder: TokenizerFolder) -> None:
    named = [
        {"name": "tool_use", "template": "tools"},
        {"name": "default", "template": "from the list"},
    ]
    pair = with_template(tokenizer_folder, named)
    assert pair[1].decode(prompt(pair, user("a"))) == "from the list"
    assert pair[0].stop == ()
    folder = tokenizer_folder("byte_level", settings={"chat_template": "from the settings"})
    (folder / "chat_template.jinja").write_text("from the file")
    pair = open_both(folder)
    assert pair[1].decode(prompt(pair, user("a"))) == "from the file"
    (folder / "chat_template.jinja").write_bytes(b"\xff")
    with pytest.raises(UserFixable, match="cannot be read"):
        ChatTemplate.open(folder)
    (folder / "chat_template.jinja").write_text(" " * (4 * MAX_SOURCE + 1))
    with pytest.raises(UserFixable, match="far too long"):
        ChatTemplate.open(folder)
    (folder / "chat_template.jinja").unlink()
    with pytest.raises(UserFixable, match="chat_template"):
        with_template(tokenizer_folder, 3)

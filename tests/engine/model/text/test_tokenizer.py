"""Text to ids and back: control tokens stay out of plain text, decoding equals the library's."""

from __future__ import annotations

import json
import subprocess
import sys
import time
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from small_tokenizers import CONTROLS, KINDS, TokenizerFolder, byte_level
from template_families import BY_NAME
from tokenizers import Tokenizer as Library
from tokenizers import decoders, models, pre_tokenizers

from engine.errors import UserFixable
from engine.model.text.token_bytes import ByteRules
from engine.model.text.tokenizer import Tokenizer
from engine.model.text.vocabulary.library import Vocabulary

ROOT = Path(__file__).parents[4]
MANY = 3 * settings.default.max_examples
CONTROL_TEXTS = [*CONTROLS, "<think>", "</think>", "<unk>", "<0x41>"]


@pytest.fixture(scope="module", params=KINDS)
def opened(
    request: pytest.FixtureRequest,
    tmp_path_factory: pytest.TempPathFactory,
    tokenizer_files: dict[str, str],
) -> tuple[Tokenizer, Library]:
    folder = tmp_path_factory.mktemp("tokenizer")
    text = tokenizer_files[request.param]
    (folder / "tokenizer.json").write_text(text, encoding="utf-8")
    return Tokenizer.open(folder), Library.from_str(text)


def texts() -> st.SearchStrategy[str]:
    pieces = st.one_of(st.sampled_from(CONTROL_TEXTS), st.text(max_size=8), st.just(" "))
    return st.lists(pieces, max_size=8).map("".join)


@given(text=texts())
@settings(max_examples=MANY)
def test_plain_text_never_yields_control_tokens(
    opened: tuple[Tokenizer, Library], text: str
) -> None:
    tokenizer, _ = opened
    ids = tokenizer.encode_text(text)
    unknown = tokenizer.control_tokens.get("<unk>")
    assert not (set(ids) & set(tokenizer.control_tokens.values())) - {unknown}
    if tokenizer.leading_spaces:  # SentencePiece writes blanks as "▁", and may add one before
        text = text.replace("▁", " ").lstrip(" ")
        assert tokenizer.decode(ids).lstrip(" ") == text
    else:
        assert tokenizer.decode(ids) == text


@given(text=texts())
@settings(max_examples=MANY)
def test_rendered_text_encodes_like_the_library(
    opened: tuple[Tokenizer, Library], text: str
) -> None:
    tokenizer, library = opened
    assert tokenizer.encode_rendered(text) == library.encode(text, add_special_tokens=False).ids


@given(data=st.data())
@settings(max_examples=MANY)
def test_decoding_equals_the_library(
    opened: tuple[Tokenizer, Library], data: st.DataObject
) -> None:
    """Except for broken runs of byte tokens, where the library also drops the valid characters."""
    tokenizer, library = opened
    ids = data.draw(st.lists(st.integers(0, tokenizer.vocab_size + 3), max_size=20))
    ours = tokenizer.decode(ids)
    theirs = library.decode(ids, skip_special_tokens=False)
    if tokenizer.leading_spaces == 0 or "\ufffd" not in ours:
        assert ours == theirs
    assert tokenizer.token_bytes(-1) == b""


def test_broken_byte_tokens_show_what_is_valid(tokenizer_folder: TokenizerFolder) -> None:
    tokenizer = Tokenizer.open(tokenizer_folder("normalizer"))
    llama = [3 + byte for byte in "🦙".encode()]
    assert tokenizer.decode(llama) == "🦙"
    assert tokenizer.decode([*llama, 3 + 0xFF]) == "🦙\ufffd"


def test_lone_surrogates_are_replaced_and_pairs_joined(tokenizer_folder: TokenizerFolder) -> None:
    tokenizer = Tokenizer.open(tokenizer_folder("byte_level"))
    assert tokenizer.decode(tokenizer.encode_text("a\ud83e\udd99b\ud800c")) == "a🦙b\ufffdc"
    assert tokenizer.decode(tokenizer.encode_rendered("a\ud800")) == "a\ufffd"


def test_runs_of_blanks_are_words_and_tags_are_controls(
    tokenizer_folder: TokenizerFolder,
) -> None:
    tokenizer = Tokenizer.open(tokenizer_folder("byte_level"))
    assert "    " not in tokenizer.control_tokens
    assert "<think>" in tokenizer.control_tokens
    assert len(tokenizer.encode_text("    ")) == 1
    assert len(tokenizer.encode_text("<think>")) > 1
    assert len(tokenizer.encode_rendered("<think>")) == 1


def test_words_among_the_added_tokens() -> None:
    """Gemma's vocabulary holds tags of HTML, DeepSeek's single letters; Phi-3 has `</s>` so."""
    library = byte_level()
    library.add_tokens(["<table>", "÷", "▁▁", "</s>", "<|user|>"])
    data = json.loads(library.to_str())
    for token in data["added_tokens"]:
        token["special"] = False
    tokenizer = Tokenizer(Vocabulary(data))
    assert {"<table>", "÷", "▁▁"}.isdisjoint(tokenizer.control_tokens)
    assert {"</s>", "<|user|>", "<think>"} <= set(tokenizer.control_tokens)
    for text, count in (("<table>", 1), ("÷", 1), ("▁▁", 1), ("</s>", 4)):
        ids = tokenizer.encode_text(text)
        assert (len(ids), tokenizer.decode(ids)) == (count, text)


@pytest.mark.parametrize("begins", ["<bos>", "<s>"])
def test_tags_of_html_are_text_where_the_vocabulary_has_them(begins: str) -> None:
    """Gemma's begins texts with <bos>, and its <s> strikes out; elsewhere <s> begins them."""
    tags = [
        f"<{slash}{name}>" for name in ("div", "html", "footer", "h1", "s") for slash in ("", "/")
    ]
    library = byte_level()
    library.add_tokens([begins, *(tag for tag in tags if tag != begins), "<tool_call>", "<mask>"])
    tokenizer = Tokenizer(Vocabulary(json.loads(library.to_str())))
    struck = {"<s>", "</s>"}
    controls = set(tokenizer.control_tokens)
    assert controls & {*tags} == (set() if begins == "<bos>" else struck)
    assert {begins, "<tool_call>", "<mask>"} <= controls
    text = "<div><footer>"
    assert len(tokenizer.encode_text(text)) == 2
    assert tokenizer.decode(tokenizer.encode_text(text)) == text


def test_one_space_behind_control_tokens() -> None:
    tokenizer = BY_NAME["mistral-v0.3"].open()[1]
    begin, word = tokenizer.control_tokens["[INST]"], tokenizer.id_of("▁he")
    assert tokenizer.encode_rendered("[INST]he") == [begin, word]
    assert tokenizer.encode_rendered("[INST] he") == [begin, word]


def test_control_texts_in_the_vocabulary_itself_are_cut(tmp_path: Path) -> None:
    """WordLevel and Unigram vocabularies can hold "</s>" as an ordinary word."""
    words = {"[UNK]": 0, "</s>": 1, "hello": 2, "/s>": 3, "<": 4}
    library = Library(models.WordLevel(words, unk_token="[UNK]"))
    library.pre_tokenizer = pre_tokenizers.WhitespaceSplit()
    library.add_special_tokens(["[UNK]", "</s>"])
    library.save(str(tmp_path / "tokenizer.json"))
    tokenizer = Tokenizer.open(tmp_path)
    assert tokenizer.encode_text("hello </s> what") == [2, 4, 3, 0]
    assert tokenizer.encode_rendered("hello </s>") == [2, 1]
    assert tokenizer.decode([2, 4, 3]) == "hello < /s>"


def test_ends_come_from_every_file(tokenizer_folder: TokenizerFolder) -> None:
    template = (
        "{% for m in messages %}<|im_start|>{{ m.role }}\n{{ m.content }}<|im_end|>\n{% endfor %}"
    )
    folder = tokenizer_folder(
        "byte_level",
        settings={
            "bos_token": {"content": "<s>"},
            "eos_token": {"content": "</s>"},
            "chat_template": template,
        },
        config={"eos_token_id": 100},
    )
    (folder / "generation_config.json").write_text('{"eos_token_id": [101, 102]}')
    tokenizer = Tokenizer.open(folder)
    names = tokenizer.control_tokens
    assert tokenizer.eos_ids == {100, 101, 102, names["</s>"], names["<|im_end|>"]}
    assert tokenizer.bos_id == names["<s>"]


def test_a_template_that_does_not_close_answers_adds_no_end(
    tokenizer_folder: TokenizerFolder,
) -> None:
    template = "{% for m in messages %}<|im_start|>{{ m.content }}\n{% endfor %}<|im_start|>x"
    folder = tokenizer_folder("byte_level", settings={"chat_template": "{{ 1 / 0 }}"})
    assert Tokenizer.open(folder).eos_ids == frozenset()
    folder = tokenizer_folder("byte_level", settings={"chat_template": template + "{{ a.b.c }}"})
    assert Tokenizer.open(folder).eos_ids == frozenset()


@pytest.mark.parametrize(
    ("kind", "flag", "adds"),
    [
        ("normalizer", None, True),
        ("normalizer", False, False),
        ("byte_level", None, False),
        ("byte_level", True, True),
    ],
)
def test_who_adds_the_beginning(
    tokenizer_folder: TokenizerFolder, kind: str, flag: bool | None, adds: bool
) -> None:
    folder = tokenizer_folder(kind, settings={"bos_token": "<s>", "add_bos_token": flag})
    assert Tokenizer.open(folder).adds_bos is adds


@pytest.mark.parametrize(
    ("content", "word"),
    [
        (None, "no tokenizer.json"),
        ("", "damaged"),
        ("{", "damaged"),
        ("[]", "no object"),
        ("{}", "damaged"),
        ('{"model": {"type": "BPE", "vocab": 3}}', "damaged"),
        ('{"model": {"type": "Magic"}, "added_tokens": [3]}', "damaged"),
    ],
)
def test_unreadable_tokenizers(tmp_path: Path, content: str | None, word: str) -> None:
    if content is not None:
        (tmp_path / "tokenizer.json").write_text(content)
    with pytest.raises(UserFixable, match=word):
        Tokenizer.open(tmp_path)


def test_truncated_tokenizer(tmp_path: Path, tokenizer_files: dict[str, str]) -> None:
    text = tokenizer_files["byte_level"]
    (tmp_path / "tokenizer.json").write_text(text[: len(text) // 2], encoding="utf-8")
    with pytest.raises(UserFixable, match="damaged"):
        Tokenizer.open(tmp_path)


@pytest.mark.parametrize(
    "decoder",
    [
        {"type": "WordPiece", "prefix": "##", "cleanup": True},
        {"type": "Sequence", "decoders": [{"type": "Fuse"}, {"type": "CTC"}]},
        {
            "type": "Sequence",
            "decoders": [{"type": "Replace", "pattern": {"Regex": "a+"}, "content": "b"}],
        },
    ],
)
def test_unknown_decoders_are_refused(
    tmp_path: Path, tokenizer_files: dict[str, str], decoder: dict[str, object]
) -> None:
    data = {**json.loads(tokenizer_files["byte_level"]), "decoder": decoder}
    (tmp_path / "tokenizer.json").write_text(json.dumps(data))
    with pytest.raises(UserFixable, match="unknown kind"):
        Tokenizer.open(tmp_path)


@pytest.mark.parametrize("scheme", ["always", "first", "never"])
def test_bytes_where_a_mark_stands_for_spaces(scheme: str) -> None:
    described = {"type": "Metaspace", "replacement": "_", "prepend_scheme": scheme}
    rules = ByteRules.from_json(described)
    library = decoders.Metaspace(replacement="_", prepend_scheme=scheme)
    tokens = ["_A", "_calm", "_sea"]
    written = b"".join(map(rules.bytes_of, tokens)).decode()[rules.leading_spaces :]
    assert written == library.decode(tokens)


@pytest.mark.parametrize(
    "decoder", [3, {"type": "Sequence"}, {"type": "Sequence", "decoders": [3]}]
)
def test_decoders_that_are_none_are_refused(decoder: object) -> None:
    with pytest.raises(UserFixable, match="unknown kind"):
        ByteRules.from_json(decoder)


def test_only_so_much_is_remembered(
    tokenizer_folder: TokenizerFolder, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("engine.model.text.tokenizer._MOST_REMEMBERED", 100)
    tokenizer = Tokenizer.open(tokenizer_folder("byte_level"))
    texts = [f"{number} " * 12 for number in range(40)]
    ids = [tokenizer.encode_text(text) for text in texts]
    assert sum(len(text) for text, _ in tokenizer._recent._known) <= 100
    assert [tokenizer.encode_text(text) for text in texts] == ids


def test_dropout_truncation_and_padding_are_switched_off(
    tmp_path: Path, tokenizer_files: dict[str, str]
) -> None:
    library = Library.from_str(tokenizer_files["byte_level"])
    text = "Hello there, hello world! " * 20
    expected = library.encode(text).ids
    library.enable_truncation(5)
    library.enable_padding(length=9999)
    data = json.loads(library.to_str())
    data["model"]["dropout"] = 0.9
    (tmp_path / "tokenizer.json").write_text(json.dumps(data))
    assert Tokenizer.open(tmp_path).encode_text(text) == expected


@pytest.mark.release(reason="a stopwatch")
@pytest.mark.parametrize("kind", KINDS)
def test_long_pastes_are_quick(tokenizer_folder: TokenizerFolder, kind: str) -> None:
    """A quadratic encoder would take minutes; the bound is generous for slow machines."""
    tokenizer = Tokenizer.open(tokenizer_folder(kind))
    start = time.process_time()
    for text in ("hello the </s> world " * 20_000, "a" * 200_000, "<" * 200_000):
        assert tokenizer.decode(tokenizer.encode_text(text)) == text
    assert time.process_time() - start < 20


def test_opening_needs_no_torch() -> None:
    code = (
        "import sys; from engine.model.text.chat_template import ChatTemplate; "
        "from engine.model.text.text_stream import TextStream; "
        "from engine.model.local_model import LocalModel; from engine.hub.local import "
        "resolve_model; print([m for m in ('torch', 'transformers') if m in sys.modules])"
    )
    result = subprocess.run(
        [sys.executable, "-c", code], cwd=ROOT, capture_output=True, text=True, check=True
    )
    assert result.stdout.strip() == "[]"

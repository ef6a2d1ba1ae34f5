"""Vocabularies of published models: texts come back, tokens join right, no text is a control."""

from __future__ import annotations

import unicodedata
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from published_vocabularies import GGUF_LIKE, library, opened
from template_families import FAMILIES

from engine.events import Origin
from engine.model.text.text_stream import TextStream
from engine.model.text.tokenizer import Tokenizer

FOLDERS = ["gpt-neox-20b", "gpt2", "llama2", "mistral", "phi-2", "phi-3-mini"]
VOCABULARIES = [*FOLDERS, *(f"{name}.gguf" for name in GGUF_LIKE)]
TEXTS = [
    "",
    " ",
    "Hello world",
    "  two before, two behind  ",
    "\t\ttabs\n\n\n\nlines\r\nand\rreturns\n",
    "Zażółć gęślą jaźń. Ålesund, œuvre, naïve, straße, ﬁne, ¡¿",
    "Съешь же ещё этих мягких французских булок. Ξεσκεπάζω την ψυχοφθόρα βδελυγμία",
    "שָׁלוֹם עולם. السَّلَامُ عَلَيْكُم وَرَحْمَةُ ٱللَّٰهِ \u202b(rtl)\u202c",
    "नमस्ते दुनिया, বাংলা, தமிழ், ไทยไม่มีเว้นวรรค, ພາສາລາວ, မြန်မာ, ខ្មែរ, བོད་ཡིག",
    "漢字かな交じり文。简体中文，繁體中文！한국어 띄어쓰기 ᄒᆞᆫ글",
    "👩‍👩‍👧‍👦 🏳️‍🌈 👍🏽 🇩🇪 1️⃣ 🦙🦙 ☃︎ ❤️",
    "\x00\x01\x02\x1b[31m\x7f\x85\u200b\u2028\ufeff\ufffd\U0010fffd",
    "𝔘𝔫𝔦𝔠𝔬𝔡𝔢 𓀀 𐍈 𝄞 \U00020000",
    'def f(x: int) -> str:\n    """Doc."""\n\treturn f\'{x!r}\' if x else None  # 100 %\n',
    "<div class='a'>&nbsp;</div> {{ jinja }} {% raw %} $$\\frac{1}{2}$$ `code` ~~~",
    "0 12 345 6789 01234567890 3.14159e-10 1,000,000 ٠١٢ ⅧⅨ ½",
    "e\u0301 a\u0300 \u1100\u1161",
    "I'm you're we'll they'd HE'S it's 'quoted' don''t",
    "a" * 500 + " " * 100 + "\n" * 50 + "." * 100 + "é" * 100,
    "<s> </s> <unk> <|endoftext|> [INST] <0x0A> <|end|> [PAD151646]",
]


@pytest.fixture(params=VOCABULARIES)
def tokenizer(request: pytest.FixtureRequest, published_folder: Path) -> Tokenizer:
    return opened(request.param, published_folder)


def streamed(tokenizer: Tokenizer, ids: list[int]) -> str:
    """Token by token; what is shown never ends inside a character."""
    stream = TextStream(tokenizer)
    text = ""
    for token in ids:
        text += stream.push(token, Origin.TARGET).text
        assert tokenizer.decode(ids).startswith(text)
    return text + stream.finish().text


def as_kept(tokenizer: Tokenizer, text: str) -> str:
    """What a vocabulary keeps of a text.

    SentencePiece writes spaces as "▁"; GPT-NeoX composes characters (NFC).
    """
    kept = text.replace("▁", " ") if tokenizer.leading_spaces else text
    composes = tokenizer.encode_text("e\u0301") == tokenizer.encode_text("\u00e9")
    return unicodedata.normalize("NFC", kept) if composes else kept


@pytest.mark.release(keep=6, reason="every vocabulary")
def test_texts_come_back(tokenizer: Tokenizer) -> None:
    for text in TEXTS:
        ids = tokenizer.encode_text(text)
        assert tokenizer.decode(ids) == as_kept(tokenizer, text)
        assert streamed(tokenizer, ids) == as_kept(tokenizer, text)


@pytest.mark.release(keep=6, reason="every vocabulary")
@given(text=st.text(max_size=30))
@settings(suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow])
def test_any_text_comes_back(tokenizer: Tokenizer, text: str) -> None:
    ids = tokenizer.encode_text(text)
    assert streamed(tokenizer, ids) == as_kept(tokenizer, text)


@pytest.mark.release(keep=2, reason="every vocabulary")
@pytest.mark.parametrize("name", [name for name in FOLDERS if name not in ("llama2", "mistral")])
def test_ids_and_texts_are_the_librarys(name: str, published_folder: Path) -> None:
    tokenizer = opened(name, published_folder)
    theirs = library(name, published_folder)
    for text in (text for text in TEXTS if "</s>" not in text):  # Phi-3's is a word to the library
        assert tokenizer.encode_text(text) == theirs.encode(text, add_special_tokens=False).ids
    for token in range(tokenizer.vocab_size):
        alone = tokenizer.token_bytes(token).decode("utf-8", "replace")
        written = theirs.decode([token], skip_special_tokens=False)
        if "\ufffd" not in alone:
            assert alone.removeprefix(" " * tokenizer.leading_spaces) == written


def test_tokens_join_byte_by_byte(tokenizer: Tokenizer) -> None:
    """Every byte is a token or a part of one, and no token depends on its neighbours."""
    for text in TEXTS:
        ids = tokenizer.encode_text(text)
        joined = b"".join(map(tokenizer.token_bytes, ids)).decode()
        assert joined.removeprefix(" " * tokenizer.leading_spaces) == as_kept(tokenizer, text)


def test_a_character_of_several_tokens_shows_at_once(tokenizer: Tokenizer) -> None:
    for character in ("🦙", "𐍈", "\U00020000"):
        ids = tokenizer.encode_text(f"a{character}")
        stream = TextStream(tokenizer)
        shown = [stream.push(token, Origin.TARGET).text for token in ids]
        assert [text for text in shown if text][-1].endswith(character)
        assert "\ufffd" not in "".join(shown)


@pytest.mark.release(keep=6, reason="every vocabulary")
def test_ends_of_text_are_control_tokens(tokenizer: Tokenizer) -> None:
    """Whatever a file says of their kind: Phi-3's calls `</s>` a word."""
    ends = {"</s>", "<|endoftext|>", "<|end|>", "[INST]"} & set(tokenizer.vocabulary)
    assert ends <= set(tokenizer.control_tokens)


NAMES = sorted({name for family in FAMILIES for name in family.controls})


@pytest.mark.release(keep=6, reason="every vocabulary")
@given(data=st.data())
@settings(suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow])
def test_no_text_is_a_control_token(tokenizer: Tokenizer, data: st.DataObject) -> None:
    names = st.sampled_from(sorted(tokenizer.control_tokens))
    alike = st.sampled_from([*NAMES, "＜s＞", "<\u200bs>", "‹/s›", "<ѕ>", "<s", "/s>", "▁<s>"])
    spaced = names.map(" ".join)
    piece = st.one_of(names, alike, spaced, st.text(max_size=4), st.just(" "), st.just("\n"))
    text = data.draw(st.lists(piece, max_size=8).map("".join))
    ids = tokenizer.encode_text(text)
    unknown = tokenizer.control_tokens.get("<unk>")
    assert (set(tokenizer.control_tokens.values()) - {unknown}).isdisjoint(ids)
    assert tokenizer.decode(ids) == as_kept(tokenizer, text)


@pytest.mark.parametrize("name", ["gpt-2.gguf", "mistral-v3.gguf", "phi-3.gguf"])
def test_control_tokens_of_a_template_are_found(name: str, published_folder: Path) -> None:
    tokenizer = opened(name, published_folder)
    for control, index in tokenizer.control_tokens.items():
        assert tokenizer.encode_rendered(control) == [index]
        assert tokenizer.encode_rendered(f"a{control}b").count(index) == 1

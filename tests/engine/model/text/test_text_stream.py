"""Streaming gives the text that decoding at once gives, and ends before stop strings."""

from __future__ import annotations

import codecs
import json
from dataclasses import dataclass
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from small_tokenizers import KINDS

from engine.events import Origin, TokenSpan
from engine.model.text.text_stream import TextStream
from engine.model.text.tokenizer import Tokenizer

MANY = 3 * settings.default.max_examples
SAMPLES = [
    "Hello there",
    " the ",
    "日本語",
    "🦙🦙",
    "👩‍👩‍👧",
    "हिन्दी",
    "<|im_end|>",
    "é",
    "\ufffd",
    "\n",
]


@dataclass
class Streamed:
    """What a stream gave in all, push by push."""

    deltas: list[str]
    spans: list[TokenSpan]
    stream: TextStream

    @property
    def text(self) -> str:
        return "".join(self.deltas)


@pytest.fixture(scope="module", params=KINDS)
def tokenizer(
    request: pytest.FixtureRequest,
    tmp_path_factory: pytest.TempPathFactory,
    tokenizer_files: dict[str, str],
) -> Tokenizer:
    folder = tmp_path_factory.mktemp("tokenizer")
    (folder / "tokenizer.json").write_text(tokenizer_files[request.param], encoding="utf-8")
    return Tokenizer.open(folder)


def stream(tokenizer: Tokenizer, ids: list[int], stop: list[str] | None = None) -> Streamed:
    text_stream = TextStream(tokenizer, stop or [])
    parts = []
    for index, token_id in enumerate(ids):
        parts.append(text_stream.push(token_id, list(Origin)[index % 2]))
        if text_stream.stopped:
            break
    else:
        parts.append(text_stream.finish())
    spans = [span for part in parts for span in part.spans]
    return Streamed([part.text for part in parts], spans, text_stream)


def utf16_slice(text: str, start: int, end: int) -> str:
    return text.encode("utf-16-le")[2 * start : 2 * end].decode("utf-16-le")


def some_ids(tokenizer: Tokenizer) -> st.SearchStrategy[list[int]]:
    """Encoded texts, single bytes and arbitrary ids, in any mix."""
    bytes_first = 7 if tokenizer.leading_spaces == 0 else 3
    piece = st.one_of(
        st.sampled_from(SAMPLES).map(tokenizer.encode_text),
        st.text(max_size=4).map(tokenizer.encode_text),
        st.integers(bytes_first, bytes_first + 255).map(lambda token_id: [token_id]),
        st.integers(0, tokenizer.vocab_size + 2).map(lambda token_id: [token_id]),
    )
    return st.lists(piece, max_size=8).map(lambda pieces: [i for ids in pieces for i in ids])


@given(data=st.data())
@settings(max_examples=MANY)
def test_deltas_join_to_the_decoded_text(tokenizer: Tokenizer, data: st.DataObject) -> None:
    ids = data.draw(some_ids(tokenizer))
    result = stream(tokenizer, ids)
    assert result.text == tokenizer.decode(ids)
    assert (result.stream.kept, result.stream.pushed) == (len(ids), len(ids))
    assert not result.stream.stopped


@given(data=st.data())
@settings(max_examples=MANY)
def test_spans_tile_the_text_in_utf16(tokenizer: Tokenizer, data: st.DataObject) -> None:
    ids = data.draw(some_ids(tokenizer))
    stops = data.draw(st.lists(st.sampled_from(["the", "o t", "🦙", "日本", "語🦙"]), max_size=2))
    result = stream(tokenizer, ids, stops)
    position = 0
    for span in result.spans:
        assert span.start == position
        assert span.end >= span.start
        position = span.end
    assert position == len(result.text.encode("utf-16-le")) // 2
    joined = "".join(utf16_slice(result.text, span.start, span.end) for span in result.spans)
    assert joined == result.text

    shown = [span.token_id for span in result.spans]
    extra = [ids[len(ids) - 1]] if len(shown) > len(ids) else []  # a last half character
    assert shown == (ids + extra)[: len(shown)]
    origins = [list(Origin)[index % 2] for index in range(len(ids))]
    assert [span.origin for span in result.spans][: len(ids)] == origins[: len(shown)]


def complete_text(tokenizer: Tokenizer, ids: list[int]) -> str:
    """The decoded text without a half character at its end."""
    raw = b"".join(map(tokenizer.token_bytes, ids))
    text = codecs.getincrementaldecoder("utf-8")("replace").decode(raw)
    return text.removeprefix(" ") if tokenizer.leading_spaces else text


@given(data=st.data())
@settings(max_examples=MANY)
def test_stops_like_a_naive_search(tokenizer: Tokenizer, data: st.DataObject) -> None:
    ids = data.draw(some_ids(tokenizer))
    whole = tokenizer.decode(ids)
    cut = st.tuples(st.integers(0, max(len(whole) - 1, 0)), st.integers(1, 6))
    stops = data.draw(
        st.lists(
            st.one_of(cut.map(lambda at: whole[at[0] : at[0] + at[1]]), st.text(max_size=2)),
            max_size=3,
        )
    )
    expected, needed = whole, None
    for count in range(1, len(ids) + 1):
        so_far = complete_text(tokenizer, ids[:count])
        found = [so_far.find(stop) for stop in stops if stop and stop in so_far]
        if found:
            expected, needed = so_far[: min(found)], count
            break
    else:
        found = [whole.find(stop) for stop in stops if stop and stop in whole]
        if found:
            expected, needed = whole[: min(found)], len(ids)

    result = stream(tokenizer, ids, stops)
    assert result.text == expected
    assert result.stream.stopped == (needed is not None)
    if needed is not None:
        assert result.stream.pushed == needed
    if not result.stream.cut_token:
        assert tokenizer.decode(ids[: result.stream.kept]) == expected


def test_nothing_is_shown_before_it_is_decided(tokenizer: Tokenizer) -> None:
    text_stream = TextStream(tokenizer, ["the end"])
    parts = [text_stream.push(i, Origin.TARGET).text for i in tokenizer.encode_text("so the e")]
    assert "".join(parts).strip() == "so"
    assert text_stream.kept < text_stream.pushed
    rest = text_stream.push(tokenizer.encode_text("x")[-1], Origin.TARGET)
    assert "".join(parts) + rest.text == "so the ex"
    assert text_stream.kept == text_stream.pushed
    assert text_stream.finish().text == ""
    with pytest.raises(ValueError, match="ended"):
        text_stream.push(5, Origin.TARGET)


@pytest.mark.parametrize("thoughts", [True, False])
def test_stops_count_in_what_is_said(tokenizer: Tokenizer, thoughts: bool) -> None:
    """A thought goes on behind them; where no thoughts are told apart, all is said."""
    ids = tokenizer.encode_text("<think>\nso the a. so\n</think>\nthe x. and the y")
    text_stream = TextStream(tokenizer, [". "], thoughts=thoughts)
    shown = text_stream.push_all(ids, 0).text
    ends = "the x" if thoughts else "so the a"
    assert shown.endswith(ends)
    assert text_stream.stopped


def test_a_stop_string_inside_a_token_cuts_it(tokenizer: Tokenizer) -> None:
    words = {token_id: tokenizer.decode([token_id]) for token_id in range(tokenizer.vocab_size)}
    token_id, word = next(
        (token_id, word)
        for token_id, word in words.items()
        if word.isalpha() and word[:1] != word[1:2] != ""
    )
    inside = stream(tokenizer, [token_id, token_id], [word[1]])
    assert inside.text == word[0]
    assert inside.stream.cut_token
    assert (inside.stream.kept, inside.stream.pushed) == (0, 1)
    before = stream(tokenizer, [token_id, token_id], [word[0]])
    assert before.text == ""
    assert not before.stream.cut_token
    assert (before.stream.kept, before.stream.pushed) == (0, 1)


def test_a_held_prefix_is_shown_at_the_end(tokenizer: Tokenizer) -> None:
    ids = tokenizer.encode_text("a <|im_en")
    assert stream(tokenizer, ids, ["<|im_end|>"]).text == "a <|im_en"


def test_control_tokens_are_shown(tokenizer: Tokenizer) -> None:
    ids = tokenizer.encode_rendered("a<|eot|>b")
    assert tokenizer.control_tokens["<|eot|>"] in ids
    assert stream(tokenizer, ids).text.replace(" ", "") == "a<|eot|>b"


def test_half_a_character_at_the_end_shows_as_replacement(tokenizer: Tokenizer) -> None:
    clef = [i for i in tokenizer.encode_text("𝄞") if tokenizer.token_bytes(i) != b" "]
    result = stream(tokenizer, clef[:-1])
    assert result.text == "\ufffd"
    assert result.spans[-1].end == 1
    assert stream(tokenizer, clef).spans[-1].end == 2


def test_a_begun_answer_goes_on_behind_its_text(tokenizer: Tokenizer) -> None:
    whole = "hello 🦙 the dog"
    ids = tokenizer.encode_text(whole)
    for begun in range(len(ids)):
        shown = tokenizer.decode_both(ids[:begun])[1]
        text_stream = TextStream(tokenizer)
        text_stream.resume(ids[:begun], shown)
        assert text_stream.position == len(shown.encode("utf-16-le")) // 2
        parts = [text_stream.push(i, Origin.TARGET) for i in ids[begun:]]
        parts.append(text_stream.finish())
        assert shown + "".join(part.text for part in parts) == whole
        spans = [span for part in parts for span in part.spans]
        assert spans[0].start == len(shown.encode("utf-16-le")) // 2
        assert spans[-1].end == len(whole) + 1
        assert text_stream.kept == len(ids) - begun


@given(data=st.data())
@settings(max_examples=MANY)
def test_cut_anywhere_and_resumed_it_is_the_uninterrupted_text(
    tokenizer: Tokenizer, data: st.DataObject
) -> None:
    """Even inside a character, or inside what might have become a stop string."""
    ids = data.draw(some_ids(tokenizer))
    stops = data.draw(st.lists(st.sampled_from(["the", "o t", "🦙", "日本", "語🦙"]), max_size=2))
    whole = stream(tokenizer, ids, stops)
    text, kept, spans, ended = "", [], [], False
    for cut in sorted(data.draw(st.lists(st.integers(0, len(ids)), max_size=3))):
        part = TextStream(tokenizer, stops)
        part.resume(kept, text)
        released = part.push_all(ids[len(kept) : cut], 0) + part.suspend()
        text, ended = text + released.text, part.stopped
        spans += released.spans
        if ended:
            break
        kept = [*kept, *ids[len(kept) :][: part.kept]]
        assert [span.token_id for span in spans] == kept
        assert text == tokenizer.decode_both(kept)[1]
        assert whole.text.startswith(text)
    if not ended:
        last = TextStream(tokenizer, stops)
        last.resume(kept, text)
        text += last.push_all(ids[len(kept) :], 0).text + last.finish().text
    assert text == whole.text


def test_half_a_character_shown_by_an_older_version_is_not_shown_again(
    tokenizer: Tokenizer,
) -> None:
    clef = [i for i in tokenizer.encode_text("𝄞") if tokenizer.token_bytes(i) != b" "]
    text_stream = TextStream(tokenizer)
    text_stream.resume(clef[:-1], "\ufffd")
    after = tokenizer.encode_text("a")[-1]
    assert (text_stream.push(after, Origin.TARGET) + text_stream.finish()).text == "a"


def test_a_stop_string_that_begins_in_a_tokens_last_half_character(
    tmp_path: Path, tokenizer_files: dict[str, str]
) -> None:
    """The token's text is shown whole, but its ids alone would show half a character more."""
    data = json.loads(tokenizer_files["byte_level"])
    data["model"]["vocab"]["aÃ"] = 1000  # the bytes of "a" and the first one of "é"
    data["model"]["merges"].append(["a", "Ã"])
    (tmp_path / "tokenizer.json").write_text(json.dumps(data), encoding="utf-8")
    tokenizer = Tokenizer.open(tmp_path)
    second_half = next(i for i in range(300) if tokenizer.token_bytes(i) == b"\xa9")
    assert tokenizer.decode([1000, second_half]) == "aé"
    result = stream(tokenizer, [1000, second_half], ["é"])
    assert result.text == "a"
    assert result.stream.kept == 1
    assert result.stream.cut_token
    assert stream(tokenizer, [1000]).text == "a\ufffd"
    assert [span.end for span in stream(tokenizer, [1000, second_half]).spans] == [1, 2]

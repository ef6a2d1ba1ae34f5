"""Texts in the user's language."""

from __future__ import annotations

import json
import pickle
from collections.abc import Iterator

import pytest

from engine import language
from engine.cli import main
from engine.language import best, number, of_environment, tr, tr_count


@pytest.fixture(autouse=True)
def _english_again() -> Iterator[None]:
    yield
    language.use(language.ENGLISH)


def test_without_a_translation_a_text_stays_english() -> None:
    language.use("de")
    assert tr("A text that no catalogue has.") == "A text that no catalogue has."


def test_an_unknown_language_is_english() -> None:
    language.use("tlh")
    assert tr("Stop") == "Stop"


def test_counts_take_their_form_and_number() -> None:
    assert tr_count("{n} token", "{n} tokens", 1) == "1 token"
    assert tr_count("{n} token", "{n} tokens", 2) == "2 tokens"


def test_pseudo_texts_are_longer_and_keep_their_fields() -> None:
    language.use(language.PSEUDO)
    text = tr("{name} has {count:,} tokens")
    assert text.format(name="Ida", count=1200).count("Ida") == 1
    assert "1,200" in text.format(name="Ida", count=1200)
    assert len(text) > len("{name} has {count:,} tokens") * 1.25
    assert "tokens" not in text


@pytest.mark.parametrize(
    ("wanted", "code"),
    [("de_AT.UTF-8", "de"), ("zh-Hans-CN", "zh_CN"), ("en_GB", "en"), ("C", "en"), ("", "en")],
)
def test_the_system_locale_picks_a_language(wanted: str, code: str) -> None:
    assert best(wanted) == code


def test_the_environment_says_which_language_a_terminal_speaks() -> None:
    assert of_environment({}) == "en"
    assert of_environment({"LANG": "de_AT.UTF-8"}) == "de"
    assert of_environment({"LANG": "de_DE", "LC_ALL": "C.UTF-8"}) == "en"
    assert of_environment({"LANG": "en_US", "LANGUAGE": "zh_CN:de"}) == "zh_CN"
    assert of_environment({"LANGUAGE": "", "LC_MESSAGES": "de_CH"}) == "de"


def test_the_command_line_speaks_it(monkeypatch: pytest.MonkeyPatch) -> None:
    spoken: list[str] = []
    monkeypatch.setattr(language, "use", spoken.append)
    monkeypatch.setenv("LANGUAGE", "de_DE:en")
    with pytest.raises(SystemExit):
        main(["--help"])
    assert spoken == ["de"]


def test_numbers_are_written_as_the_language_does() -> None:
    text = "{count:,} of {size:.1f} GiB, {share:.0%}, seed {seed}, {name:>3}"
    values = {"count": 12345, "size": 2.5, "share": 0.4, "seed": 12345, "name": "a,b"}
    assert tr(text).format(**values) == "12,345 of 2.5 GiB, 40\u202f%, seed 12345, a,b"
    language.use("de")
    assert tr(text).format(**values) == "12.345 of 2,5 GiB, 40\u202f%, seed 12345, a,b"
    assert number(1234.5, ",.1f") == "1.234,5"
    assert number(0.054, ".1%") == "5,4\u202f%"
    language.use("zh_CN")
    assert number(1234.5, ",.1f") == "1,234.5"


def test_texts_travel_as_plain_texts_do() -> None:
    text = tr("Stop")
    assert pickle.loads(pickle.dumps(text)) == "Stop"  # noqa: S301 - our own
    assert json.dumps({text: text}) == '{"Stop": "Stop"}'


def test_lists_and_sentences_are_joined_as_the_language_does() -> None:
    assert language.listed(["one", "two"]) == "one, two"
    assert language.sentences("One.", "", "Two.") == "One. Two."
    language.use("zh_CN")
    assert language.listed(["一", "二"]) == "一、二"
    assert language.sentences("一。", "二。") == "一。二。"
    language.use("de")
    assert language.listed(["eins", "zwei"]) == "eins, zwei"

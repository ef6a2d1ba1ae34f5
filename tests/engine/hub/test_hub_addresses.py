"""What people type or paste, told apart from words to search for; and whose terms hold."""

from __future__ import annotations

from typing import Any

import pytest

from engine.hub.remote.addresses import Address, address_in
from engine.hub.remote.connection import ServerObject
from engine.hub.remote.queries import licence_link, licence_of

PAGE = "https://huggingface.co/a/b"


@pytest.mark.parametrize(
    ("typed", "meant"),
    [
        ("a/b", Address("a/b")),
        (" a/b:Q4_K_M ", Address("a/b", variant="Q4_K_M")),
        (PAGE, Address("a/b", True)),
        (f"<{PAGE}/>", Address("a/b", True)),
        ("http://www.huggingface.co/a/b#x", Address("a/b", True)),
        ("hf.co/a/b:Q8_0", Address("a/b", True, variant="Q8_0")),
        (f"{PAGE}/tree/main", Address("a/b", True)),
        (f"{PAGE}/tree/v2.0", Address("a/b", True, "v2.0")),
        (f"{PAGE}/blob/main/sub/x%20y.gguf", Address("a/b", True, None, "sub/x y.gguf")),
        (f"{PAGE}/resolve/abc/x.gguf?download=true", Address("a/b", True, "abc", "x.gguf")),
        (f"{PAGE}/blob/main/..%2f..%2fx.gguf", Address("a/b", True)),
        (f"{PAGE}/discussions/7", Address("a/b", True)),
        ("https://mirror.example:8080/a/b", Address("a/b", True)),
    ],
)
def test_a_model_is_named(typed: str, meant: Address) -> None:
    assert address_in(typed, "https://mirror.example:8080") == meant


@pytest.mark.parametrize(
    "typed",
    ["", "qwen", "qwen 3 gguf", "a/b c", "a/b/c", "/a", "../b", "https://example.com/a/b",
     "https://huggingface.co", "https://huggingface.co/datasets/a/b", "https://huggingface.co/a",
     "https://huggingface.co/spaces/a/b", "ftp://a/b", "https://[::1/a/b", "a/b" * 1000,
     "C:\\models\\x.gguf", "/home/me/model.gguf", "./model.gguf", "https://huggingface.co/a/../b"],
)  # fmt: skip
def test_other_words_are_searched_for(typed: str) -> None:
    assert address_in(typed) is None


@pytest.mark.parametrize(
    ("said", "name"),
    [
        ({"tags": ["x", "license:apache-2.0"]}, "apache-2.0"),
        ({"cardData": {"license": "mit"}, "tags": ["license:gpl"]}, "mit"),
        ({"cardData": {"license": ["mit", "gpl"]}}, "mit"),
        ({"cardData": {"license": "other", "license_name": "llama3.2"}}, "llama3.2"),
        ({"cardData": {"license": "other"}}, "other"),
        ({"cardData": {"license": 7}}, None),
        ({"cardData": {"license": "a\nb"}}, None),
        ({}, None),
    ],
)
def test_the_name_of_a_licence(said: dict[str, Any], name: str | None) -> None:
    assert licence_of(ServerObject(said)) == name


@pytest.mark.parametrize(
    ("card", "files", "link"),
    [
        ({"license_link": "https://example.com/terms"}, (), "https://example.com/terms"),
        ({"license_link": "LICENSE"}, ("LICENSE",), f"{PAGE}/blob/main/LICENSE"),
        ({"license_link": "LICENSE"}, (), None),
        ({"license_link": "javascript:alert(1)", "license": "mit"}, (),
         "https://opensource.org/license/mit"),
        ({"license_link": "https://user@evil.example/x"}, (), None),
        ({"license_link": "https://evil.example/<x>"}, (), None),
        ({"license_link": "https://[evil"}, (), None),
        ({"license": "apache-2.0"}, ("LICENSE.txt",), f"{PAGE}/blob/main/LICENSE.txt"),
        ({"license": "apache-2.0"}, (), "https://www.apache.org/licenses/LICENSE-2.0"),
    ],
)  # fmt: skip
def test_where_the_terms_are(
    card: dict[str, Any], files: tuple[str, ...], link: str | None
) -> None:
    assert licence_link(ServerObject({"cardData": card}), PAGE, files) == link

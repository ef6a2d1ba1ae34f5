"""Addresses as users type them, and what is known from them."""

from __future__ import annotations

import pytest

from engine.errors import UserFixable
from engine.remote.address import ServerAddress


@pytest.mark.parametrize(
    ("typed", "url"),
    [
        ("192.168.1.5:8000", "http://192.168.1.5:8000/v1"),
        (" http://192.168.1.5:8000/ ", "http://192.168.1.5:8000/v1"),
        ("localhost:11434", "http://localhost:11434/v1"),
        ("gpu-box:8000", "http://gpu-box:8000/v1"),
        ("gpu.local", "http://gpu.local/v1"),
        ("example.org", "https://example.org/v1"),
        ("http://example.org:80/v1/", "http://example.org:80/v1"),
        ("https://example.org/llm/v1/chat/completions", "https://example.org/llm/v1"),
        ("https://example.org/v1/models", "https://example.org/v1"),
        ("[::1]:8000", "http://[::1]:8000/v1"),
        ("HTTPS://Example.ORG", "https://example.org/v1"),
    ],
)
def test_what_a_text_means(typed: str, url: str) -> None:
    assert ServerAddress.typed(typed).url == url


@pytest.mark.parametrize(
    "typed",
    ["", " ", "ftp://x", "http://", "http://x:99999", "a b", "x\ny", "http://x?k=1", "http://x#y",
     "file:///etc/passwd", "http://[::1", "x" * 5000, "http://:8000"],
)  # fmt: skip
def test_what_is_no_address(typed: str) -> None:
    with pytest.raises(UserFixable, match="not the address"):
        ServerAddress.typed(typed)


@pytest.mark.parametrize("typed", ["http://user@x", "http://user:secret@x"])
def test_secrets_do_not_belong_into_an_address(typed: str) -> None:
    with pytest.raises(UserFixable, match="own field"):
        ServerAddress.typed(typed)


@pytest.mark.parametrize(
    ("typed", "local"),
    [
        ("localhost:1", True), ("127.0.0.1:1", True), ("127.9.9.9", True), ("[::1]:1", True),
        ("a.localhost", True), ("192.168.1.5", False), ("0.0.0.0:1", False),
        ("localhost.example.org", False), ("127.0.0.1.example.org", False),
    ],
)  # fmt: skip
def test_what_stays_on_this_computer(typed: str, local: bool) -> None:
    assert ServerAddress.typed(typed).local is local

"""The token: in a keyring where there is one, else until the end; shown and written nowhere."""

from __future__ import annotations

import logging
import os
from collections.abc import Iterator
from pathlib import Path

import keyring
import pytest
from keyring.backends.fail import Keyring as NoKeyring
from keyring.errors import KeyringLocked
from memory_keyring import Ring

from engine.errors import UserFixable
from engine.hub.messages import Access
from engine.hub.remote.addresses import endpoint_of, is_endpoint, is_proxy
from engine.hub.token import HeldToken, TokenPlace, TokenStore
from engine.machine.keyring import forget_secret, keep_secret, kept_secret

TOKEN = "hf_abcdefghijklmnop"
OTHER = "hf_of_another_program"


@pytest.fixture
def ring() -> Iterator[Ring]:
    ring = Ring(TOKEN)
    keyring.set_keyring(ring)
    yield ring
    keyring.set_keyring(NoKeyring())


@pytest.fixture
def no_ring() -> None:
    keyring.set_keyring(NoKeyring())


def test_a_token_is_kept_in_the_keyring(ring: Ring) -> None:
    tokens = TokenStore()
    assert tokens.get() == HeldToken(None, TokenPlace.NOWHERE)
    assert tokens.set(f" {TOKEN}\n") is TokenPlace.KEYRING
    assert list(ring.kept.values()) == [TOKEN]
    assert TokenStore().get() == HeldToken(TOKEN, TokenPlace.KEYRING)
    tokens.forget()
    assert ring.kept == {}
    assert tokens.get().token is None
    tokens.forget()


@pytest.mark.usefixtures("no_ring")
def test_without_a_keyring_it_is_kept_until_the_end() -> None:
    tokens = TokenStore()
    assert tokens.set(TOKEN) is TokenPlace.SESSION
    assert tokens.get() == HeldToken(TOKEN, TokenPlace.SESSION)
    assert TokenStore().get().token is None
    assert TOKEN not in "".join(os.environ.values())
    folders = Path(os.environ["DUOTAIL_DATA_DIR"]).parent
    assert not [file for file in folders.rglob("*") if file.is_file()]
    tokens.forget()
    assert tokens.get().token is None


def test_a_locked_keyring_is_as_none_and_nothing_secret_is_logged(
    ring: Ring, caplog: pytest.LogCaptureFixture
) -> None:
    ring.locked = True
    with caplog.at_level(logging.DEBUG):
        tokens = TokenStore()
        assert tokens.set(TOKEN) is TokenPlace.SESSION
        assert tokens.get().place is TokenPlace.SESSION
        assert TokenStore().get().place is TokenPlace.NOWHERE
    assert TOKEN not in caplog.text
    ring.locked = False
    assert tokens.set(TOKEN) is TokenPlace.KEYRING
    assert tokens.get().place is TokenPlace.KEYRING


def test_a_keyring_that_does_not_let_go_is_said(
    ring: Ring, monkeypatch: pytest.MonkeyPatch
) -> None:
    tokens = TokenStore()
    tokens.set(TOKEN)

    def refuse(*_: str) -> None:
        raise KeyringLocked(TOKEN)

    monkeypatch.setattr(ring, "delete_password", refuse)
    with pytest.raises(UserFixable, match="still in") as error:
        tokens.forget()
    assert TOKEN not in str(error.value) + error.value.details


@pytest.mark.parametrize(
    "text", ["", "hf_", "two words of it", "hf_ümläut_token", "a" * 401, "a\nb" * 9]
)
@pytest.mark.usefixtures("no_ring")
def test_what_is_no_token_is_refused(text: str) -> None:
    with pytest.raises(UserFixable, match="not an access token"):
        TokenStore().set(text)


@pytest.mark.usefixtures("no_ring")
def test_the_token_of_another_program_is_read_only_by_consent(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setattr("huggingface_hub.constants.HF_TOKEN_PATH", str(tmp_path / "token"))
    (tmp_path / "token").write_text(OTHER + "\n")
    assert TokenStore().get() == HeldToken(None, TokenPlace.NOWHERE)
    tokens = TokenStore(of_other_program=True)
    assert tokens.get() == HeldToken(OTHER, TokenPlace.OTHER_PROGRAM)
    tokens.set(TOKEN)
    assert tokens.get().token == TOKEN
    tokens.forget()
    assert (tmp_path / "token").exists(), "it is not ours to delete"
    (tmp_path / "token").write_bytes(b"\xff\xfe")
    assert tokens.get().token is None
    (tmp_path / "token").unlink()
    assert tokens.get().token is None
    (tmp_path / "token").write_text("no token of the hub's")
    assert tokens.get().token is None
    monkeypatch.setenv("HF_TOKEN", "hf_of_the_environment")
    assert tokens.get().token == "hf_of_the_environment"


def test_a_token_is_in_no_representation() -> None:
    held = HeldToken(TOKEN, TokenPlace.KEYRING)
    access = Access(token=TOKEN, proxy="http://me:secret@proxy:8080")
    for text in (repr(held), str(held), repr(access), f"{access}"):
        assert TOKEN not in text
        assert "secret" not in text


# -- addresses of hubs and proxies ------------------------------------------------------------


@pytest.mark.parametrize(
    "text",
    ["https://huggingface.co", "https://hub.example:8443/path", "http://127.0.0.1:8080",
     "http://localhost", "http://[::1]:80"],
)  # fmt: skip
def test_addresses_of_hubs(text: str) -> None:
    assert is_endpoint(text)


@pytest.mark.parametrize(
    "text",
    ["", "huggingface.co", "http://huggingface.co", "ftp://x", "https://", "https://a b",
     "https://me:secret@x", "https://x?y", "https://x#y", "https://x:99999", "https://x:0",
     "https://ü.example", "https://x\n", "https://[::1", "javascript:alert(1)",
     "https://" + "a" * 300],
)  # fmt: skip
def test_what_is_no_address_of_a_hub(text: str) -> None:
    assert not is_endpoint(text)


def test_addresses_of_proxies() -> None:
    for text in ("http://proxy:8080", "https://proxy", "socks5://127.0.0.1:1080/"):
        assert is_proxy(text)
    for text in (
        "",
        "proxy:8080",
        "ftp://proxy",
        "http://proxy/path",
        "http://proxy?x",
        "http://",
        "http://me:x@p",
    ):
        assert not is_proxy(text)


def test_the_usual_hub_may_be_named_by_the_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("HF_ENDPOINT", raising=False)
    assert endpoint_of(Access()) == "https://huggingface.co"
    monkeypatch.setenv("HF_ENDPOINT", "https://mirror.example/")
    assert endpoint_of(Access()) == "https://mirror.example"
    assert endpoint_of(Access(endpoint="https://own.example/")) == "https://own.example"
    monkeypatch.setenv("HF_ENDPOINT", "http://not.encrypted")
    assert endpoint_of(Access()) == "https://huggingface.co"


def test_a_keyring_that_lets_nothing_go_or_does_not_start(
    ring: Ring, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    assert keep_secret("a", TOKEN)
    ring.locked = True
    forget_secret("a")
    assert "does not let go" in caplog.text
    ring.locked = False
    assert kept_secret("a") == TOKEN

    def fails() -> None:
        raise RuntimeError("no session bus")

    monkeypatch.setattr(keyring, "get_keyring", fails)
    assert kept_secret("a") is None
    forget_secret("a")
    assert "there is no keyring: RuntimeError" in caplog.text
    assert TOKEN not in caplog.text

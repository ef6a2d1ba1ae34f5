"""No name of a stranger decides where a file goes."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from engine.hub.remote.files import (
    Danger,
    can_run_code,
    danger,
    is_commit,
    is_old_weights,
    is_repo,
    is_sha256,
)


@pytest.mark.parametrize(
    "path",
    [
        "model.safetensors",
        "Q4_K_M/model-00001-of-00003.gguf",
        ".gitattributes",
        "config.json",
        "一个模型.gguf",
        "a b (1).gguf",
        "console.json",
        "com10.gguf",
        "a..b.gguf",
    ],
)
def test_honest_names_are_taken(path: str) -> None:
    assert danger(path) is None


@pytest.mark.parametrize(
    "path",
    [
        "",
        None,
        7,
        "/etc/passwd",
        "../model.gguf",
        "a/../../model.gguf",
        "a/..",
        "..\\model.gguf",
        "\\\\server\\share\\model.gguf",
        "C:model.gguf",
        "c:/model.gguf",
        "a:stream.gguf",
        "a\0b.gguf",
        "a\nb.gguf",
        "a\x1b[2Jb.gguf",
        "a\u202egguf.exe",
        "a\udc80b.gguf",
    ],
)
def test_names_that_lead_out_or_deceive_are_dangerous(path: object) -> None:
    assert danger(path) is Danger.LEADS_OUT


@pytest.mark.parametrize(
    "path",
    [
        "onnx\\model.gguf",
        "a//b.gguf",
        "a/",
        "./a.gguf",
        "con",
        "AUX.json",
        "sub/nul.gguf",
        "COM1.tar.gz",
        "lpt³.gguf",
        "a?.gguf",
        "ab:stream.gguf",
        "a|b",
        "ends with a dot.",
        "ends with a space ",
        "a" * 121,
        "/".join(["abcdefgh"] * 30),
    ],
)
def test_names_that_some_system_cannot_store_are_left_out(path: str) -> None:
    assert danger(path) is Danger.CANNOT_BE_STORED


@given(st.text(max_size=40))
def test_whatever_is_taken_stays_in_its_folder(path: str) -> None:
    if danger(path) is None:
        parts = path.split("/")
        assert all(part not in ("", ".", "..") for part in parts)
        assert not set(path) & set("\\:\0\n\r")


@pytest.mark.parametrize("name", ["Qwen/Qwen3-0.6B", "gpt2", "a/b.c_d-e", "TheBloke/x-GGUF"])
def test_names_of_repositories(name: str) -> None:
    assert is_repo(name)


@pytest.mark.parametrize(
    "name",
    ["", "/", "a/", "/a", "a/b/c", "../a", "a/..", "a/b..c", "a b/c", "a/b?x", "a/b#", None, 3,
     "a" * 97, "a/b.git", "ü/x", "a/b%2f", "a--b/c", "a/b\n", ".a/b"],
)  # fmt: skip
def test_what_is_no_name_of_a_repository(name: object) -> None:
    assert not is_repo(name)


def test_hashes_are_complete_and_lower_case() -> None:
    assert is_commit("0123456789abcdef" * 2 + "01234567")
    assert is_sha256("0123456789abcdef" * 4)
    for wrong in ("", "main", "0" * 39, "0" * 41, "G" * 40, "A" * 40, "0" * 39 + "\n", None, 0):
        assert not is_commit(wrong)
    for wrong in ("", "0" * 63, "0" * 65, "g" * 64, "0" * 63 + "\n", None):
        assert not is_sha256(wrong)


def test_what_can_run_code_is_never_fetched() -> None:
    for name in ("pytorch_model.bin", "a/MODEL.PT", "modeling_x.py", "x.pkl", "x.llamafile"):
        assert can_run_code(name)
    for name in ("model.safetensors", "model.gguf", "tokenizer.json", "chat_template.jinja"):
        assert not can_run_code(name)
    assert is_old_weights("original/consolidated.00.pth")
    assert not is_old_weights("modeling.py")

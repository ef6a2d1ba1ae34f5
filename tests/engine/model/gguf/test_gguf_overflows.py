"""Counts, sizes, offsets and lengths that overflow in other programs' readers, in every version."""

from __future__ import annotations

import struct
from pathlib import Path

import pytest
from gguf_files import TEXT, U32, Info, header, padded, pair, text

from engine.errors import UserFixable
from engine.model.gguf.file import open_gguf
from engine.model.text.tokenizer import Tokenizer

VERSIONS = (1, 2, 3)
WRAPS = (2**31 - 1, 2**31, 2**32 - 1, 2**32, 2**32 + 1, 2**63 - 1, 2**63, 2**64 - 1)
"""As a signed or unsigned number of 32 or 64 bits, each is small or negative somewhere."""
DATA = bytes(4096)


def refused(folder: Path, contents: bytes, version: int) -> UserFixable:
    """The words for a file; version 1 is refused before anything of it is believed."""
    file = folder / "m.gguf"
    file.write_bytes(contents)
    with pytest.raises(UserFixable) as error:
        open_gguf(file)
    assert ("version 1" in error.value.cause) == (version == 1)
    return error.value


@pytest.mark.parametrize("version", VERSIONS)
@pytest.mark.parametrize(
    "dims",
    [
        (2**32, 2**32),  # 2**64 numbers: none
        (2**32, 2**32, 32),
        (2**16, 2**16, 2**16, 2**16),
        (2**33, 2**31 + 1),
        (2**62 + 8, 4),  # 32 numbers, modulo 2**64
        (32, 2**64 - 1),
        (2**64 - 32, 1),
        (2**63, 2, 1, 1),
    ],
    ids=str,
)
@pytest.mark.parametrize("kind", [0, 2, 12], ids=["F32", "Q4_0", "Q4_K"])
def test_dimensions_whose_product_overflows(
    tmp_path: Path, version: int, dims: tuple[int, ...], kind: int
) -> None:
    contents = padded(header(tensors=[Info(dims=dims, kind=kind)], version=version), DATA)
    refused(tmp_path, contents, version)


@pytest.mark.parametrize("version", VERSIONS)
@pytest.mark.parametrize(
    ("offset", "rows"),
    [
        (2**64 - 32, 1),  # its end is byte 96 of the data, modulo 2**64
        (2**64 - 128, 1),
        (2**63, 1),
        (2**32, 1),
        (4096, 1),  # begins where the file ends
        (4096 - 96, 1),  # ends 32 bytes behind it
        (32, 32),
    ],
)
def test_an_offset_whose_tensor_ends_outside_the_file(
    tmp_path: Path, version: int, offset: int, rows: int
) -> None:
    whole = padded(header(tensors=[Info(dims=(32, rows), offset=offset)], version=version), DATA)
    refused(tmp_path, whole, version)
    if version > 1:
        fits = Info(dims=(32, 1), offset=4096 - 128)
        (tmp_path / "m.gguf").write_bytes(padded(header(tensors=[fits], version=version), DATA))
        (tensor,) = open_gguf(tmp_path / "m.gguf").tensors.values()
        assert tensor.begin + tensor.nbytes == (tmp_path / "m.gguf").stat().st_size


@pytest.mark.parametrize("version", VERSIONS)
@pytest.mark.parametrize("length", WRAPS, ids=hex)
def test_lengths_of_texts_lists_and_names(tmp_path: Path, version: int, length: int) -> None:
    """Of 64 bits; version 1 had 32, which a reader of that version must not mix up."""
    wide = struct.pack("<Q", length)
    key = text("k")
    for pairs in (
        [wide + b"k"],  # a key
        [key + struct.pack("<I", 8) + wide],  # a text
        [key + struct.pack("<II", 9, 8) + wide],  # a list of texts
        [key + struct.pack("<IIQ", 9, 8, 1) + wide],  # a text in a list
        *([key + struct.pack("<II", 9, kind) + wide] for kind in (0, 1, 5, 10, 12)),
    ):
        refused(tmp_path, padded(header(pairs, version=version), DATA), version)
    named = header(tensor_count=1, version=version) + wide + b"w" + bytes(40)
    refused(tmp_path, padded(named, DATA), version)


@pytest.mark.parametrize("version", VERSIONS)
@pytest.mark.parametrize("count", WRAPS, ids=hex)
def test_counts_of_pairs_and_tensors(tmp_path: Path, version: int, count: int) -> None:
    for counts in ({"pair_count": count}, {"tensor_count": count}):
        refused(tmp_path, padded(header(version=version, **counts), DATA), version)
    small = struct.pack("<IIQ", 9, 0, count)
    refused(tmp_path, padded(header([text("k") + small], version=version), DATA), version)


@pytest.mark.parametrize("version", VERSIONS)
def test_alignments_that_make_positions_overflow(tmp_path: Path, version: int) -> None:
    for alignment in (0, 2**31, 2**32 - 1, 3):
        pairs = [pair("general.alignment", U32, alignment)]
        refused(tmp_path, padded(header(pairs, [Info()], version=version), DATA), version)


@pytest.mark.parametrize("kind", ["llama", "gpt2"])
def test_a_token_of_many_bytes(kind: str) -> None:
    """llama.cpp's tokenizer compared and copied lengths as signed numbers of 32 bits."""
    tokens = ("<unk>", "<s>", "</s>", "a", "b" * 70_000, "\u4f60" * 30_000)
    metadata = {
        "tokenizer.ggml.model": kind,
        "tokenizer.ggml.tokens": tokens,
        "tokenizer.ggml.scores": [0.0] * len(tokens),
        "tokenizer.ggml.token_type": [2, 3, 3, 1, 1, 1],
        "tokenizer.ggml.merges": (),
    }
    with pytest.raises(UserFixable, match="list of tokens is damaged"):
        Tokenizer.from_gguf(metadata)


def test_version_one_is_refused_before_its_texts_are_decoded(tmp_path: Path) -> None:
    """A text of version 1 with a length of zero, or of its own end: others read before the text."""
    for length in (0, 1, 2**32 - 1):
        contents = b"GGUF" + struct.pack("<IIII", 1, 0, 1, length) + bytes(60)
        error = refused(tmp_path, contents, 1)
        assert "convert it again" in error.remedy
    whole = header([pair("general.architecture", TEXT, "llama")], version=1)
    refused(tmp_path, padded(whole, DATA), 1)

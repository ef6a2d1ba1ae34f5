"""GGUF files: what llama.cpp's own writer writes, parts of a split model, and broken files."""

from __future__ import annotations

from pathlib import Path

import gguf
import numpy as np
import pytest
from gguf_files import F32, FLAG, LIST, TEXT, U32, Info, header, padded, pair, text

from engine.errors import UserFixable
from engine.model.gguf.file import GgufFile, open_gguf
from engine.model.gguf.header import KINDS

DATA = bytes(4 * 32 * 4)


def written(file: Path, contents: bytes) -> Path:
    file.write_bytes(contents)
    return file


def opened(folder: Path, contents: bytes) -> GgufFile:
    return open_gguf(written(folder / "m.gguf", contents))


def test_reads_what_the_gguf_package_writes(tmp_path: Path) -> None:
    rng = np.random.default_rng(0)
    weights = {
        "a": rng.standard_normal((6, 32), dtype=np.float32),
        "b": rng.standard_normal((2, 3, 32)).astype(np.float16),
        "q": rng.standard_normal((4, 256), dtype=np.float32),
    }
    writer = gguf.GGUFWriter(tmp_path / "m.gguf", "qwen2")
    writer.add_block_count(3)
    writer.add_layer_norm_rms_eps(1e-5)
    writer.add_add_bos_token(value=False)
    writer.add_token_list(["<s>", "é", "日本", ""])
    writer.add_token_scores([0.5, -1.0, 2.0, 0.0])
    writer.add_array("flags", [True, False])
    writer.add_uint64("big", 2**63)
    writer.add_int8("small", -3)
    writer.add_float64("wide", 0.1)
    packed = gguf.quantize(weights["q"], gguf.GGMLQuantizationType.Q8_0)
    for name in "ab":
        writer.add_tensor(name, weights[name])
    writer.add_tensor("q", packed, raw_dtype=gguf.GGMLQuantizationType.Q8_0)
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()

    model = open_gguf(tmp_path / "m.gguf")
    metadata = model.metadata
    assert metadata.text("general.architecture") == "qwen2"
    assert metadata.integer("qwen2.block_count", 1, 10) == 3
    assert metadata.number("qwen2.attention.layer_norm_rms_epsilon", 0, 1) == np.float32(1e-5)
    assert metadata.flag("tokenizer.ggml.add_bos_token", default=True) is False
    assert metadata.texts("tokenizer.ggml.tokens") == ("<s>", "é", "日本", "")
    assert metadata.numbers("tokenizer.ggml.scores", -9, 9) == (0.5, -1.0, 2.0, 0.0)
    assert metadata.items("flags") == (True, False)
    assert metadata.values["big"] == 2**63
    assert metadata.integers("small", -5, 5) == (-3,)
    assert metadata.values["wide"] == 0.1
    assert metadata.texts("none") == metadata.numbers("none", 0, 1) == metadata.items("none") == ()

    assert {name: (one.kind, one.shape) for name, one in model.tensors.items()} == {
        "a": ("F32", (6, 32)),
        "b": ("F16", (2, 3, 32)),
        "q": ("Q8_0", (4, 256)),
    }
    raw = (tmp_path / "m.gguf").read_bytes()
    stored = {"a": weights["a"], "b": weights["b"], "q": packed}
    for name, tensor in model.tensors.items():
        assert raw[tensor.begin : tensor.begin + tensor.nbytes] == stored[name].tobytes()


def test_block_sizes_are_those_of_the_gguf_package() -> None:
    for kind, (numbers, nbytes) in gguf.GGML_QUANT_SIZES.items():
        ours = KINDS[kind.value]
        assert (ours.name, ours.numbers) == (kind.name, numbers)
        assert ours.nbytes == nbytes or kind.name == "Q8_1"  # never in files


def test_metadata_is_read_with_type_and_range(tmp_path: Path) -> None:
    pairs = [
        pair("a.count", U32, 7),
        pair("a.scale", F32, float("nan")),
        pair("a.words", TEXT, ["x"]),
        pair("odd", TEXT, b"caf\xe9"),
    ]
    metadata = opened(tmp_path, header(pairs)).metadata
    for read in (
        lambda: metadata.integer("a.count", 8, 9),
        lambda: metadata.number("a.scale", 0, 1),
        lambda: metadata.texts("a.count"),
        lambda: metadata.numbers("a.words", 0, 1),
        lambda: metadata.text("a.words"),
        lambda: metadata.integer("a.none", 0, 1),
    ):
        with pytest.raises(UserFixable, match=r"m\.gguf is not usable: “a\."):
            read()
    assert metadata.text("odd") == "caf�"


def test_an_unusual_alignment_and_gaps(tmp_path: Path) -> None:
    pairs = [pair("general.alignment", U32, 256)]
    head = header(pairs, [Info("v", offset=256), Info("w", (4,))], version=2)
    model = opened(tmp_path, padded(head, bytes(256) + DATA, 256))
    assert [one.begin % 256 for one in model.tensors.values()] == [0, 0]
    assert model.tensors["v"].begin - model.tensors["w"].begin == 256


@pytest.mark.parametrize(
    ("contents", "word"),
    [
        (header(magic=b"GGML"), "not a GGUF file"),
        (header(version=1), "version 1 of GGUF"),
        (header(version=4), "version 4 of GGUF"),
        (header(version=3 << 24), "big-endian"),
        (header(tensor_count=2**60), "ends within"),
        (header(pair_count=2**64 - 1), "ends within"),
        (header(pair_count=70_000) + bytes(1_000_000), "70,000 entries"),
        (header(pair_count=1) + b"\xff" * 8 + bytes(20), "ends within"),
        (header([pair(b"k\xff", U32, 1)]), "not text"),
        (header([pair("k\n", U32, 1)]), "not text"),
        (header([pair("k" * 2000, U32, 1)]), "2000 bytes"),
        (header([pair("k", U32, 1), pair("k", U32, 1)]), "“k” occurs twice"),
        (header([text("k") + b"\x0d\0\0\0" + bytes(9)]), "does not have"),
        (header([pair("k", LIST, [])]), "does not have"),
        (header([text("k") + b"\x09\0\0\0\x04\0\0\0" + b"\xff" * 8]), "ends within"),
        (header([text("k") + b"\x09\0\0\0\x08\0\0\0" + b"\xff" * 8]), "ends within"),
        (header([text("k") + b"\x08\0\0\0" + b"\xff" * 8]), "ends within"),
        (header([pair("general.alignment", U32, 0)]), "power of two"),
        (header([pair("general.alignment", U32, 24)]), "power of two"),
        (header([pair("general.alignment", U32, 2**31)]), "power of two"),
        (header([pair("general.alignment", FLAG, content=True)]), "power of two"),
        (header([pair("general.alignment", TEXT, "32")]), "power of two"),
    ],
)
def test_hostile_metadata(tmp_path: Path, contents: bytes, word: str) -> None:
    with pytest.raises(UserFixable, match=word):
        opened(tmp_path, padded(contents))


@pytest.mark.parametrize(
    ("tensors", "word"),
    [
        ([Info(), Info()], "“w” occurs twice"),
        ([Info(b"\xff")], "not text"),
        ([Info(dims=())], "0 dimensions"),
        ([Info(dims=(1,) * 5)], "5 dimensions"),
        ([Info(dims=(0, 4))], "rows of 0 numbers"),
        ([Info(dims=(32, 0))], "cannot hold"),
        ([Info(dims=(2**62, 2**62, 2**62, 2**62))], "incomplete"),
        ([Info(dims=(33, 4), kind=2)], "rows of 33 numbers, which Q4_0"),
        ([Info(kind=4)], "type 4, which Duotail does not know"),
        ([Info(kind=2**31)], "does not know"),
        ([Info(offset=8)], "invalid position"),
        ([Info(offset=2**63)], "incomplete"),
        ([Info(), Info("v", offset=256)], "overlaps another"),
    ],
)
def test_hostile_tensors(tmp_path: Path, tensors: list[Info], word: str) -> None:
    with pytest.raises(UserFixable, match=word):
        opened(tmp_path, padded(header(tensors=tensors), DATA))


def test_truncated_anywhere_is_incomplete(tmp_path: Path) -> None:
    head = header([pair("a.words", TEXT, ["x", "y"]), pair("a.b", U32, 1)], [Info()])
    whole = padded(head, DATA)
    for size in range(len(whole)):
        with pytest.raises(UserFixable, match="incomplete" if size else "is empty") as error:
            opened(tmp_path, whole[:size])
        assert (f"{size} of {len(whole)}" in str(error.value)) == (size >= len(head))
    assert opened(tmp_path, whole).tensors


def test_files_that_cannot_be_read(tmp_path: Path) -> None:
    for path in (tmp_path, tmp_path / "nowhere.gguf"):
        with pytest.raises(UserFixable, match="cannot be read"):
            open_gguf(path)


def part(folder: Path, number: int, of: int = 3, **changes: object) -> Path:
    """One part of a model, with a tensor of its own."""
    says = {"no": number - 1, "count": of, "tensors": 3, "tensor": f"w{number}", **changes}
    pairs = [
        pair("split.no", 2, says["no"]),
        pair("split.count", 2, says["count"]),
        pair("split.tensors.count", 5, says["tensors"]),
    ]
    if "architecture" in changes or number == 1:
        pairs.append(pair("general.architecture", TEXT, says.get("architecture", "llama")))
    contents = padded(header(pairs, [Info(str(says["tensor"]))]), DATA)
    return written(folder / f"m-{number:05}-of-{of:05}.gguf", contents)


def test_any_part_opens_the_whole_model(tmp_path: Path) -> None:
    parts = [part(tmp_path, number) for number in (1, 2, 3)]
    for path in parts:
        model = open_gguf(path)
        assert model.files == tuple(parts)
        assert model.metadata.text("general.architecture") == "llama"
        assert {name: one.file for name, one in model.tensors.items()} == {
            f"w{number}": file for number, file in enumerate(parts, 1)
        }


def test_parts_named_in_capitals(tmp_path: Path) -> None:
    parts = [part(tmp_path, number) for number in (1, 2, 3)]
    parts = [file.rename(file.with_suffix(".GGUF")) for file in parts]
    assert open_gguf(parts[1]).files == tuple(parts)


def test_parts_that_were_joined_end_to_end(tmp_path: Path) -> None:
    whole = b"".join(part(tmp_path, number).read_bytes() for number in (1, 2, 3))
    with pytest.raises(UserFixable, match=r"3 parts .*one behind the other"):
        open_gguf(written(tmp_path / "joined.gguf", whole))


def test_missing_parts_are_named(tmp_path: Path) -> None:
    path = part(tmp_path, 2, 5)
    with pytest.raises(UserFixable, match=r"4 of 5 .*m-00001-of-00005\.gguf.*\.\.\."):
        open_gguf(path)


@pytest.mark.parametrize("name", ["m.gguf", "m-00003-of-00003.gguf", "m-00002-of-00004.gguf"])
def test_a_renamed_part_says_what_it_should_be_called(tmp_path: Path, name: str) -> None:
    path = part(tmp_path, 2).rename(tmp_path / name)
    with pytest.raises(UserFixable, match=r"part 2 of 3 .*“-00002-of-00003\.gguf”"):
        open_gguf(path)


@pytest.mark.parametrize(
    ("changes", "word"),
    [
        ({"no": 0}, "different models"),
        ({"count": 4}, "different models"),
        ({"architecture": "qwen2"}, "different models"),
        ({"tensor": "w1"}, "also in another"),
    ],
)
def test_parts_of_different_models(tmp_path: Path, changes: dict[str, object], word: str) -> None:
    first, _ = part(tmp_path, 1), part(tmp_path, 2)
    part(tmp_path, 3, **changes)
    with pytest.raises(UserFixable, match=word):
        open_gguf(first)


def test_parts_that_hold_too_little(tmp_path: Path) -> None:
    first, _ = part(tmp_path, 1, 2), part(tmp_path, 2, 2)
    with pytest.raises(UserFixable, match="different models"):
        open_gguf(first)


def test_the_same_architecture_may_be_said_again(tmp_path: Path) -> None:
    part(tmp_path, 1, 2, tensors=2)
    assert len(open_gguf(part(tmp_path, 2, 2, architecture="llama")).tensors) == 2

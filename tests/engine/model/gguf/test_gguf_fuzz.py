"""Thousands of broken GGUF headers: each gives a model or a sentence, in little time and room."""

from __future__ import annotations

import os
import random
import struct
import subprocess
import sys
import time
import tracemalloc
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
from gguf_files import F32, FLAG, TEXT, U32, Info, header, padded, pair

from engine.errors import UserFixable
from engine.model.gguf.config import model_config
from engine.model.gguf.file import open_gguf

SECONDS = 1.0
"""Processor time that one header may take: a thousand times what it takes."""
HOSTILE = [struct.pack("<Q", value) for value in (2**64 - 1, 2**63, 2**60, 2**40, 2**31, 0)]


def model() -> tuple[bytes, int]:
    """A small model of some 100 kB, and the size of its header."""
    words = [f"token{n}é" for n in range(40)]
    pairs = [
        pair("general.architecture", TEXT, "llama"),
        pair("general.alignment", U32, 32),
        pair("llama.block_count", U32, 1),
        pair("llama.embedding_length", U32, 64),
        pair("llama.feed_forward_length", U32, 64),
        pair("llama.attention.head_count", U32, 4),
        pair("llama.context_length", U32, 128),
        pair("llama.attention.layer_norm_rms_epsilon", F32, 1e-5),
        pair("llama.rope.freq_base", 12, 1e4),
        pair("tokenizer.ggml.add_bos_token", FLAG, content=True),
        pair("tokenizer.ggml.tokens", TEXT, words),
        pair("tokenizer.ggml.scores", F32, [float(n) for n in range(40)]),
        pair("tokenizer.ggml.token_type", 5, [1] * 40),
    ]
    tensors, end = [], 0
    for name, dims, kind, nbytes in (
        ("token_embd.weight", (64, 150), 1, 19_200),
        ("blk.0.attn_q.weight", (256, 64), 12, 9_216),
        ("blk.0.ffn_gate_exps.weight", (64, 64, 4), 0, 65_536),
        ("blk.0.attn_norm.weight", (64,), 0, 256),
        ("output.weight", (64, 150), 8, 10_200),
    ):
        tensors.append(Info(name, dims, kind, end))
        end += -(-nbytes // 32) * 32
    head = header(pairs, tensors)
    return padded(head, bytes(end)), len(head)


def broken(rng: random.Random, head: bytes) -> bytes:
    """One of the ways in which a header can be wrong; never longer than it was."""
    raw = bytearray(head)
    for _ in range(rng.choice((1, 1, 1, 2, 5))):
        at = rng.randrange(len(raw))
        way = rng.randrange(6)
        if way == 0:  # a bit
            raw[at] ^= 1 << rng.randrange(8)
        elif way == 1:  # a byte
            raw[at] = rng.choice((0, 1, 4, 8, 9, 0x7F, 0x80, 0xFF, rng.randrange(256)))
        elif way == 2:  # a count, a length, a size, an offset
            raw[at : at + 8] = rng.choice(HOSTILE)
        elif way == 3:  # a piece again, elsewhere: names and offsets twice, types of others
            start, length = rng.randrange(len(raw)), rng.choice((1, 4, 8, 32))
            raw[at : at + length] = raw[start : start + length]
        elif way == 4:  # the counts at the front and the tensors at the end, which are few
            at = rng.choice((8, 16, len(raw) - rng.randrange(1, 300)))
            raw[at : at + 8] = rng.choice((*HOSTILE, struct.pack("<Q", rng.randrange(400))))
        else:  # a piece left out
            del raw[at : at + rng.choice((1, 4, 8))]
    return bytes(raw[: len(head)]).ljust(len(head), b"\0")


@contextmanager
def changed(file: Path, whole: bytes, head: bytes, size: int) -> Iterator[None]:
    """The file with another header and size, and whole again afterwards."""
    with file.open("r+b", buffering=0) as stream:
        stream.write(head)
        os.truncate(stream.fileno(), size)
        try:
            yield
        finally:
            stream.seek(0)
            stream.write(whole if size < len(whole) else whole[: len(head)])


@pytest.mark.parametrize(
    "count",
    [1_500, pytest.param(10_000, marks=pytest.mark.release(reason="ten thousand files"))],
)
def test_broken_headers(count: int, tmp_path: Path) -> None:
    whole, head_size = model()
    file = tmp_path / "m.gguf"
    file.write_bytes(whole)
    assert model_config(open_gguf(file)).vocab_size == 150
    rng = random.Random(5)
    read, refused, slowest, most = 0, set[str](), 0.0, 0
    tracemalloc.start()
    try:
        for _ in range(count):
            head = broken(rng, whole[:head_size])
            cut = rng.random() < 0.1
            with changed(file, whole, head, rng.randrange(len(whole)) if cut else len(whole)):
                tracemalloc.reset_peak()
                before, start = tracemalloc.get_traced_memory()[0], time.thread_time()
                try:
                    read += bool(model_config(open_gguf(file)))
                except UserFixable as error:
                    check_sentence(error)
                    refused.add(error.cause)
                slowest = max(slowest, time.thread_time() - start)
                most = max(most, tracemalloc.get_traced_memory()[1] - before)
    finally:
        tracemalloc.stop()
    assert count // 20 < read < count - count // 5
    assert len(refused) > count // 20
    assert slowest < SECONDS
    assert most < 4 * len(whole)  # the worst: nothing but empty texts


def check_sentence(error: UserFixable) -> None:
    assert error.cause.startswith(("m.gguf ", "Duotail cannot run this model yet: "))
    assert error.cause.endswith(".")
    assert error.cause.isprintable()
    assert 20 < len(error.cause) < 300
    assert error.remedy.endswith(".")


LITTLE_ROOM = """
import resource, sys
from pathlib import Path
from engine.errors import UserFixable
from engine.model.gguf.file import open_gguf
used = int(Path("/proc/self/statm").read_text().split()[0]) * resource.getpagesize()
resource.setrlimit(resource.RLIMIT_AS, (used + (64 << 20), used + (64 << 20)))
for name in sys.argv[1:]:
    try:
        open_gguf(Path(name))
        print("read")
    except UserFixable as error:
        print(error.cause)
"""


@pytest.mark.skipif(not Path("/proc/self/statm").exists(), reason="limits memory as Linux does")
def test_huge_counts_in_little_memory(tmp_path: Path) -> None:
    """Files of many GiB (of holes) that claim to be full of entries, with 64 MiB of room."""
    huge = b"\xff\xff\xff\xff\xff\xff\xff\x0f"
    many = struct.pack("<Q", 2**32)
    key = struct.pack("<Q", 1) + b"k"
    heads = [
        header(tensor_count=2**60),
        header(pair_count=2**60),
        header(pair_count=2**32),
        header(pair_count=1) + huge,
        header(pair_count=1) + many,
        header(pair_count=1) + key + struct.pack("<I", 8) + many,
        header(pair_count=1) + key + struct.pack("<II", 9, 0) + many,
        header(pair_count=1) + key + struct.pack("<II", 9, 10) + huge,
        header(pair_count=1) + key + struct.pack("<II", 9, 8) + huge,
        header(tensors=[Info(dims=(2**30, 2**30, 2**30, 2**30))]),
        header(pair_count=1) + key + struct.pack("<IIQ", 9, 8, 2**23),
    ]
    files = []
    for number, head in enumerate(heads):
        files.append(tmp_path / f"{number}.gguf")
        with files[-1].open("wb") as stream:
            stream.write(head)
            os.truncate(stream.fileno(), 64 << 30)
    child = subprocess.run(
        [sys.executable, "-c", LITTLE_ROOM, *map(str, files)],
        capture_output=True,
        text=True,
        timeout=300,
        check=True,
        cwd=Path(__file__).parents[4],
    )
    lines = child.stdout.splitlines()
    assert len(lines) == len(heads)
    assert all(line.endswith(".") for line in lines), lines
    assert "8,388,608 entries" in lines[-1]

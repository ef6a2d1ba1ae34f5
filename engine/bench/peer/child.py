"""llama.cpp by llama-cpp-python, as `serve.py` serves it.

After a "write" request the tensors' bytes follow on stdin.
"""

from __future__ import annotations

import base64
import ctypes
from collections.abc import Callable, Mapping, Sequence
from time import perf_counter
from typing import Any, BinaryIO

import gguf
import llama_cpp as llama
import numpy as np
from numpy.typing import NDArray

FILL = 512
"""Tokens of a prompt per llama_decode, llama.cpp's own default of a physical batch."""

KV_TYPES = {"f16": llama.GGML_TYPE_F16, "f32": llama.GGML_TYPE_F32}

Result = dict[str, object]


class Peer:
    """One model, one context, and what llama.cpp says while loading."""

    def __init__(self, requests: BinaryIO) -> None:
        self._requests = requests
        self._lines: list[str] = []
        self._model: Any = None
        self._context: Any = None
        self._batch: Any = llama.llama_batch_init(FILL, 0, 1)
        self._vocab = 0
        self._kept: tuple[int, Any] = (0, None)
        # The callback must live as long as llama.cpp may log.
        self._logger = llama.llama_log_callback(self._log)
        llama.llama_log_set(self._logger, ctypes.c_void_p(0))
        llama.llama_backend_init()

    def _log(self, _level: int, text: bytes, _data: object) -> None:
        self._lines.append(text.decode("utf-8", "replace"))

    def write(
        self,
        path: str,
        architecture: str,
        metadata: Mapping[str, str | int | float | list[int] | list[bool]],
        tensors: Sequence[tuple[str, Sequence[int], str, int]],
    ) -> Result:
        """A GGUF file of tensors whose bytes come next on stdin."""
        writer = gguf.GGUFWriter(path, architecture)
        add: dict[type, Callable[..., None]] = {
            str: writer.add_string,
            int: writer.add_uint32,
            float: writer.add_float32,
            list: writer.add_array,
        }
        for key, value in metadata.items():
            add[type(value)](key, value)
        for name, shape, kind, size in tensors:
            raw = gguf.GGMLQuantizationType[kind]
            writer.add_tensor_info(name, shape, np.dtype(np.float32), size, raw_dtype=raw)
        writer.write_header_to_file()
        writer.write_kv_data_to_file()
        writer.write_ti_data_to_file()
        for _name, _shape, _kind, size in tensors:
            writer.write_tensor_data(np.frombuffer(self._requests.read(size), dtype=np.uint8))
        writer.close()
        return {}

    def load(self, path: str) -> Result:
        """Load a file, with the repacking that llama.cpp does by itself."""
        self._lines.clear()
        self._model = llama.llama_model_load_from_file(
            path.encode(), llama.llama_model_default_params()
        )
        if not self._model:
            raise RuntimeError("llama.cpp cannot load the model: " + "".join(self._lines[-10:]))
        vocab = llama.llama_model_get_vocab(self._model)
        self._vocab = llama.llama_vocab_n_tokens(vocab)
        return {
            "package": llama.__version__,
            "version": llama.llama_version().decode(),
            "commit": _commit(),
            "system": llama.llama_print_system_info().decode(),
            "buffers": [_words(line) for line in self._lines if "model buffer size" in line],
        }

    def context(
        self, threads: int, size: int, rows: int, flash_attention: bool, kv: str = "f16"
    ) -> Result:
        """A fresh context of `size` tokens, logits of at most `rows` rows per forward.

        Keys and values are kept in f16 or f32.
        """
        if self._context:
            llama.llama_free(self._context)
        wish = llama.llama_context_default_params()
        wish.n_ctx, wish.n_batch, wish.n_ubatch = size, FILL, FILL
        wish.n_outputs_max = rows
        wish.n_threads = wish.n_threads_batch = threads
        wish.flash_attn_type = (
            llama.LLAMA_FLASH_ATTN_TYPE_ENABLED
            if flash_attention
            else llama.LLAMA_FLASH_ATTN_TYPE_DISABLED
        )
        wish.type_k = wish.type_v = KV_TYPES[kv]
        wish.no_perf = True
        self._context = llama.llama_init_from_model(self._model, wish)
        if not self._context:
            raise RuntimeError("llama.cpp gives no context: " + "".join(self._lines[-10:]))
        return {}

    def prefill(self, tokens: Sequence[int], runs: int) -> Result:
        """Seconds from nothing to the last token's logits, each run; the tokens stay."""
        return {"seconds": [self._timed(tokens, start=0, rows=1) for _ in range(runs)]}

    def forward(
        self, tokens: Sequence[int], start: int, counts: Sequence[int], runs: int
    ) -> Result:
        """Seconds of forwards over the first n `tokens` behind `start` others, logits of all rows.

        The counts take turns; what a forward adds is rolled back.
        """
        seconds: list[list[float]] = [[] for _ in counts]
        self._keep(start)
        for _ in range(runs):
            for count, times in zip(counts, seconds, strict=True):
                times.append(self._timed(tokens[:count], start, rows=count))
        self._roll_back(start)
        return {"seconds": seconds}

    def answer(self, tokens: Sequence[int], count: int, temperature: float, seed: int) -> Result:
        """Write `count` tokens behind a prompt, whatever they are; seconds from first to last."""
        sampler = _sampler(temperature, seed)
        self._roll_back(0)
        self._decode(tokens, 0, rows=1)
        written = [llama.llama_sampler_sample(sampler, self._context, -1)]
        began = perf_counter()
        while len(written) < count:
            self._decode(written[-1:], len(tokens) + len(written) - 1, rows=1)
            written.append(llama.llama_sampler_sample(sampler, self._context, -1))
        seconds = perf_counter() - began
        llama.llama_sampler_free(sampler)
        return {"tokens": written, "seconds": seconds}

    def logits(self, tokens: Sequence[int]) -> Result:
        """All logits of a short text, fp32 [tokens, vocabulary] in base64."""
        self._roll_back(0)
        rows = self._decode(tokens, 0, rows=len(tokens))
        return {"logits": base64.b64encode(rows.astype("<f4").tobytes()).decode()}

    def _timed(self, tokens: Sequence[int], start: int, rows: int) -> float:
        self._roll_back(start)
        began = perf_counter()
        self._decode(tokens, start, rows)
        return perf_counter() - began

    def _decode(self, tokens: Sequence[int], start: int, rows: int) -> NDArray[np.float32]:
        """Forward in llama.cpp's own portions; logits of the last `rows` tokens."""
        batch, silent = self._batch, len(tokens) - rows
        for first in range(0, len(tokens), FILL):
            portion = tokens[first : first + FILL]
            batch.n_tokens = len(portion)
            for index, token in enumerate(portion):
                batch.token[index] = token
                batch.pos[index] = start + first + index
                batch.n_seq_id[index] = 1
                batch.seq_id[index][0] = 0
                batch.logits[index] = first + index >= silent
            if status := llama.llama_decode(self._context, batch):
                raise RuntimeError(f"llama_decode failed with {status}")
        values = llama.llama_get_logits(self._context)  # waits until they are there
        return np.ctypeslib.as_array(values, (rows, self._vocab))

    def _keep(self, length: int) -> None:
        """Copy a sequence of this length whose last tokens cannot be forgotten one by one."""
        held = llama.llama_memory_seq_pos_max(llama.llama_get_memory(self._context), 0) + 1
        if llama.llama_model_is_hybrid(self._model) and held == length:
            copy = (ctypes.c_uint8 * llama.llama_state_seq_get_size(self._context, 0))()
            llama.llama_state_seq_get_data(self._context, copy, len(copy), 0)
            self._kept = (length, copy)

    def _roll_back(self, length: int) -> None:
        memory = llama.llama_get_memory(self._context)
        if llama.llama_memory_seq_rm(memory, 0, length, -1):
            return
        kept, copy = self._kept
        if kept != length or copy is None:
            raise RuntimeError("llama.cpp cannot forget the last tokens")
        llama.llama_memory_seq_rm(memory, 0, 0, -1)
        if not llama.llama_state_seq_set_data(self._context, copy, len(copy), 0):
            raise RuntimeError("llama.cpp cannot go back to a kept state")


def _sampler(temperature: float, seed: int) -> llama.llama_sampler_p:
    """llama.cpp's own, without filters."""
    chain = llama.llama_sampler_chain_init(llama.llama_sampler_chain_default_params())
    if temperature:
        llama.llama_sampler_chain_add(chain, llama.llama_sampler_init_temp(temperature))
        llama.llama_sampler_chain_add(chain, llama.llama_sampler_init_dist(seed % 2**32))
    else:
        llama.llama_sampler_chain_add(chain, llama.llama_sampler_init_greedy())
    return chain


def _commit() -> str:
    from llama_cpp._ggml import libggml

    libggml.ggml_commit.restype = ctypes.c_char_p
    return str(libggml.ggml_commit().decode())


def _words(line: str) -> str:
    return " ".join(line.partition(":")[2].split())


PEER = Peer

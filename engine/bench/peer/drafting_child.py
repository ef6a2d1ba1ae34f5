"""llama.cpp that drafts, by xllamacpp, as `serve.py` serves it.

Its server listens on this machine alone, at a port that nobody is told; requests do not pass it.
"""

from __future__ import annotations

from typing import Any, BinaryIO

import xllamacpp as llama

Result = dict[str, object]


class DraftingPeer:
    """One target with its draft."""

    def __init__(self, _requests: BinaryIO) -> None:
        self._server: Any = None

    def load(self, target: str, draft: str, threads: int, context: int) -> Result:
        """Load two GGUF files; all that is not told is as llama.cpp has it."""
        wish = llama.CommonParams()
        wish.model.path = target
        wish.n_ctx, wish.n_parallel, wish.cache_ram_mib = context, 1, 0
        drafting = wish.speculative
        drafting.types = [llama.common_speculative_type.COMMON_SPECULATIVE_TYPE_DRAFT_SIMPLE]
        drafting.draft.mparams.path = draft
        pools = (wish, drafting.draft)
        for pool in [each for one in pools for each in (one.cpuparams, one.cpuparams_batch)]:
            pool.n_threads = threads
        self._server = llama.Server(wish)
        return {"package": llama.__version__, "depth": drafting.draft.n_max}

    def answer(self, tokens: list[int], count: int, temperature: float, seed: int) -> Result:
        """Write `count` tokens behind a prompt, whatever they are; seconds from first to last."""
        answer = self._server.handle_completions(
            {
                "prompt": tokens,
                "max_tokens": count,
                "ignore_eos": True,
                "cache_prompt": False,
                "temperature": temperature,
                "samplers": ["temperature"] if temperature else ["top_k"],
                "top_k": 1,
                "seed": seed % 2**32,
            }
        )
        timings = answer["timings"]
        if timings["predicted_n"] != count:
            raise RuntimeError(f"{timings['predicted_n']} tokens instead of {count}")
        return {
            "text": answer["choices"][0]["text"],
            "seconds": timings["predicted_ms"] / 1e3,
            "drafted": timings.get("draft_n", 0),
            "accepted": timings.get("draft_n_accepted", 0),
        }


PEER = DraftingPeer

"""Embeddings by a model that was chosen for them, beside the one that chats."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from time import perf_counter

from engine.encoder.encoder import Embedded, Encoder, TooLong
from engine.server.api_error import too_many_tokens
from engine.server.dialects.embeddings import Vectors


class Embedder:
    """Embeds texts in a thread, those of one request after those of another.

    No turn is waited for: these models read a text at once, while an answer is written.

    Args:
        encoder: the model.
    """

    def __init__(self, encoder: Encoder) -> None:
        self._encoder, self._one = encoder, asyncio.Lock()
        self.name = encoder.name
        self.longest, self.nbytes = encoder.longest, encoder.nbytes

    def is_called(self, name: str | None) -> bool:
        """Return whether a request may mean this model by a name."""
        asked = (name or "").removesuffix(":latest")
        return asked in ("", self.name) or asked.casefold() == self.name.casefold()

    async def embed(self, texts: Sequence[str]) -> Vectors:
        """Return what texts mean.

        Raises:
            ApiError: one is longer than the model reads.
        """
        async with self._one:
            began, found = perf_counter(), list[Embedded]()
            for text in texts:
                try:
                    found.append(await asyncio.to_thread(self._encoder.embed, text))
                except TooLong as error:
                    raise too_many_tokens(error.tokens, error.most, "input") from None
            return Vectors(
                self.name,
                [each.vector.tolist() for each in found],
                sum(each.tokens for each in found),
                perf_counter() - began,
            )

"""Answers of a model in training, many at a time: samples to look at, texts for its drafts."""

from __future__ import annotations

from collections.abc import Sequence
from copy import deepcopy

import torch
from torch import Tensor
from torch.nn import functional

from engine.train.modules import Draft, KeysValues


class Writer:
    """Writes on with a copy of a model in bf16.

    Args:
        model: a Llama of its own.
        end: the token that ends an answer.
        longest: tokens of prompt and answer together.
        seed: of what is drawn.
    """

    def __init__(self, model: Draft, end: int, longest: int, seed: int = 0) -> None:
        self._model = deepcopy(model).eval().to(torch.bfloat16)
        output = self._model.output
        if output is None:
            raise ValueError("a head cannot write")
        self._output: Tensor = output
        self._end, self._longest = end, longest
        self._rng = torch.Generator(output.device).manual_seed(seed)

    @torch.no_grad()
    def write(
        self, prompts: Sequence[Sequence[int]], most: int, temperature: float = 0.0
    ) -> list[list[int]]:
        """An answer to each prompt, its end included where it comes within `most` tokens.

        Args:
            prompts: all of one length, so that no row needs filling.
            temperature: 0: always the likeliest token.
        """
        tokens = torch.tensor(prompts, device=self._output.device)
        most = min(most, self._longest - tokens.shape[1])
        answers: list[list[int]] = [[] for _ in prompts]
        rows = list(range(len(prompts)))
        kept: list[KeysValues] | None = None
        for _ in range(most):
            with torch.autocast(tokens.device.type, dtype=torch.bfloat16):
                hidden, kept = self._model.go_on(tokens, kept)
                logits = functional.linear(hidden[:, -1], self._output).float()
            chosen = self._chosen(logits, temperature)
            going = []
            for place, token in enumerate(chosen.tolist()):
                answers[rows[place]].append(token)
                if token != self._end:
                    going.append(place)
            if not going:
                break
            tokens = chosen[:, None]
            if len(going) < len(rows):  # those that have ended no longer cost anything
                index = torch.tensor(going, device=tokens.device)
                tokens = tokens[index]
                kept = [(keys[index], values[index]) for keys, values in kept]
                rows = [rows[place] for place in going]
        return answers

    def _chosen(self, logits: Tensor, temperature: float) -> Tensor:
        if not temperature:
            return logits.argmax(1)
        shares = (logits / temperature).softmax(1)
        return torch.multinomial(shares, 1, generator=self._rng)[:, 0]

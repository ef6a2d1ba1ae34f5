"""Model families with their templates, and small vocabularies that have their control tokens."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any

from engine.model.text.chat_template import ChatTemplate
from engine.model.text.token_bytes import BYTE_OF
from engine.model.text.tokenizer import Tokenizer
from engine.model.text.vocabulary.pieces import PieceKind

TEMPLATES = Path(__file__).parent / "templates"
CHATML = ("<|endoftext|>", "<|im_start|>", "<|im_end|>")
TEKKEN = ("<s>", "</s>", "[INST]", "[/INST]", "[SYSTEM_PROMPT]", "[/SYSTEM_PROMPT]")
GEMMA = ("<bos>", "<eos>", "<start_of_turn>", "<end_of_turn>")
HARMONY = ("<|start|>", "<|channel|>", "<|message|>", "<|end|>", "<|return|>", "<|call|>")


@dataclass(frozen=True)
class Family:
    """What is to be expected of a family.

    `ends`: tokens that end an answer. `system`: "own" place, "first" question or "last" question.
    `strict`: two questions in a row are refused. `prefix`: the prompt and answer of a turn begin
    the prompt of the next. `scored`: a SentencePiece vocabulary; then "prefixed" by a space or not.
    """

    name: str
    controls: tuple[str, ...]
    ends: tuple[str, ...]
    bos: str | None = None
    adds_bos: bool = False
    eos: str | None = None
    system: str = "own"
    strict: bool = False
    prefix: bool = True
    scored: bool = False
    spaced: bool = True
    begun: str = ""
    switch: bool = False

    @property
    def metadata(self) -> dict[str, Any]:
        """As in a GGUF file."""
        template = (TEMPLATES / f"{self.name}.jinja").read_text(encoding="utf-8")
        metadata = _pieces(self.controls) if self.scored else _bytes(self.controls)
        tokens = metadata["tokenizer.ggml.tokens"]
        metadata["tokenizer.chat_template"] = template
        metadata["tokenizer.ggml.add_bos_token"] = self.adds_bos
        metadata["tokenizer.ggml.add_space_prefix"] = self.spaced
        for key, token in (("bos", self.bos), ("eos", self.eos or self.ends[0])):
            if token is not None:
                metadata[f"tokenizer.ggml.{key}_token_id"] = tokens.index(token)
        return metadata

    def open(self) -> tuple[ChatTemplate, Tokenizer]:
        """The family's template and a tokenizer for it."""
        metadata = self.metadata
        return ChatTemplate.from_gguf(metadata), Tokenizer.from_gguf(metadata)


def _bytes(controls: tuple[str, ...]) -> dict[str, Any]:
    words = ["he", "ll", "hell", "hello", "as", "si"]
    return {
        "tokenizer.ggml.model": "gpt2",
        "tokenizer.ggml.pre": "gpt-2",
        "tokenizer.ggml.tokens": [*BYTE_OF, *words, *controls],
        "tokenizer.ggml.token_type": [1] * (len(BYTE_OF) + len(words)) + [3] * len(controls),
        "tokenizer.ggml.merges": ["h e", "l l", "he ll", "hell o", "a s", "s i"],
    }


def _pieces(controls: tuple[str, ...]) -> dict[str, Any]:
    marks = ["<unk>", *controls, *(f"<0x{byte:02X}>" for byte in range(256))]
    words = ["▁", *"abcdefghilmnoprstuyABHIMNST.,!?/[]<>", "he", "▁he", "▁H", "▁[", "ll", "▁▁"]
    kinds = [PieceKind.UNKNOWN, *[PieceKind.CONTROL] * len(controls), *[PieceKind.BYTE] * 256]
    return {
        "tokenizer.ggml.model": "llama",
        "tokenizer.ggml.tokens": [*marks, *words],
        "tokenizer.ggml.token_type": [*map(int, kinds), *[1] * len(words)],
        "tokenizer.ggml.scores": [0.0] * len(marks) + [-float(i) for i in range(len(words))],
        "tokenizer.ggml.unknown_token_id": 0,
    }


FAMILIES = [
    Family("qwen2.5", CHATML, ("<|im_end|>", "<|endoftext|>"), bos="<|endoftext|>"),
    Family(
        "qwen3",
        (*CHATML, "<think>", "</think>"),
        ("<|im_end|>", "<|endoftext|>"),
        bos="<|endoftext|>",
        switch=True,
    ),
    Family("smollm2", CHATML, ("<|im_end|>", "<|endoftext|>"), bos="<|im_start|>"),
    Family(
        "smollm3",
        (*CHATML, "<think>", "</think>"),
        ("<|im_end|>", "<|endoftext|>"),
        switch=True,
    ),
    Family(
        "phi-3.5",
        ("<s>", "</s>", "<|endoftext|>", "<|system|>", "<|user|>", "<|assistant|>", "<|end|>"),
        ("<|end|>", "<|endoftext|>"),
        bos="<s>",
        adds_bos=True,
        eos="<|endoftext|>",
        scored=True,
    ),
    Family(
        "phi-4-mini",
        ("<|endoftext|>", "<|system|>", "<|user|>", "<|assistant|>", "<|end|>"),
        ("<|end|>", "<|endoftext|>"),
        bos="<|endoftext|>",
        eos="<|endoftext|>",
    ),
    Family(
        "gemma-2",
        GEMMA,
        ("<eos>", "<end_of_turn>"),
        bos="<bos>",
        adds_bos=True,
        system="first",
        strict=True,
        scored=True,
        spaced=False,
    ),
    Family(
        "gemma-3",
        GEMMA,
        ("<eos>", "<end_of_turn>"),
        bos="<bos>",
        adds_bos=True,
        strict=True,
        scored=True,
        spaced=False,
    ),
    Family(
        "llama-2",
        ("<s>", "</s>"),
        ("</s>",),
        bos="<s>",
        adds_bos=True,
        strict=True,
        scored=True,
    ),
    Family(
        "llama-3",
        ("<|begin_of_text|>", "<|start_header_id|>", "<|end_header_id|>", "<|eot_id|>"),
        ("<|eot_id|>",),
        bos="<|begin_of_text|>",
        adds_bos=True,
    ),
    Family(
        "mistral-v0.1",
        ("<s>", "</s>"),
        ("</s>",),
        bos="<s>",
        adds_bos=True,
        system="first",
        strict=True,
        scored=True,
    ),
    Family(
        "mistral-v0.3",
        ("<s>", "</s>", "[INST]", "[/INST]"),
        ("</s>",),
        bos="<s>",
        adds_bos=True,
        system="last",
        strict=True,
        scored=True,
    ),
    Family("mistral-nemo", TEKKEN, ("</s>",), bos="<s>", adds_bos=True, system="last", strict=True),
    Family("mistral-small", TEKKEN, ("</s>",), bos="<s>", adds_bos=True, strict=True),
    Family(
        "gpt-oss",
        ("<|startoftext|>", "<|endoftext|>", *HARMONY),
        ("<|return|>", "<|call|>", "<|endoftext|>"),
        bos="<|startoftext|>",
        prefix=False,
    ),
    Family(
        "deepseek-r1-distill",
        (
            *("<｜begin▁of▁sentence｜>", "<｜end▁of▁sentence｜>", "<｜User｜>", "<｜Assistant｜>"),
            *("<think>", "</think>"),
        ),
        ("<｜end▁of▁sentence｜>",),
        bos="<｜begin▁of▁sentence｜>",
        adds_bos=True,
        begun="<think>\n",
    ),
]
BY_NAME = {family.name: family for family in FAMILIES}

"""Small real tokenizers of the two kinds that Llama and Qwen2 models use."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any, Protocol

from tokenizers import (
    AddedToken,
    Tokenizer,
    decoders,
    models,
    normalizers,
    pre_tokenizers,
    processors,
    trainers,
)

CORPUS = [
    "The quick brown fox jumps over the lazy dog. Hello there, hello world!",
    "user assistant system think im start end of text header id eot",
    "Überraschung, naïve café 日本語 日本 🦙🦙 👩‍👩‍👧 نعم हिन्दी हिन्दी",
] * 4
CONTROLS = ["<|pad|>", "<s>", "</s>", "<|im_start|>", "<|im_end|>", "[INST]", "<|eot|>"]


class TokenizerFolder(Protocol):
    """Writes a model folder (without weights) around a small tokenizer."""

    def __call__(
        self, kind: str, *, settings: Mapping[str, Any] = ..., config: Mapping[str, Any] = ...
    ) -> Path: ...


def byte_level() -> Tokenizer:
    tokenizer = Tokenizer(models.BPE())
    tokenizer.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    tokenizer.decoder = decoders.ByteLevel()
    trainer = trainers.BpeTrainer(
        vocab_size=420,
        special_tokens=CONTROLS,
        initial_alphabet=pre_tokenizers.ByteLevel.alphabet(),
        show_progress=False,
    )
    tokenizer.train_from_iterator(CORPUS, trainer)
    tokenizer.add_tokens([AddedToken("<think>", special=False), AddedToken("</think>")])
    tokenizer.add_tokens([AddedToken("    ", special=False, normalized=False)])
    return tokenizer


def sentencepiece(prefix: str) -> Tokenizer:
    """Llama 2's kind; the blank before the first word comes from `prefix`."""
    pieces = ["<unk>", "<s>", "</s>"]
    pieces += [f"<0x{byte:02X}>" for byte in range(256)]
    pieces += sorted(set("".join(CORPUS).replace(" ", "▁")) - set("🦙日ह"))
    merges = [("h", "e"), ("l", "l"), ("he", "ll"), ("hell", "o"), ("▁", "t"), ("▁t", "he")]
    pieces += ["".join(pair) for pair in merges]
    model = models.BPE(
        vocab={piece: index for index, piece in enumerate(pieces)},
        merges=merges,
        unk_token="<unk>",
        fuse_unk=True,
        byte_fallback=True,
    )
    tokenizer = Tokenizer(model)
    if prefix == "normalizer":
        tokenizer.normalizer = normalizers.Sequence(
            [normalizers.Prepend("▁"), normalizers.Replace(" ", "▁")]
        )
    else:
        tokenizer.pre_tokenizer = pre_tokenizers.Metaspace(prepend_scheme="first", split=False)
    tokenizer.decoder = decoders.Sequence(
        [
            decoders.Replace("▁", " "),
            decoders.ByteFallback(),
            decoders.Fuse(),
            decoders.Strip(" ", 1, 0),
        ]
    )
    tokenizer.add_special_tokens(["<unk>", *CONTROLS])
    tokenizer.post_processor = processors.TemplateProcessing(
        single="<s> $A", special_tokens=[("<s>", 1)]
    )
    return tokenizer


KINDS = ("byte_level", "normalizer", "metaspace")

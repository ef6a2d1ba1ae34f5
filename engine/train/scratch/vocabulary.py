"""A tokenizer for a model from nothing, and the files that describe how it is talked to."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path

from tokenizers import Regex, Tokenizer, decoders, models, pre_tokenizers, trainers

from engine.train.checkpoint import write_whole
from engine.train.draft_folder import to_json

PAD, BOS, USER, ASSISTANT, END = "<|pad|>", "<|bos|>", "<|user|>", "<|assistant|>", "<|end|>"
SPECIAL = (PAD, BOS, USER, ASSISTANT, END)
"""Their ids are their places here."""

_TEMPLATE = (
    "{{ bos_token }}{% for m in messages %}{% if m['role'] == 'user' %}"
    "{{ '<|user|>' + m['content'] + '<|end|>' }}{% elif m['role'] == 'assistant' %}"
    "{{ '<|assistant|>' + m['content'] + '<|end|>' }}{% endif %}{% endfor %}"
    "{% if add_generation_prompt %}{{ '<|assistant|>' }}{% endif %}"
)
_SPLIT = (
    r"(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}"
    r"| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+"
)
"""Qwen2's way to cut texts: every digit by itself; GGUF knows it by name."""


def train_vocabulary(texts: Iterable[str], size: int) -> Tokenizer:
    """Byte-level BPE with `size` entries, the special ones included."""
    tokenizer = Tokenizer(models.BPE())
    tokenizer.pre_tokenizer = pre_tokenizers.Sequence(
        [
            pre_tokenizers.Split(Regex(_SPLIT), "isolated"),
            pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=False),
        ]
    )
    tokenizer.decoder = decoders.ByteLevel()
    trainer = trainers.BpeTrainer(
        vocab_size=size,
        special_tokens=list(SPECIAL),
        initial_alphabet=pre_tokenizers.ByteLevel.alphabet(),
        show_progress=False,
    )
    tokenizer.train_from_iterator(texts, trainer)
    return tokenizer


def as_asked(text: str, tokenizer: Tokenizer) -> list[int]:
    """A first question, as the template renders it, up to where the assistant speaks."""
    asked = tokenizer.encode(text, add_special_tokens=False).ids
    bos, user, assistant, end = map(SPECIAL.index, (BOS, USER, ASSISTANT, END))
    return [bos, user, *asked, end, assistant]


def write_text_files(folder: Path, tokenizer: Tokenizer, context: int) -> None:
    """The tokenizer, its chat template and how answers end, as transformers reads them.

    Raises:
        UserFixable: the disk is full, or cannot be written to.
    """
    config: dict[str, object] = {
        "tokenizer_class": "PreTrainedTokenizerFast",
        "bos_token": BOS,
        "eos_token": END,
        "pad_token": PAD,
        "additional_special_tokens": [USER, ASSISTANT],
        "clean_up_tokenization_spaces": False,
        "model_max_length": context,
        "chat_template": _TEMPLATE,
    }
    ends = {"bos_token_id": SPECIAL.index(BOS), "eos_token_id": SPECIAL.index(END)}
    generation: dict[str, object] = {
        **ends,
        "pad_token_id": 0,
        "max_new_tokens": 256,
        "do_sample": False,
    }
    write_whole(folder / "tokenizer.json", tokenizer.to_str().encode())
    write_whole(folder / "tokenizer_config.json", to_json(config))
    write_whole(folder / "generation_config.json", to_json(generation))

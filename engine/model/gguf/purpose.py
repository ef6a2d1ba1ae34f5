"""The purpose of a GGUF file: one that holds no language model is refused in plain words."""

from __future__ import annotations

from engine.errors import UserFixable
from engine.language import later, tr
from engine.model.gguf.file import GgufFile

ARCHITECTURE = "general.architecture"
_PICTURES = later("{file} is the part of a model that sees or hears, not the model itself.")
_ADAPTER = later("{file} is an adapter (LoRA), not a whole model.")
_STATISTICS = later("{file} holds statistics for quantising a model, not a model.")
_EMBEDDING = later("{file} is a model that turns texts into numbers for searching; it cannot chat.")
_DRAFT = later("{file} only drafts for another model; it cannot chat by itself.")
_VOCABULARY = later("{file} holds a vocabulary only, without a model.")
_CHOOSE_MODEL = later("Choose the file of a chat model; often it lies beside this one.")

_TYPES = {"adapter": _ADAPTER, "mmproj": _PICTURES, "imatrix": _STATISTICS}
_BERTS = ("bert", "nomic-bert", "nomic-bert-moe", "neo-bert", "modern-bert", "eurobert")
_SEARCHERS = ("jina-bert-v2", "jina-bert-v3", "gemma-embedding", "llama-embed", "t5encoder")
_ARCHITECTURES = {
    "clip": _PICTURES,
    **dict.fromkeys(("duotail-draft", "eagle3", "dflash", "gemma4-assistant"), _DRAFT),
    **dict.fromkeys((*_BERTS, *_SEARCHERS), _EMBEDDING),
}
_NO_POOLING = 0
_MOST = (1 << 32) - 1


def language_model(file: GgufFile) -> str:
    """Return the architecture of a language model, in llama.cpp's words.

    Raises:
        UserFixable: the file holds something else.
    """
    architecture = file.metadata.word(ARCHITECTURE)
    kind = file.metadata.word("general.type") or "model"
    other = _TYPES.get(kind) or _ARCHITECTURES.get(architecture or "")
    if other is not None:
        raise _refusal(file, other)
    if architecture is None:
        raise file.metadata.wrong(ARCHITECTURE, tr("the name of a family of models"))
    pooling = file.metadata.integer(f"{architecture}.pooling_type", 0, _MOST, default=_NO_POOLING)
    causal = file.metadata.flag(f"{architecture}.attention.causal", default=True)
    if pooling not in (_NO_POOLING, _MOST) or not causal:
        raise _refusal(file, _EMBEDDING)
    if not file.tensors:
        raise _refusal(file, _VOCABULARY)
    return architecture


def _refusal(file: GgufFile, sentence: str) -> UserFixable:
    return UserFixable(
        tr(sentence).format(file=file.files[0].name), tr(_CHOOSE_MODEL), str(file.files[0])
    )

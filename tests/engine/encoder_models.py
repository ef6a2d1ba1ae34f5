"""Small random embedding models, as folders and as GGUF files."""

from __future__ import annotations

from pathlib import Path

import gguf
import numpy as np
import tokenizers
import torch
from safetensors.numpy import load_file
from transformers import (
    BertConfig,
    BertModel,
    NomicBertConfig,
    NomicBertModel,
    PreTrainedConfig,
    PreTrainedTokenizerFast,
    XLMRobertaConfig,
    XLMRobertaModel,
)

TEXTS = (
    "rain",
    "The rain fell on Café Ümlaut, again and again!",
    "你好 rains [SEP] unbelievable",
    "",
)
_WORDS = (
    *("[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]", "the", "rain", "##s", "fell", "on", "cafe"),
    *("uml", "##aut", ",", "again", "and", "!", "你", "好", "un", "##believ", "##able", "[", "]"),
    *("sep",),
)
_SIZES = {
    "hidden_size": 32,
    "num_hidden_layers": 2,
    "num_attention_heads": 4,
    "intermediate_size": 64,
    "vocab_size": len(_WORDS),
    "max_position_embeddings": 48,
    "pad_token_id": 0,
}


def _tokenizer(folder: Path) -> None:
    library = tokenizers.BertWordPieceTokenizer(
        {word: number for number, word in enumerate(_WORDS)}
    )
    tokenizer = PreTrainedTokenizerFast(
        tokenizer_object=library._tokenizer,
        unk_token="[UNK]",
        pad_token="[PAD]",
        cls_token="[CLS]",
        sep_token="[SEP]",
        split_special_tokens=True,
    )
    tokenizer.save_pretrained(folder)


def _made(kind: type[torch.nn.Module], config: PreTrainedConfig, folder: Path) -> Path:
    torch.manual_seed(3)
    model = kind(config)
    with torch.no_grad():
        for parameter in model.parameters():  # norms and biases, too
            parameter.add_(torch.randn_like(parameter) * 0.3)
    model.save_pretrained(folder)
    _tokenizer(folder)
    return folder


def bert(folder: Path) -> Path:
    """BERT, as most sentence-transformers are."""
    return _made(BertModel, BertConfig(**_SIZES), folder)


def roberta(folder: Path) -> Path:
    """XLM-RoBERTa, whose positions begin behind padding."""
    sizes = _SIZES | {"pad_token_id": 1, "type_vocab_size": 1, "layer_norm_eps": 1e-5}
    return _made(XLMRobertaModel, XLMRobertaConfig(**sizes), folder)


def nomic(folder: Path) -> Path:
    """nomic-embed: rotary positions and gates."""
    return _made(NomicBertModel, NomicBertConfig(**_SIZES), folder)


_PLACES = {
    "embeddings.word_embeddings": "token_embd",
    "embeddings.position_embeddings": "position_embd",
    "embeddings.token_type_embeddings": "token_types",
    "embeddings.LayerNorm": "token_embd_norm",
    "attention.self.query": "attn_q",
    "attention.self.key": "attn_k",
    "attention.self.value": "attn_v",
    "attention.output.dense": "attn_output",
    "attention.output.LayerNorm": "attn_output_norm",
    "intermediate.dense": "ffn_up",
    "output.dense": "ffn_down",
    "output.LayerNorm": "layer_output_norm",
    "emb_ln": "token_embd_norm",
    "attn.Wqkv": "attn_qkv",
    "attn.out_proj": "attn_output",
    "norm1": "attn_output_norm",
    "mlp.fc11": "ffn_up",
    "mlp.fc12": "ffn_gate",
    "mlp.fc2": "ffn_down",
    "norm2": "layer_output_norm",
}


def bert_gguf(folder: Path, file: Path) -> Path:
    """The same model as llama.cpp's converter writes it."""
    return _written(file, "bert", folder)


def nomic_gguf(folder: Path, file: Path) -> Path:
    """The same model as llama.cpp's converter writes it."""
    return _written(file, "nomic-bert", folder)


def _renamed(folder: Path) -> dict[str, np.ndarray]:
    named = {}
    for name, tensor in load_file(folder / "model.safetensors").items():
        place, _, leaf = name.rpartition(".")
        block, found = "", place
        if place.startswith("encoder.layer"):
            _, _, number, found = place.split(".", 3)
            block = f"blk.{number}."
        if found in _PLACES:
            named[f"{block}{_PLACES[found]}.{leaf}"] = tensor
    return named


def _written(file: Path, family: str, folder: Path) -> Path:
    writer = gguf.GGUFWriter(file, family)
    writer.add_block_count(_SIZES["num_hidden_layers"])
    writer.add_context_length(_SIZES["max_position_embeddings"])
    writer.add_embedding_length(_SIZES["hidden_size"])
    writer.add_feed_forward_length(_SIZES["intermediate_size"])
    writer.add_head_count(_SIZES["num_attention_heads"])
    writer.add_layer_norm_eps(1e-12)
    writer.add_causal_attention(value=False)
    writer.add_pooling_type(gguf.PoolingType.MEAN)
    if family == "nomic-bert":
        writer.add_rope_freq_base(1000.0)
    writer.add_tokenizer_model("bert")
    writer.add_token_list([_as_stored(word) for word in _WORDS])
    for name, word in (("cls", "[CLS]"), ("seperator", "[SEP]"), ("unknown", "[UNK]")):
        writer.add_uint32(f"tokenizer.ggml.{name}_token_id", _WORDS.index(word))
    for name, tensor in _renamed(folder).items():
        writer.add_tensor(name, np.ascontiguousarray(tensor))
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()
    return file


def _as_stored(word: str) -> str:
    if word.startswith("##"):
        return word.removeprefix("##")
    return word if word.startswith("[") and word.endswith("]") else f"\u2581{word}"

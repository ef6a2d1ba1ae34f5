"""A whole GGUF model of a few kilobytes: one block, 32 wide, with a tokenizer and a template."""

from __future__ import annotations

import numpy as np
from gguf import GGMLQuantizationType as Kind
from gguf import GGUFWriter
from gguf.constants import GGML_QUANT_SIZES

TOKENS = [
    "<unk>",
    "<s>",
    "</s>",
    *(f"<0x{byte:02X}>" for byte in (9, 10)),
    *"▁aeinorst",
    "▁a",
    "in",
]
WIDTH, INNER, HEADS = 32, 32, 2
_TYPES = [2, 3, 3, 6, 6, *[1] * (len(TOKENS) - 5)]
TEMPLATE = "{{ bos_token }}{% for m in messages %}[{{ m.role }}]{{ m.content }}{% endfor %}"
MATRICES = {
    "token_embd": (len(TOKENS), WIDTH),
    "output": (len(TOKENS), WIDTH),
    "blk.0.attn_q": (WIDTH, WIDTH),
    "blk.0.attn_k": (WIDTH // HEADS, WIDTH),
    "blk.0.attn_v": (WIDTH // HEADS, WIDTH),
    "blk.0.attn_output": (WIDTH, WIDTH),
    "blk.0.ffn_gate": (INNER, WIDTH),
    "blk.0.ffn_up": (INNER, WIDTH),
    "blk.0.ffn_down": (WIDTH, INNER),
}
NORMS = ("blk.0.attn_norm", "blk.0.ffn_norm", "output_norm")


def write_tiny(path: str, kind: Kind, data: bytes = b"\0\x2c\x03\x81\x99") -> None:
    """Write the model; the bytes of its matrices are `data` over and over."""
    writer = GGUFWriter(path, "llama")
    writer.add_context_length(64)
    writer.add_embedding_length(WIDTH)
    writer.add_block_count(1)
    writer.add_feed_forward_length(INNER)
    writer.add_head_count(HEADS)
    writer.add_head_count_kv(1)
    writer.add_layer_norm_rms_eps(1e-5)
    writer.add_rope_freq_base(1e4)
    writer.add_tokenizer_model("llama")
    writer.add_token_list(TOKENS)
    writer.add_token_scores([-float(number) for number in range(len(TOKENS))])
    writer.add_token_types(_TYPES)
    writer.add_bos_token_id(1)
    writer.add_eos_token_id(2)
    writer.add_chat_template(TEMPLATE)
    for name, (rows, columns) in MATRICES.items():
        numbers, size = GGML_QUANT_SIZES[kind]
        nbytes = columns // numbers * size
        raw = (data * (rows * nbytes // len(data) + 1))[: rows * nbytes]
        stored = np.frombuffer(raw, np.uint8).reshape(rows, nbytes)
        writer.add_tensor(f"{name}.weight", stored, raw_dtype=kind)
    for name in NORMS:
        writer.add_tensor(f"{name}.weight", np.ones(WIDTH, np.float32))
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()

"""llama.cpp quantises a GGUF file: python llama_quantize.py FROM TO TYPE, by the peer's Python."""

from __future__ import annotations

import sys

import llama_cpp as llama


def main() -> int:
    source, target, wanted = sys.argv[1:]
    llama.llama_backend_init()
    params = llama.llama_model_quantize_default_params()
    params.ftype = getattr(llama, f"LLAMA_FTYPE_MOSTLY_{wanted.upper()}")
    params.nthread = 1
    return int(llama.llama_model_quantize(source.encode(), target.encode(), params))


if __name__ == "__main__":
    sys.exit(main())

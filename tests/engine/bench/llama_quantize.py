"""llama.cpp quantises a GGUF file: python llama_quantize.py FROM TYPE TO [TYPE TO ...]."""

from __future__ import annotations

import sys

import llama_cpp as llama


def main() -> int:
    source, *rest = sys.argv[1:]
    llama.llama_backend_init()
    params = llama.llama_model_quantize_default_params()
    params.nthread = 1
    failed = 0
    for wanted, target in zip(rest[::2], rest[1::2], strict=True):
        params.ftype = getattr(llama, f"LLAMA_FTYPE_MOSTLY_{wanted.upper()}")
        failed |= llama.llama_model_quantize(source.encode(), target.encode(), params)
    return int(failed)


if __name__ == "__main__":
    sys.exit(main())

"""Write the answers of a recording as conversations, to train further drafts from.

    .venv/bin/python packaging/answers.py MODEL PROMPTS RECORDING OUT.jsonl.zst [MORE.jsonl.zst]

PROMPTS and RECORDING are what `duotail train-draft --data PROMPTS --recording RECORDING` was given.
OUT gets the answers in the order in which they were written, behind those of MORE, and goes to
`train-draft --given --data OUT`.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Iterator
from pathlib import Path

import zstandard

from engine.model.local_model import LocalModel
from engine.train.conversations import ShuffledExamples, find_sources
from engine.train.recording import recorded_texts

_LEVEL = 19


def main() -> int:
    """See the module."""
    model, prompts, recording, out, *more = map(Path, sys.argv[1:])
    lines = [line for file in more for line in _lines(file)]
    for asked, answer in _conversations(model, prompts, recording):
        messages = [*asked, {"role": "assistant", "content": answer}]
        lines.append(json.dumps({"messages": messages}, ensure_ascii=False))
    every = list(dict.fromkeys(lines))
    text = "".join(f"{line}\n" for line in every)
    out.write_bytes(zstandard.ZstdCompressor(_LEVEL).compress(text.encode()))
    sys.stdout.write(f"{len(every)} conversations, {out.stat().st_size} bytes\n")
    return 0


def _lines(file: Path) -> list[str]:
    text = zstandard.ZstdDecompressor().stream_reader(file.open("rb")).read().decode()
    return text.splitlines()


def _conversations(
    model: Path, prompts: Path, recording: Path
) -> Iterator[tuple[list[dict[str, str]], str]]:
    """Yield what was asked, and the answer without its end token."""
    tokenizer = LocalModel.inspect(model).tokenizer()
    examples = dict(enumerate(ShuffledExamples(find_sources([prompts]), seed=0)))
    for index, tokens, answers in recorded_texts(recording):
        written = [token for token in tokens[answers].tolist() if token not in tokenizer.eos_ids]
        asked = [
            {"role": str(each.role), "content": each.text} for each in examples[index].messages
        ]
        yield asked, tokenizer.decode(written)


if __name__ == "__main__":
    sys.exit(main())

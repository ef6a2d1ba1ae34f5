"""Random weights of a published shape behind the engine's own door, saying a written text.

Speed depends on the shape alone, and what it costs to show an answer on its text.
"""

from __future__ import annotations

from dataclasses import replace
from itertools import cycle
from pathlib import Path

from engine.backend.cpu import CpuDevice
from engine.backend.prefix_cache import PrefixCache
from engine.bench.forward import random_subject
from engine.bench.recipes import SHAPE_FORMAT
from engine.bench.shapes import shape
from engine.commands import Load, Mode
from engine.events import PlanSummary
from engine.hub.local import default_target
from engine.loading.devices import whole
from engine.loading.inspection import ModelText
from engine.loading.load import LoadedPair
from engine.machine.facts import CPU
from engine.model.local_model import LocalModel
from engine.model.model_files import FilesState, own_files
from engine.model.text.template_source import TextEnds
from engine.model.text.tokenizer import Tokenizer
from engine.plan.plan import Plan
from engine.service.engine import Engine
from engine.speculative.loops import Plain

_FOLDER = Path("random weights")

SCRIPT = """\
A computer reads **numbers** from its memory, works on them and writes them back. Everything \
else is built on that: *letters*, colours and sounds are numbers that somebody agreed on.

### What happens in a step

1. The processor fetches an instruction from the address in its `program counter`.
2. It finds out what is meant, and reads the registers that the instruction names.
3. The result goes into a register or back to memory, and the counter moves on.

```python
def run(memory: list[int]) -> None:
    counter = 0
    while memory[counter] != HALT:
        operation, a, b = decode(memory[counter])
        memory[b] = operation(memory[a], memory[b])  # one step
        counter += 1
```

| Part | Time for one access |
|:-----|--------------------:|
| Register | 0.3 ns |
| Cache | 1 to 10 ns |
| Memory | 80 ns |

"""


class RandomModels(Engine):
    """The engine, which also loads `shape_path(name)`: that shape with random weights.

    No token ends an answer, of models with trained weights either: a brief one shows no frames.
    """

    def _load(self, command: Load, *, insist: bool = False) -> None:
        if command.model.parent != _FOLDER:
            super()._load(command, insist=insist)
            if self._slot.pair is not None:
                self._slot.pair.text.tokenizer.eos_ids = frozenset()
            return
        self._slot.drop()
        self._slot.pair = _random_pair(command.model, command.context or 512)
        self._slot.announce()


def shape_path(name: str) -> Path:
    """Return the path to load for the shape called `name`.

    Raises:
        UserFixable: there is none of that name.
    """
    shape(name)
    return _FOLDER / name


def _random_pair(path: Path, context: int) -> LoadedPair:
    config = shape(path.name)
    decoder = random_subject(config, SHAPE_FORMAT).decoder
    summary = PlanSummary(Mode.PLAIN, "CPU", None, None, context, decoder.signature, ())
    shares = whole(config.num_layers, CPU)
    plan = Plan(Mode.PLAIN, shares, None, None, False, context, 0, None, None, (), ())
    bundled = LocalModel.inspect(default_target())
    text = ModelText(
        _reciter(bundled),
        bundled.template(),
        FilesState.of_files(bundled.path, own_files(bundled.path)),
    )
    return LoadedPair(
        command=Load(path),
        name=path.name,
        target=decoder,
        text=text,
        states=PrefixCache(decoder, context),
        loop=Plain(),
        plan=plan,
        summary=summary,
        devices={CPU: CpuDevice()},
    )


def _reciter(model: LocalModel) -> Tokenizer:
    """Return a tokenizer with the vocabulary of this model."""
    if model.gguf is None:
        return _Reciter.open(model.path)
    return _Reciter.from_gguf(model.gguf.metadata.values)


class _Reciter(Tokenizer):
    """A tokenizer to which every token stands for the next few letters of `SCRIPT`.

    A prompt's text never goes this way: only an answer's tokens are turned into text.
    """

    def set_ends(self, ends: TextEnds) -> None:
        """Leave out all tokens that would end an answer."""
        super().set_ends(replace(ends, eos=frozenset()))

    def token_bytes(self, token_id: int) -> bytes:  # noqa: ARG002
        """The next four letters: what a token of an English text has on average."""
        if not hasattr(self, "_pieces"):
            text = SCRIPT.encode()
            self._pieces = cycle([text[at : at + 4] for at in range(0, len(text), 4)])
        return next(self._pieces)

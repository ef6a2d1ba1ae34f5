"""From a recipe and a folder of data to a model's folder, or to a checkpoint to go on from."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from itertools import islice
from math import exp
from pathlib import Path
from time import monotonic

import numpy as np
import torch
from safetensors import SafetensorError, safe_open
from safetensors.torch import load_file, save
from tokenizers import Tokenizer
from torch import Tensor
from torch.nn import functional

from engine.errors import UserFixable
from engine.language import tr
from engine.model.config import ModelConfig
from engine.train.checkpoint import write_whole
from engine.train.draft_folder import described, to_json
from engine.train.modules import Draft
from engine.train.optimisers import Optimisers
from engine.train.scratch.beginning import Beginning
from engine.train.scratch.corpus import Corpus, examples_of, make_corpus
from engine.train.scratch.packing import Packer, Rows, in_rows
from engine.train.scratch.recipe import Recipe
from engine.train.scratch.screening import Screen, bench_texts
from engine.train.scratch.vocabulary import (
    END,
    SPECIAL,
    as_asked,
    train_vocabulary,
    write_text_files,
)
from engine.train.scratch.writing import Writer

STATE = "state.safetensors"
CORPUS = "corpus"
_VOCABULARY_EXAMPLES = 60_000
LOG = "log.jsonl"
_SAMPLE = 120
"""Tokens of a sample at most."""
_MEASURED = 200_000
"""Held-out tokens that the loss is measured on."""
_UNLEARNED = -100


@dataclass(frozen=True, slots=True)
class Settings:
    """How a recipe is carried out.

    Attributes:
        data: the folder that its sources lie in; `bench` below it is never learned from.
        keep_out: a file with a prompt a line that is not learned from either.
        out: the folder of the result; the corpus and the checkpoint lie in it too.
        tokens: fewer or more than the recipe says.
        rows: of a forward; None: as suits the device.
        compiled: through torch.compile, which takes a minute and then doubles the speed.
        every: seconds between checkpoints.
        measure_every: seconds between measurements of the held-out loss.
        begin: a model of the recipe's shape to go on from; `make` gives the recipe its shape.
    """

    recipe: Recipe
    data: Path
    out: Path
    keep_out: Path | None = None
    tokens: int | None = None
    device: str = "cpu"
    rows: int | None = None
    compiled: bool = False
    every: float = 300.0
    measure_every: float = 900.0
    resume: bool = False
    begin: Beginning | None = None


@dataclass(frozen=True, slots=True)
class State:
    """How far it is.

    Attributes:
        steps: batches learned; `phase`: its number; `batch`: batches of it.
        tokens: learned, filling not counted.
        seconds: spent on learning, in all sittings.
        loss: nats a token, a mean that follows the last steps.
        held_out: nats a token of what the assistant says, as measured last.
    """

    steps: int = 0
    phase: int = 0
    batch: int = 0
    tokens: int = 0
    seconds: float = 0.0
    loss: float = 0.0
    held_out: float | None = None

    @property
    def perplexity(self) -> float | None:
        """On what was held out."""
        return None if self.held_out is None else exp(self.held_out)


class Paused(Exception):
    """The user stopped it; the checkpoint is written."""

    def __init__(self, state: State) -> None:
        super().__init__()
        self.state = state


def train(
    settings: Settings, tell: Callable[[str, State, float], None], stopped: Callable[[], bool]
) -> State:
    """Make the model.

    Args:
        settings: what and how.
        tell: told of every source that is read, then about once a second how far it is: a word,
            the state, the share that is done.
        stopped: asked after every step.

    Raises:
        Paused: it was stopped; `resume` goes on.
        UserFixable: data are missing, the checkpoint is of another recipe, the disk is full.
    """
    recipe = settings.recipe
    if settings.tokens is not None:
        recipe = replace(recipe, tokens=settings.tokens)
    settings.out.mkdir(parents=True, exist_ok=True)
    tokenizer = _vocabulary(recipe, settings)
    corpus = make_corpus(
        recipe, settings.data, tokenizer, screen_of(settings), settings.out / CORPUS,
        lambda name: tell(name, State(), 0.0),
    )  # fmt: skip
    run = _Run(recipe, settings, corpus, tokenizer)
    state = run.go(tell, stopped)
    write_model(settings.out, recipe, run.draft, tokenizer)
    return state


def screen_of(settings: Settings) -> Screen:
    """What nothing is learned from."""
    return Screen([*bench_texts(settings.data / "bench"), *_kept_out(settings.keep_out)])


def _kept_out(file: Path | None) -> list[str]:
    lines = [] if file is None else file.read_text("utf-8").splitlines()
    return [line for line in lines if not line.startswith("#")]


def model_config(recipe: Recipe) -> ModelConfig:
    """As the recipe says, with room for its longest rows."""
    shape = recipe.shape
    return ModelConfig.from_json(
        {
            "model_type": "llama",
            "hidden_size": shape.hidden,
            "intermediate_size": shape.intermediate,
            "num_hidden_layers": shape.blocks,
            "num_attention_heads": shape.heads,
            "num_key_value_heads": shape.kv_heads,
            "vocab_size": shape.vocab,
            "max_position_embeddings": recipe.longest,
            "rms_norm_eps": 1e-5,
            "rope_theta": 10_000.0,
            "tie_word_embeddings": True,
            "bos_token_id": 1,
            "eos_token_id": SPECIAL.index(END),
        }
    )


def write_model(folder: Path, recipe: Recipe, draft: Draft, tokenizer: Tokenizer) -> None:
    """Weights (bf16), tokenizer and template; config.json, by which it is known, last.

    Raises:
        UserFixable: the disk is full, or cannot be written to.
    """
    tensors = {
        name: one.detach().to("cpu", torch.bfloat16).contiguous()
        for name, one in draft.named_parameters()
    }
    config = model_config(recipe)
    write_whole(folder / "model.safetensors", save(tensors, {"format": "pt"}))
    write_text_files(folder, tokenizer, config.max_positions)
    write_whole(folder / "duotail.json", to_json({"name": recipe.title}))
    write_whole(folder / "config.json", to_json(described(config)))


def write_log(file: Path, state: State, samples: dict[str, str]) -> None:
    """A line about how it stands, behind those of before."""
    line = {name: getattr(state, name) for name in State.__slots__}
    line |= {"tokens_per_s": state.tokens / max(state.seconds, 1e-6), "samples": samples}
    with file.open("a", encoding="utf-8") as stream:
        stream.write(json.dumps(line) + "\n")


def written_model(folder: Path, recipe: Recipe) -> Draft:
    """What `write_model` has left."""
    draft, kept = Draft(model_config(recipe)), load_file(folder / "model.safetensors")
    with torch.no_grad():
        for name, one in draft.named_parameters():
            one.copy_(kept[name])
    return draft


def _vocabulary(recipe: Recipe, settings: Settings) -> Tokenizer:
    """Of an earlier start, of the model to go on from, or trained on some of everything."""
    file = settings.out / "tokenizer.json"
    if settings.resume and file.exists():
        return Tokenizer.from_file(str(file))
    if settings.begin is not None:
        tokenizer = settings.begin.tokenizer
    else:
        tokenizer = train_vocabulary(_some_texts(recipe, settings), recipe.shape.vocab)
    write_whole(file, tokenizer.to_str().encode())
    return tokenizer


def _some_texts(recipe: Recipe, settings: Settings) -> Iterator[str]:
    """Of every source as many examples as of any other; of long texts the beginning."""
    sources = {source.name: source for phase in recipe.phases for source in phase.sources}
    each = _VOCABULARY_EXAMPLES // len(sources)
    for source in sources.values():
        for example in islice(examples_of(source, settings.data, recipe.seed), each):
            yield from (message.text for message in example.messages)
            if example.text:
                yield example.text[:4000]


class _Run:
    """The loop."""

    def __init__(
        self, recipe: Recipe, settings: Settings, corpus: Corpus, tokenizer: Tokenizer
    ) -> None:
        self._recipe, self._settings, self._corpus = recipe, settings, corpus
        self._tokenizer = tokenizer
        self._device = torch.device(settings.device)
        torch.manual_seed(recipe.seed)
        self.draft = Draft(model_config(recipe))
        if settings.begin is not None:
            settings.begin.fill(self.draft)
        self.draft.to(self._device)
        self._optimisers = Optimisers(self.draft, recipe.rates.pace)
        self.state = State()
        rows = settings.rows or (8 if self._device.type == "cpu" else 64)
        self._at_once = rows * recipe.shape.context
        if settings.resume:
            self._restore()
        self._forward = self._loss
        if settings.compiled:  # every length of rows by itself, which is faster than all as one
            self._forward = torch.compile(self._loss, dynamic=False)

    def go(self, tell: Callable[[str, State, float], None], stopped: Callable[[], bool]) -> State:
        """To the end."""
        written = measured = monotonic()
        while self._done < 1.0:
            phase = self._recipe.phases[self.state.phase]
            rows = self._recipe.batch // phase.context
            packer = Packer(phase, self._corpus.learned, rows, self._recipe.seed)
            for batch in packer.batches(self.state.batch):
                self._step(batch)
                tell(phase.name, self.state, self._done)
                now = monotonic()
                if now - measured > self._settings.measure_every:
                    self._measure()
                    measured = now
                if stopped():
                    self._write()
                    raise Paused(self.state)
                if now - written > self._settings.every:
                    self._write()
                    written = now
                if self._done >= 1.0 or self._recipe.phase_at(self._done) != self.state.phase:
                    break
            self._enter(self._recipe.phase_at(self._done))
        self._measure()
        self._write()
        return self.state

    @property
    def _done(self) -> float:
        return min(self.state.tokens / self._recipe.tokens, 1.0)

    def _enter(self, phase: int) -> None:
        if phase != self.state.phase:
            self.state = replace(self.state, phase=phase, batch=0)

    def _step(self, batch: Rows) -> None:
        begun, state = monotonic(), self.state
        self.draft.train()
        learned = max(int(batch.learned[:, 1:].sum()), 1)
        total = 0.0
        count, length = batch.tokens.shape
        rows = max(self._at_once // length, 1)
        for start in range(0, count, rows):
            tokens, document, goals = self._tensors(batch, slice(start, start + rows))
            with self._halves():
                loss = self._forward(tokens, document, goals) / learned
            loss.backward()  # type: ignore[no-untyped-call]
            total += float(loss.detach())
        torch.nn.utils.clip_grad_norm_(self.draft.parameters(), 1.0)
        self._optimisers.step(self._recipe.rates.factor(self._done))
        weight = max(0.02, 1 / (state.steps + 1))
        self.state = replace(
            state,
            steps=state.steps + 1,
            batch=state.batch + 1,
            tokens=state.tokens + batch.count,
            seconds=state.seconds + monotonic() - begun,
            loss=state.loss + weight * (total - state.loss),
        )

    def _loss(self, tokens: Tensor, document: Tensor, goals: Tensor) -> Tensor:
        """The sum over all tokens to be foretold."""
        same = document[:, None, :, None] == document[:, None, None, :]
        length = tokens.shape[1]
        causal = torch.ones(length, length, dtype=torch.bool, device=tokens.device)
        hidden = self.draft.run_model(tokens, same & causal.tril())
        output = self.draft.output
        assert output is not None  # noqa: S101 - a model of its own has one
        logits = functional.linear(hidden, output)
        return functional.cross_entropy(
            logits.flatten(0, 1).float(), goals.flatten(), ignore_index=_UNLEARNED, reduction="sum"
        )

    def _tensors(self, batch: Rows, rows: slice) -> tuple[Tensor, Tensor, Tensor]:
        goals = np.full(batch.tokens[rows].shape, _UNLEARNED, np.int64)
        marked = batch.learned[rows][:, 1:]
        goals[:, :-1][marked] = batch.tokens[rows][:, 1:][marked]
        found = (batch.tokens[rows], batch.document[rows], goals)
        tokens, document, wanted = (torch.from_numpy(one).to(self._device) for one in found)
        return tokens, document, wanted

    def _halves(self) -> torch.autocast:
        return torch.autocast(self._device.type, dtype=torch.bfloat16)

    @torch.no_grad()
    def _measure(self) -> None:
        self.draft.eval()
        total, count = 0.0, 0
        length = self._recipe.shape.context
        for batch in in_rows(self._corpus.held_out, self._at_once // length, length, _MEASURED):
            tokens, document, goals = self._tensors(batch, slice(None))
            with self._halves():
                total += float(self._loss(tokens, document, goals))
            count += int((goals != _UNLEARNED).sum())
        if count:
            self.state = replace(self.state, held_out=total / count)
        write_log(self._settings.out / LOG, self.state, self._samples())

    def _samples(self) -> dict[str, str]:
        """What it answers by now."""
        end, longest = SPECIAL.index(END), self._recipe.longest
        writer, found = Writer(self.draft, end, longest), {}
        for asked in self._recipe.samples:
            (answer,) = writer.write([as_asked(asked, self._tokenizer)], _SAMPLE)
            found[asked] = self._tokenizer.decode(answer)
        return found

    # -- checkpoints ---------------------------------------------------------------------------

    def _identity(self, phase: int) -> str:
        """Of what was learned up to this phase: what is to come may change before it goes on."""
        sources = [each.sources for each in self._recipe.phases[: phase + 1]]
        return repr((self._recipe.shape, sources, self._recipe.seed))

    def _write(self) -> None:
        state = self.state
        kept = {name: getattr(state, name) for name in State.__slots__}
        header = {"identity": self._identity(state.phase), "state": json.dumps(kept)}
        write_whole(self._settings.out / STATE, save(self._optimisers.tensors(), header))

    def _restore(self) -> None:
        file = self._settings.out / STATE
        if not file.exists():
            return
        try:
            with safe_open(file, "pt") as stream:
                header = stream.metadata() or {}
                state = State(**json.loads(header["state"]))
                same = header["identity"] == self._identity(state.phase)
                tensors = {name: stream.get_tensor(name) for name in stream.keys()}  # noqa: SIM118
            if same:
                self._optimisers.restore(tensors)
        except (OSError, SafetensorError, ValueError, KeyError, TypeError) as error:
            raise _unusable(self._settings.out) from error
        if not same:
            raise _unusable(self._settings.out)
        self.state = state


def _unusable(folder: Path) -> UserFixable:
    return UserFixable(
        tr("The checkpoint in {folder} is damaged, or of another recipe.").format(folder=folder),
        tr("Delete the folder, or leave out --resume."),
    )

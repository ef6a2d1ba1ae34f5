"""A model that was made before, to go on from instead of from random weights."""

from __future__ import annotations

from dataclasses import dataclass, replace
from pathlib import Path

import torch
from tokenizers import Tokenizer

from engine.commands import WeightFormat
from engine.errors import UserFixable
from engine.hub.local import LocalModel
from engine.language import tr
from engine.loading.checking import own_model
from engine.model.config import ModelConfig
from engine.model.text.vocabulary.folder import first_readable
from engine.model.text.vocabulary.gguf_vocabulary import gguf_vocabulary
from engine.model.text.vocabulary.library import libraries
from engine.model.weights.model_weights import ModelWeights
from engine.train.modules import Draft
from engine.train.scratch.recipe import Recipe
from engine.train.scratch.vocabulary import SPECIAL


@dataclass(frozen=True, slots=True)
class Beginning:
    """What is taken over from it."""

    name: str
    config: ModelConfig
    tokenizer: Tokenizer
    weights: ModelWeights

    @classmethod
    def read(cls, path: Path) -> Beginning:
        """From a folder or a GGUF file.

        Raises:
            UserFixable: it cannot be read, or marks its turns in another way than ours.
        """
        model = LocalModel.inspect(path)
        config, weights, _ = own_model(model, WeightFormat.F32)
        if model.gguf is None:
            tokenizer = first_readable(model.path, libraries).start
        else:
            tokenizer = libraries(gguf_vocabulary(model.gguf.metadata.values)).start
        if [tokenizer.token_to_id(token) for token in SPECIAL] != list(range(len(SPECIAL))):
            raise _foreign(model.name)
        return cls(model.name, config, tokenizer, weights)

    def shaped(self, recipe: Recipe) -> Recipe:
        """The recipe for a model of this shape."""
        config = self.config
        shape = replace(
            recipe.shape,
            vocab=config.vocab_size,
            hidden=config.hidden_size,
            blocks=config.num_layers,
            heads=config.num_heads,
            kv_heads=config.num_kv_heads,
            intermediate=config.intermediate_size,
        )
        return replace(recipe, shape=shape)

    def fill(self, model: Draft) -> None:
        """Copy the weights.

        Raises:
            UserFixable: it is built in another way.
        """
        named = dict(model.named_parameters())
        shapes = {name: tuple(one.shape) for name, one in named.items()}
        if shapes != {name: self.weights.shape(name) for name in self.weights.names()}:
            raise _foreign(self.name)
        with torch.no_grad():
            for name, one in named.items():
                one.copy_(torch.from_numpy(self.weights.float32(name)))


def _foreign(name: str) -> UserFixable:
    return UserFixable(
        tr("{name} was not made by this command.").format(name=name),
        tr("Go on from a model that was, or begin without one."),
    )

"""An embedding model that was loaded: texts in, vectors out."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

import numpy as np
import tokenizers
from numpy.typing import NDArray

from engine.encoder import config, words
from engine.encoder.config import EncoderConfig
from engine.encoder.forward import embedding
from engine.encoder.weights import EncoderWeights
from engine.errors import UserFixable
from engine.language import tr
from engine.model.gguf.file import open_gguf
from engine.model.weights.safetensors_folder import SafetensorsFolder


class TooLong(ValueError):
    """A text has more tokens than the model takes.

    Args:
        tokens: that it has.
        most: that it may have.
    """

    def __init__(self, tokens: int, most: int) -> None:
        super().__init__(f"{tokens} tokens, of {most}")
        self.tokens, self.most = tokens, most


@dataclass(frozen=True, slots=True)
class Embedded:
    """A text's meaning: float32 [width] of length 1, and how many tokens were read."""

    vector: NDArray[np.float32]
    tokens: int


class Encoder:
    """Embeds texts, one at a time; used by one thread at a time.

    Args:
        name: of its file or folder.
        shape: what it is.
        weights: of it.
        tokenizer: of it.

    Raises:
        UserFixable: its vocabulary has tokens that its weights have not.
    """

    def __init__(
        self,
        name: str,
        shape: EncoderConfig,
        weights: EncoderWeights,
        tokenizer: tokenizers.Tokenizer,
    ) -> None:
        self.name, self._config = name, shape
        self._weights, self._tokenizer = weights, tokenizer
        if (count := tokenizer.get_vocab_size()) > shape.vocabulary:
            raise config.no_encoder(name, f"{count} tokens")

    @property
    def longest(self) -> int:
        """Tokens that a text may have."""
        return self._config.longest

    @property
    def nbytes(self) -> int:
        """Bytes of memory that its weights take."""
        return self._weights.nbytes

    @property
    def width(self) -> int:
        """Numbers of a vector."""
        return self._config.width

    def embed(self, text: str) -> Embedded:
        """Return what a text means.

        Raises:
            TooLong: it has too many tokens; nothing is cut off.
        """
        ids = self._tokenizer.encode(text).ids
        if len(ids) > self.longest:
            raise TooLong(len(ids), self.longest)
        return Embedded(embedding(self._config, self._weights, ids), len(ids))


def load_encoder(path: Path) -> Encoder:
    """Load an embedding model: a GGUF file, or a folder with safetensors.

    Raises:
        UserFixable: there is none, it is damaged, or of a kind that is not known.
    """
    if path.is_dir():
        shape = config.of_folder(path)
        weights = EncoderWeights(shape, SafetensorsFolder.open(path))
        return Encoder(path.name, shape, weights, words.of_folder(path))
    if not path.is_file():
        raise UserFixable(
            tr("There is no file “{name}”.").format(name=path.name),
            tr("Name a GGUF file, or a folder with an embedding model."),
            str(path),
        )
    file = open_gguf(path)
    shape = config.of_metadata(file.metadata)
    weights = EncoderWeights(shape, file.reader())
    return Encoder(path.stem, shape, weights, words.of_metadata(file.metadata))

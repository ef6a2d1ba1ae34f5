"""A model folder's vocabulary, in whichever of the usual files it is."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import TypeVar

from engine.errors import UserFixable
from engine.language import tr
from engine.model.json_object import JsonObject
from engine.model.text.vocabulary.added_tokens import with_added
from engine.model.text.vocabulary.description import Vocabulary, sentencepiece
from engine.model.text.vocabulary.merges import by_score
from engine.model.text.vocabulary.plain_files import from_merges, from_ranks
from engine.model.text.vocabulary.sentencepiece_file import SentencePieceModel

_Made = TypeVar("_Made")


def first_readable(folder: Path, make: Callable[[Vocabulary], _Made]) -> _Made:
    """What `make` makes of the first of the folder's vocabulary files that is not damaged.

    The files are tokenizer.json, tokenizer.model, vocab.json with merges.txt, and *.tiktoken. All
    of a folder say the same, so when one is damaged the next one serves.

    Args:
        folder: a model's.
        make: raises `UserFixable` where it finds the vocabulary damaged.

    Raises:
        UserFixable: there is none, or all are damaged.
    """
    errors: list[UserFixable] = []
    for read in _readers(folder):
        try:
            return make(read())
        except UserFixable as error:
            errors.append(error)
    raise errors[0]


def _readers(folder: Path) -> list[Callable[[], Vocabulary]]:
    """Of the folder's files, best first."""
    readers: list[Callable[[], Vocabulary]] = []
    if (folder / "tokenizer.json").exists():
        readers.append(partial(_library_file, folder / "tokenizer.json"))
    models = sorted(folder.glob("tokenizer.model*"))  # Mistral's end in a version
    if models:
        newest = models[0] if models[0].suffix == ".model" else models[-1]
        readers.append(partial(_sentencepiece, newest))
    if (folder / "vocab.json").exists() and (folder / "merges.txt").exists():
        readers.append(partial(from_merges, folder))
    readers += [partial(from_ranks, path) for path in sorted(folder.glob("*.tiktoken"))]
    if readers:
        return readers
    raise UserFixable(
        tr("The model folder has no tokenizer.json."),
        tr("Choose the folder that holds all of the model's files, or download it again."),
        str(folder),
    )


def _library_file(path: Path) -> Vocabulary:
    return Vocabulary(JsonObject.read(path).data)


def _sentencepiece(path: Path) -> Vocabulary:
    model = SentencePieceModel.read(path)
    pieces = with_added(model.pieces, path.parent)
    return sentencepiece(pieces, by_score(pieces), space_prefix=model.space_prefix)

"""What a model's files leave out or have too much of, and what is done about it, in words."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from engine.errors import UserFixable
from engine.language import listed, number, tr, tr_count
from engine.model.config import ModelConfig
from engine.model.gguf.config import usual_numbers
from engine.model.gguf.file import GgufFile
from engine.model.heads.description import DraftOnly
from engine.model.local_model import LocalModel
from engine.model.model_files import TEMPLATE
from engine.model.text.template_source import own_template
from engine.model.text.vocabulary.gguf_vocabulary import doubled_tokens, usual_ids, usual_words
from engine.model.weights.model_weights import left_aside
from engine.model.weights.safetensors_folder import SafetensorsFolder


def file_notes(model: LocalModel) -> tuple[str, ...]:
    """Return a sentence for each; none where the files say all and no more.

    What keeps a model from loading is not told here.
    """
    if isinstance(model.config, DraftOnly):
        return ()
    try:
        return tuple(_notes(model))
    except UserFixable as error:  # said when it is loaded, with what can be done
        return (error.cause,)


def _notes(model: LocalModel) -> Iterator[str]:
    if model.gguf is not None and isinstance(model.config, ModelConfig):
        yield from _left_out(model.gguf)
    apart = _apart(model)
    if apart:
        yield tr_count(
            "{n} tensor of a part that sees or hears is left aside: Duotail reads and writes text.",
            "{n} tensors of a part that sees or hears are left aside: Duotail reads and writes "
            "text.",
            len(apart),
        )
    template = model.template()
    if model.gguf is not None and own_template(model.gguf.files[0]) is not None:
        beside = model.gguf.files[0].with_suffix(TEMPLATE).name
        yield tr("The chat template is that of {file}, not the model's own.").format(file=beside)
    elif template.missing:
        yield tr(
            "There is no chat template; a plain one with “User:” and “Assistant:” takes its place."
        )
    if template.caveat:
        yield template.caveat


def _left_out(file: GgufFile) -> Iterator[str]:
    """Notes on numbers, and on the vocabulary."""
    metadata = file.metadata.values
    numbers: Mapping[str, float] = {**usual_numbers(file), **usual_ids(metadata)}
    if numbers:
        pairs = (f"{key} = {number(value, 'g')}" for key, value in numbers.items())
        yield tr("The file leaves out numbers, so the usual ones are used: {numbers}.").format(
            numbers=listed(pairs)
        )
    if usual_words(metadata):
        yield tr(
            "The file does not say how its vocabulary cuts text into words; the usual way is used."
        )
    twice = doubled_tokens(metadata)
    if twice:
        yield tr_count(
            "{n} token is listed twice; texts are encoded with the later one.",
            "{n} tokens are listed twice; texts are encoded with the later ones.",
            twice,
        )


def _apart(model: LocalModel) -> frozenset[str]:
    if not isinstance(model.config, ModelConfig):
        return frozenset()
    if model.gguf is not None:
        return left_aside(model.gguf.tensors, "gguf")
    return left_aside(SafetensorsFolder.open(model.path).names(), "safetensors")

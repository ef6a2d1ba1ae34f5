"""The families of models: one reader of `config.json` for each."""

from __future__ import annotations

from collections.abc import Callable

from engine.errors import UserFixable
from engine.language import tr
from engine.model.config import ModelConfig
from engine.model.families.common import unsupported
from engine.model.families.llama import read_llama
from engine.model.families.qwen import read_qwen2
from engine.model.json_object import JsonObject

READERS: dict[str, tuple[str, Callable[[JsonObject], ModelConfig]]] = {
    "llama": ("LlamaForCausalLM", read_llama),
    "qwen2": ("Qwen2ForCausalLM", read_qwen2),
}
"""`model_type` -> the architecture that it stands for, and what reads it."""


def read_config(source: JsonObject) -> ModelConfig:
    """Check and read a `config.json`.

    Raises:
        UserFixable: a family or feature that the decoder does not have, or a number that cannot be
            right.
    """
    family = source.text("model_type")
    if family is None:
        raise UserFixable(
            tr("config.json does not say which kind of model this is."),
            tr("Choose a folder with a language model, not a part of one (such as an adapter)."),
        )
    if family not in READERS:
        raise unsupported(tr("its family is “{family}”").format(family=family[:60]))
    architecture, read = READERS[family]
    names = source.items("architectures")
    if names and architecture not in names:
        raise unsupported(tr("its architecture is “{name}”").format(name=str(names[0])[:60]))
    return read(source)

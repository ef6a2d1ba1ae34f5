"""The families of models: one reader of `config.json` for each."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path

from engine.errors import UserFixable
from engine.language import tr
from engine.model.config import ModelConfig
from engine.model.families.common import refuse_quantised, unsupported
from engine.model.families.gemma import GEMMA2, GEMMA3, read_gemma2, read_gemma3
from engine.model.families.gpt_oss import GPT_OSS, read_gpt_oss
from engine.model.families.llama import (
    LLAMA,
    MISTRAL,
    PHI3,
    SMOLLM3,
    read_llama,
    read_mistral,
    read_phi3,
    read_smollm3,
)
from engine.model.families.qwen import (
    QWEN2,
    QWEN3,
    QWEN3_MOE,
    read_qwen2,
    read_qwen3,
    read_qwen3_moe,
)
from engine.model.families.qwen3_5 import (
    QWEN3_5,
    QWEN3_5_MOE,
    QWEN3_NEXT,
    read_qwen3_5,
    read_qwen3_5_moe,
)
from engine.model.json_object import JsonObject


@dataclass(frozen=True, slots=True)
class Family:
    """The description of a `model_type`'s config.json.

    Attributes:
        architecture: that a config.json names beside the `model_type`.
        defaults: members of a config.json that does not say otherwise.
        read: builds the config from a complete config.json.
        quantised: methods of `quantization_config` whose weights can be read.
    """

    architecture: str
    defaults: Mapping[str, object]
    read: Callable[[JsonObject], ModelConfig]
    quantised: tuple[str, ...] = ()


READERS: dict[str, Family] = {
    "llama": Family("LlamaForCausalLM", LLAMA, read_llama),
    "mistral": Family("MistralForCausalLM", MISTRAL, read_mistral),
    "ministral": Family("MinistralForCausalLM", MISTRAL, read_mistral),
    "smollm3": Family("SmolLM3ForCausalLM", SMOLLM3, read_smollm3),
    "qwen2": Family("Qwen2ForCausalLM", QWEN2, read_qwen2),
    "qwen3": Family("Qwen3ForCausalLM", QWEN3, read_qwen3),
    "qwen3_moe": Family("Qwen3MoeForCausalLM", QWEN3_MOE, read_qwen3_moe),
    "qwen3_5_text": Family("Qwen3_5ForCausalLM", QWEN3_5, read_qwen3_5),
    "qwen3_5_moe_text": Family("Qwen3_5MoeForCausalLM", QWEN3_5_MOE, read_qwen3_5_moe),
    "qwen3_next": Family("Qwen3NextForCausalLM", QWEN3_NEXT, read_qwen3_5_moe),
    "phi3": Family("Phi3ForCausalLM", PHI3, read_phi3),
    "gemma2": Family("Gemma2ForCausalLM", GEMMA2, read_gemma2),
    "gemma3_text": Family("Gemma3ForCausalLM", GEMMA3, read_gemma3),
    "gpt_oss": Family("GptOssForCausalLM", GPT_OSS, read_gpt_oss, quantised=("mxfp4",)),
}
"""The families by their `model_type`."""

WITH_IMAGES = {
    "gemma3": ("Gemma3ForConditionalGeneration", "gemma3_text"),
    "mistral3": ("Mistral3ForConditionalGeneration", "mistral"),
    "qwen3_5": ("Qwen3_5ForConditionalGeneration", "qwen3_5_text"),
    "qwen3_5_moe": ("Qwen3_5MoeForConditionalGeneration", "qwen3_5_moe_text"),
}
"""Models that also see pictures, whose text part is run: -> architecture, the text's family."""
_SHARED = ("bos_token_id", "eos_token_id", "tie_word_embeddings", "quantization_config")


def open_config(folder: Path) -> ModelConfig:
    """Read `config.json` of a model folder; raises what `read_config` does."""
    return read_config(JsonObject.read(folder / "config.json"))


def parse_config(members: Mapping[str, object]) -> ModelConfig:
    """Read the members of a `config.json`; raises what `read_config` does."""
    return read_config(JsonObject(members, "config.json"))


def read_config(source: JsonObject) -> ModelConfig:
    """Check and read a `config.json`.

    Raises:
        UserFixable: a family or feature that the decoder does not have, or a number that cannot be
            right.
    """
    name = source.text("model_type")
    if name is None:
        raise UserFixable(
            tr("config.json does not say which kind of model this is."),
            tr("Choose a folder with a language model, not a part of one (such as an adapter)."),
        )
    if name in WITH_IMAGES:
        architecture, text_family = WITH_IMAGES[name]
        _check_architecture(source, architecture)
        return read_config(_text_part(source, text_family))
    if name not in READERS:
        raise unsupported(tr("its family is “{family}”").format(family=name[:60]))
    family = READERS[name]
    _check_architecture(source, family.architecture)
    refuse_quantised(source, family.quantised)
    return family.read(source.over(family.defaults))


def _check_architecture(source: JsonObject, architecture: str) -> None:
    names = source.items("architectures")
    if names and architecture not in names:
        raise unsupported(tr("its architecture is “{name}”").format(name=str(names[0])[:60]))


def _text_part(source: JsonObject, family: str) -> JsonObject:
    """The members that describe the language model; those of the whole model take precedence."""
    text = source.member("text_config") or JsonObject({}, source.origin)
    stated = {key: source.data[key] for key in _SHARED if source.has(key)}
    data = {"model_type": family, **text.data, **stated, "architectures": None}
    return JsonObject(data, source.origin)

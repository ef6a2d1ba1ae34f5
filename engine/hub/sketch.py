"""What the planner is told of a model that is not here: from its config, or from its size alone.

A block is counted once and stands for all that are like it, so that a list of hundreds is judged
at once; the whole is then brought to the bytes that its files have.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import cache

from engine.backend.cpu import choose_format
from engine.backend.native.matrix import NATIVE_KINDS
from engine.backend.native.workspace import state_bytes
from engine.commands import WeightFormat
from engine.errors import NotPossible, UserFixable
from engine.hub.curated import Curated, CuratedModel
from engine.hub.messages import Packaging, Repository, Variant
from engine.language import tr
from engine.model.config import BlockConfig, ModelConfig
from engine.model.families import parse_config
from engine.model.gguf.config import is_runnable
from engine.model.gguf.header import KIND_OF_NAME
from engine.model.heads.own import mtp_head
from engine.model.json_object import JsonObject
from engine.model.other_family import OtherConfig, is_other, read_other
from engine.model.tensors import UNQUANTISED, expected_tensors
from engine.plan.facts import ModelFacts
from engine.plan.footprint import (
    Footprint,
    WeightPart,
    footprint,
    other_footprint,
    stored_footprint,
    weight_count,
)

_KIND = re.compile(r"(IQ[1-4]_(?:XXS|XS|NL|S|M)|T?Q[1-8]_[01K]|MXFP4|NVFP4|BF16|F16|F32)")
_MOST_JSON = 1 << 20


@dataclass(frozen=True, slots=True)
class Sketch:
    """A model as far as it is known.

    Attributes:
        listed: what the shipped list says of it, where it is there.
        guessed: its shape is that of a model of about its size.
    """

    facts: ModelFacts
    listed: CuratedModel | None = None
    guessed: bool = False


def of_listed(model: CuratedModel, variant: str, weight_bytes: int | None = None) -> ModelFacts:
    """Return a listed model in GGUF, as in "Q4_K_M"; without `weight_bytes` of its usual size."""
    held = of_stored(model.config, variant, weight_bytes or usual_bytes(model, variant))
    return ModelFacts(model.name, held, model.context)


@cache
def usual_bytes(model: CuratedModel, variant: str) -> int:
    """Return about how many bytes a listed model's weights have in GGUF."""
    bits = {"Q4_K_M": 4.9, "Q8_0": 8.5, "MXFP4": 4.6}[variant]
    head = head_of_listed(model)
    own = 0 if head is None else _count(head) - 2 * head.vocab_size * head.hidden_size
    return int((model.parameters + own) * bits / 8)


@cache
def head_of_listed(model: CuratedModel) -> ModelConfig | None:
    """Return the MTP head in a listed model's files; None where they bring none."""
    head = mtp_head(model.config) if model.mtp else None
    return None if head is None else replace(head.config, tie_word_embeddings=False)


def of_variant(repository: Repository, variant: Variant, known: Curated) -> Sketch:
    """Return one of the variants of a repository.

    Raises:
        UserFixable: it cannot run here, whatever there is of memory.
    """
    found = repository.found
    name = found.repo.rpartition("/")[2]
    listed = known.of_repo(found.repo, found.base)
    if variant.packaging is Packaging.SAFETENSORS:
        return _of_folder(repository, variant, listed)
    if found.architecture and not is_runnable(found.architecture):
        raise NotPossible(
            tr("Duotail has no decoder of its own for “{family}” models.").format(
                family=found.architecture[:60]
            ),
            tr("Choose a model of another family."),
        )
    config = _readable(repository.config) or (listed.config if listed else None)
    guessed = config is None
    if config is None:
        config = _nearest(_parameters(repository, variant), known).config
        if repository.context:
            config = replace(config, max_positions=repository.context)
    held = of_stored(config, variant.name, variant.weight_bytes)
    return Sketch(ModelFacts(name, held, config.max_positions), listed, guessed)


def _of_folder(repository: Repository, variant: Variant, listed: CuratedModel | None) -> Sketch:
    """Return a model in safetensors, which is brought into a format of ours when it is loaded."""
    name = repository.found.repo.rpartition("/")[2]
    source = _json(repository.config)
    if source is not None and is_other(source):
        other = read_other(source)
        return Sketch(_of_other(name, other, variant.weight_bytes), listed)
    if source is not None:
        config = parse_config(source.data)
    elif listed is not None:
        config = listed.config
    else:
        raise UserFixable(
            tr("Its config.json cannot be read, so Duotail cannot tell whether it would run."),
            tr("Choose a model in GGUF format."),
        )
    if "MXFP4" in variant.name.upper() or config.family == "gpt_oss":
        held = of_stored(config, "MXFP4", variant.weight_bytes)
    else:
        held = in_format(config, choose_format(WeightFormat.AUTO, _count(config)))
    return Sketch(ModelFacts(name, held, config.max_positions), listed)


def _of_other(name: str, config: OtherConfig, weight_bytes: int) -> ModelFacts:
    """Return a model of a family that transformers runs, in 16 bits."""
    held = other_footprint(config, weight_bytes // 2, WeightFormat.BF16)
    return ModelFacts(name, held, config.max_positions, config.family)


def in_format(config: ModelConfig, weights: WeightFormat) -> Footprint:
    """Return what `footprint` gives, counting one block for all that are like it."""
    return _whole(config, lambda part: footprint(part, weights))


def of_stored(config: ModelConfig, variant: str, weight_bytes: int) -> Footprint:
    """Return all matrices in the type of a variant's name, brought to the bytes of its files.

    Types that no kernel reads are held as floats.
    """
    kind = _kind(variant, 8 * weight_bytes / max(_count(config), 1))
    native = kind if kind in NATIVE_KINDS else "F32"

    def stored(part: ModelConfig) -> Footprint:
        names = (name for name in expected_tensors(part) if not name.endswith(UNQUANTISED))
        return stored_footprint(part, dict.fromkeys(names, native), variant)

    held = _whole(config, stored)
    if native != kind:
        return held
    return _scaled(held, weight_bytes / max(held.weight_bytes, 1))


def _whole(config: ModelConfig, of: Callable[[ModelConfig], Footprint]) -> Footprint:
    """Return the footprint of all blocks from one of each sort."""
    sorts = [_sort(block) for block in config.blocks]
    first = dict(zip(reversed(sorts), reversed(config.blocks), strict=True))
    parts = {key: of(replace(config, blocks=(block,))) for key, block in first.items()}
    one = parts[sorts[0]]
    every = [parts[key] for key in sorts]
    return replace(
        one,
        blocks=tuple([part.blocks[0] for part in every]),
        kv_of_blocks=tuple([part.kv_of_blocks[0] for part in every]),
        states=state_bytes(config),
        config=config,
    )


def _sort(block: BlockConfig) -> tuple[object, ...]:
    """Return what the size of a block depends on."""
    return block.sizes, bool(block.window)


def _scaled(held: Footprint, factor: float) -> Footprint:
    def scaled(part: WeightPart) -> WeightPart:
        return WeightPart(
            tuple((kind, round(count * factor)) for kind, count in part.dense),
            tuple((kind, round(count * factor)) for kind, count in part.experts),
            part.chosen,
        )

    known = {part: scaled(part) for part in {held.embedding, held.head, *held.blocks}}
    return replace(
        held,
        embedding=known[held.embedding],
        head=known[held.head],
        blocks=tuple(known[part] for part in held.blocks),
    )


def _kind(variant: str, bits: float) -> str:
    """Return the type of most matrices, by name or by what a weight takes."""
    match = _KIND.search(variant.upper())
    if match is not None and match[1] in KIND_OF_NAME:
        return match[1]
    sizes = {name: 8 * kind.nbytes / kind.numbers for name, kind in KIND_OF_NAME.items()}
    return min(NATIVE_KINDS, key=lambda name: abs(sizes[name] - bits))


def _count(config: ModelConfig) -> int:
    """Return the numbers in all tensors, a block standing for all that are like it."""
    none = weight_count(replace(config, blocks=()))
    sorts = [_sort(block) for block in config.blocks]
    of_sort = {
        key: weight_count(replace(config, blocks=(block,))) - none
        for key, block in dict(zip(sorts, config.blocks, strict=True)).items()
    }
    return none + sum(of_sort[key] for key in sorts)


def _parameters(repository: Repository, variant: Variant) -> int:
    """Return the parameters that the hub tells, or that the bytes come to."""
    if repository.found.parameters:
        return repository.found.parameters
    match = _KIND.search(variant.name.upper())
    kind = KIND_OF_NAME.get(match[1]) if match else None
    bits = 8 * kind.nbytes / kind.numbers if kind else 4.9
    return int(variant.weight_bytes * 8 / bits)


def _nearest(parameters: int, known: Curated) -> CuratedModel:
    dense = [model for model in known.models if not model.config.blocks[0].experts]
    return min(dense, key=lambda model: abs(model.parameters - parameters))


def _readable(text: str) -> ModelConfig | None:
    """Read a config.json beside GGUF files; None where it is none that we know."""
    source = _json(text)
    try:
        return parse_config(source.data) if source is not None else None
    except UserFixable:
        return None


def _json(text: str) -> JsonObject | None:
    try:
        data = json.loads(text) if text and len(text) < _MOST_JSON else None
    except (ValueError, RecursionError):
        return None
    return JsonObject(data, "config.json") if isinstance(data, dict) else None

"""A model or draft head on this computer, its headers read and checked."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Collection
from dataclasses import dataclass, field
from pathlib import Path

from engine.errors import NotPossible, UserFixable
from engine.language import listed, tr
from engine.model import bundled
from engine.model.config import ModelConfig
from engine.model.families import parse_config
from engine.model.generation_config import folder_sampling, gguf_sampling
from engine.model.gguf.config import model_config
from engine.model.gguf.file import GgufFile, open_gguf
from engine.model.heads.description import DraftOnly
from engine.model.heads.own import mtp_head
from engine.model.heads.reading import is_head, read_head, read_reduced
from engine.model.json_object import JsonObject
from engine.model.model_files import (
    PACKED,
    SIDECAR,
    check_folder,
    chosen_file,
    holds_model,
    is_gguf,
    models_in,
)
from engine.model.other_family import OtherConfig, is_other, read_other
from engine.model.text.chat_template import ChatTemplate
from engine.model.text.template_source import own_template
from engine.model.text.tokenizer import Tokenizer
from engine.model.text.vocabulary.same_tokens import TokenList, folder_tokens, gguf_tokens
from engine.model.weights.head_weights import HeadWeights, open_own
from engine.model.weights.model_weights import ModelWeights
from engine.model.weights.mtp_names import mtp_names
from engine.model.weights.parts import FileKind
from engine.model.weights.safetensors_folder import INDEX_FILE, SINGLE_FILE, SafetensorsFolder
from engine.request import SamplingParams

_FILE_TYPES = {
    0: "F32", 1: "F16", 2: "Q4_0", 3: "Q4_1", 7: "Q8_0", 8: "Q5_0", 9: "Q5_1", 10: "Q2_K",
    11: "Q3_K_S", 12: "Q3_K_M", 13: "Q3_K_L", 14: "Q4_K_S", 15: "Q4_K_M", 16: "Q5_K_S",
    17: "Q5_K_M", 18: "Q6_K", 19: "IQ2_XXS", 20: "IQ2_XS", 21: "Q2_K_S", 22: "IQ3_XS",
    23: "IQ3_XXS", 24: "IQ1_S", 25: "IQ4_NL", 26: "IQ3_S", 27: "IQ3_M", 28: "IQ2_S", 29: "IQ2_M",
    30: "IQ4_XS", 31: "IQ1_M", 32: "BF16", 36: "TQ1_0", 37: "TQ2_0", 38: "MXFP4",
}  # fmt: skip
"""llama.cpp's numbers for the mixtures of types that it makes (see NOTICE)."""
_SAYS_NOTHING = re.compile(r"(ggml-)?model([-_.][\w.-]*)?|sha256-[0-9a-f]+", re.IGNORECASE)
"""Names of files that are the same for every model: converters' and Ollama's."""
_FIRST_NORM = "blk.0.attn_norm.weight"
"""A tensor that every model's GGUF file has; those of MTP heads alone do not."""
_BLOCKS_OF_HEADS = 8
"""Published ones have one."""


@dataclass(frozen=True, slots=True)
class LocalModel:
    """A usable model or draft head, its headers read and checked.

    Attributes:
        path: what was chosen: a folder, or a GGUF file.
        name: for people: the sidecar's, else the file's or the folder's own.
        config: what it looks like; an `OtherConfig` where transformers has to run it, and a
            `DraftOnly` of a draft that has neither tokenizer nor template.
        kind: the types of its weights in a word, such as "Q4_K_M" or "BF16".
        weight_bytes: of all its tensors, as stored.
        draft: the draft model that belongs to it.
        has_mtp: its files hold an MTP head; None: models of its family bring none.
        gguf: the tables of contents, where its tensors are in GGUF.
    """

    path: Path
    name: str
    config: ModelConfig | OtherConfig | DraftOnly
    kind: str
    weight_bytes: int
    draft: Path | None
    has_mtp: bool | None = None
    gguf: GgufFile | None = field(default=None, repr=False)

    @classmethod
    def inspect(cls, path: Path) -> LocalModel:
        """Check config and weights (headers only) and read the optional sidecar `duotail.json`.

        Raises `UserFixable` for whatever would keep the model from loading.
        """
        file = chosen_file(path)
        return cls._of_file(path, file) if file is not None else cls._of_folder(path)

    @classmethod
    def _of_folder(cls, path: Path) -> LocalModel:
        check_folder(path)
        source = JsonObject.read(path / "config.json")
        sidecar = JsonObject.read_optional(path / SIDECAR)
        reduced = read_reduced(source)
        if reduced is not None or _is_head(source, path):
            return cls._of_draft(path, source, sidecar, reduced)
        config = read_other(source) if is_other(source) else parse_config(source.data)
        tensors = SafetensorsFolder.open(path)
        weights = _described(config, tensors)
        return cls(
            path=path,
            name=_given_name(sidecar) or path.resolve().name[:200],
            config=config,
            kind=_commonest_kind(weights),
            weight_bytes=weights.nbytes,
            draft=_draft(path, sidecar),
            has_mtp=None if isinstance(config, OtherConfig) else _has_mtp(config, tensors.names()),
        )

    @classmethod
    def _of_draft(
        cls, path: Path, source: JsonObject, sidecar: JsonObject, reduced: DraftOnly | None
    ) -> LocalModel:
        gguf = _packed(path)
        tensors = SafetensorsFolder.open(path) if gguf is None else gguf.reader()
        config = reduced or read_head(source, tensors.names())
        own, *_ = open_own(config.config, tensors)
        return cls(
            path=path,
            name=_given_name(sidecar) or path.resolve().name[:200],
            config=config,
            kind=_commonest_kind(own) if gguf is None else format_words(gguf),
            weight_bytes=own.nbytes,
            draft=None,
            gguf=gguf,
        )

    @classmethod
    def _of_file(cls, path: Path, file: Path) -> LocalModel:
        gguf = open_gguf(file)
        config = model_config(gguf)
        has_mtp = _has_mtp(config, gguf.tensors)
        if has_mtp and _FIRST_NORM not in gguf.tensors:
            return cls._of_mtp(path, model_name(gguf), config, gguf)
        weights = ModelWeights.open(config, gguf.reader(), "gguf")
        folder, sidecar = _file_sidecar(gguf.files[0])
        return cls(
            path=path,
            name=_given_name(sidecar) or model_name(gguf),
            config=config,
            kind=format_words(gguf),
            weight_bytes=weights.nbytes,
            draft=_draft(folder, sidecar),
            has_mtp=has_mtp,
            gguf=gguf,
        )

    @classmethod
    def _of_mtp(
        cls, path: Path, name: str, target: ModelConfig, gguf: GgufFile | None
    ) -> LocalModel:
        """The MTP head of a model of this shape, in its files or one of its own."""
        config = mtp_head(target)
        if config is None:
            raise ValueError("models of this family bring no head")
        tensors = SafetensorsFolder.open(path) if gguf is None else gguf.reader()
        own, *_ = open_own(config.config, tensors, "safetensors" if gguf is None else "gguf")
        return cls(
            path=path,
            name=name,
            config=config,
            kind=_commonest_kind(own),
            weight_bytes=own.nbytes,
            draft=None,
            gguf=gguf,
        )

    def mtp(self) -> LocalModel:
        """Return the MTP head in its files.

        Raises:
            UserFixable: they hold none, or a damaged one.
        """
        if not self.has_mtp or not isinstance(self.config, ModelConfig):
            raise NotPossible(
                tr("{model}: this file has no MTP head.").format(model=self.name),
                tr("Choose another draft, or a version of the model that has kept its MTP head."),
            )
        return self._of_mtp(self.path, tr("MTP head"), self.config, self.gguf)

    def own_weights(self, config: ModelConfig, native: Collection[str] = ()) -> ModelWeights:
        """Return its tensors by canonical name; GGUF types not in `native` read as floats."""
        if self.gguf is None:
            return ModelWeights.of_folder(config, self.path)
        return ModelWeights.open(config, self.gguf.reader(native), "gguf")

    def draft_weights(
        self,
        config: ModelConfig,
        target: ModelWeights,
        tied: bool,
        native: Collection[str] = (),
    ) -> HeadWeights:
        """Return the tensors of a draft that is no model by itself, and those that it borrows.

        Args:
            config: of the draft with its target.
            target: the weights it borrows from.
            tied: whether the target's output matrix is its embedding.
            native: see `own_weights`.
        """
        tensors = (
            SafetensorsFolder.open(self.path) if self.gguf is None else self.gguf.reader(native)
        )
        within: FileKind | None = None
        if isinstance(self.config, DraftOnly) and self.config.own:
            within = "safetensors" if self.gguf is None else "gguf"
        return HeadWeights.open(config, tensors, target, target_tied=tied, within=within)

    def tokenizer(self) -> Tokenizer:
        """Return its tokenizer, from the same files."""
        if self.gguf is None:
            return Tokenizer.open(self.path)
        return Tokenizer.from_gguf(self.gguf.metadata.values)

    def tokens(self) -> TokenList:
        """Return its tokens with their ids, without what turns text into them.

        Raises:
            UserFixable: they cannot be read.
        """
        if self.gguf is None:
            return folder_tokens(self.path)
        return gguf_tokens(self.gguf.metadata.values)

    def template(self) -> ChatTemplate:
        """Return its chat template, from the same files."""
        if self.gguf is None:
            return ChatTemplate.open(self.path)
        return ChatTemplate.from_gguf(self.gguf.metadata.values, own_template(self.gguf.files[0]))

    def sampling(self) -> SamplingParams | None:
        """Return the sampling that its files recommend; None where they recommend none."""
        if self.gguf is None:
            return folder_sampling(self.path)
        return gguf_sampling(self.gguf.metadata.values)


def model_name(file: GgufFile) -> str:
    """Return the file's own name, or what is written in it where its name says nothing."""
    stem = file.files[0].stem.removesuffix(f"-00001-of-{len(file.files):05}")
    given = (file.metadata.text("general.name") or "").strip()
    says_nothing = _SAYS_NOTHING.fullmatch(stem) is not None
    return (given if says_nothing and given and given.isprintable() else stem)[:200]


def format_words(file: GgufFile) -> str:
    """Return the types of its weights in a word: llama.cpp's for the mixture, or the commonest."""
    number = file.metadata.integer("general.file_type", 0, 1 << 31, default=1 << 31)
    if number in _FILE_TYPES:
        return _FILE_TYPES[number]
    sizes: Counter[str] = Counter()
    for tensor in file.tensors.values():
        sizes[tensor.kind] += tensor.nbytes
    return sizes.most_common(1)[0][0] if sizes else "F32"


def _described(
    config: ModelConfig | OtherConfig, tensors: SafetensorsFolder
) -> ModelWeights | SafetensorsFolder:
    if isinstance(config, OtherConfig):
        return tensors
    return ModelWeights.open(config, tensors, "safetensors")


def _has_mtp(config: ModelConfig, names: Collection[str]) -> bool | None:
    return None if mtp_head(config) is None else bool(mtp_names(names))


def _packed(folder: Path) -> GgufFile | None:
    """Return a draft's tensors in GGUF; None where they are in safetensors, which go first.

    Raises:
        UserFixable: they are in neither, or the file is damaged.
    """
    names = {entry.name for entry in folder.iterdir()} if folder.is_dir() else set()
    if names & {SINGLE_FILE, INDEX_FILE}:
        return None
    if PACKED in names:
        return open_gguf(folder / PACKED)
    old = sorted(name for name in names if name.endswith((".bin", ".pt", ".pth", ".ckpt")))
    if old:
        raise UserFixable(
            tr(
                "The draft head's weights are in an old format (.bin or .pt) that can run hidden "
                "code when read."
            ),
            tr(
                "Choose a safetensors version, or convert it with torch: "
                'save_file(torch.load("{file}", weights_only=True), "model.safetensors"), '
                "with save_file from safetensors.torch."
            ).format(file=old[0][:100]),
            listed(old[:20]),
        )
    return None


def _is_head(source: JsonObject, folder: Path) -> bool:
    """Return whether this is a feature head; EAGLE's first ones are known by their tensors only.

    Most are published in an old format, whose tensors nobody looks at.
    """
    blocks = source.data.get("num_hidden_layers")
    if is_head(source) or not isinstance(blocks, int) or blocks > _BLOCKS_OF_HEADS:
        return is_head(source)
    names = _stored_names(folder)
    return is_head(source, names) or (blocks == 1 and not names)


def _stored_names(folder: Path) -> tuple[str, ...]:
    """Return the names of all tensors; none where the files are missing or broken."""
    try:
        return SafetensorsFolder.open(folder).names()
    except UserFixable:  # told by whoever reads them
        return ()


def _commonest_kind(weights: ModelWeights | SafetensorsFolder) -> str:
    """Return the type that most of the bytes are of."""
    sizes: Counter[str] = Counter()
    for name in weights.names():
        sizes[weights.kind(name)] += weights.stored_bytes(name)
    return sizes.most_common(1)[0][0]


def _file_sidecar(file: Path) -> tuple[Path, JsonObject]:
    """Read `MODEL.duotail.json` beside `MODEL.gguf`, or a lone model's `duotail.json`.

    A starter model without either has the one that ships, wherever it lies. First is the folder
    that the sidecar's paths are relative to.
    """
    own = file.with_suffix(f".{SIDECAR}")
    alone = not own.exists() and len(models_in(file.parent)) == 1
    beside = file.with_name(SIDECAR) if alone else own
    if not beside.exists() and bundled.is_starter(file):
        beside = bundled.starter_folder() / SIDECAR
    return beside.parent, JsonObject.read_optional(beside)


def _given_name(sidecar: JsonObject) -> str:
    return (sidecar.text("name") or "")[:200]


def _draft(folder: Path, sidecar: JsonObject) -> Path | None:
    """Return the sidecar's draft, relative to the model's folder; None when it is not there."""
    relative = sidecar.text("draft")
    if relative is None:
        return None
    try:
        draft = (folder / relative).resolve()
        there = holds_model(draft) if draft.is_dir() else is_gguf(draft)
    except (OSError, ValueError):  # too long to be a path, or with a null in it
        return None
    return draft if there else None

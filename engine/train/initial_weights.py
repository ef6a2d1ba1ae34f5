"""Initial weights of a draft: another draft's, or what the target's matrices give."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import torch
from torch import Tensor

from engine.errors import UserFixable
from engine.language import tr
from engine.model.tensors import HEAD_IDS
from engine.model.weights.safetensors_folder import SafetensorsFolder
from engine.train.learner import DraftVocabulary
from engine.train.modules import DraftModule

_ROWS = 32_768
"""Rows that the directions are computed from; evenly spread over larger vocabularies."""


def load_weights(draft: DraftModule, folder: Path) -> Tensor | None:
    """Copy the weights of a finished draft of the same shape.

    Returns:
        The tokens that it can propose, int64 [rows]; None: all of the vocabulary.

    Raises:
        UserFixable: it is none, or of another shape.
    """
    stored = SafetensorsFolder.open(folder)
    for name, parameter in draft.named_parameters():
        if name not in stored.names() or stored.shape(name) != tuple(parameter.shape):
            raise UserFixable(
                tr("The draft in {folder} has another shape.").format(folder=folder),
                tr("Give the shape that it has, or begin without it."),
                name,
            )
        with torch.no_grad():
            parameter.copy_(torch.from_numpy(stored.float32(name)))
    if HEAD_IDS not in stored:
        return None
    return torch.from_numpy(stored.integers(HEAD_IDS).astype(np.int64))


@torch.no_grad()
def init_from_target(draft: DraftModule, embedding: Tensor, vocabulary: DraftVocabulary) -> None:
    """Set the embedding and output matrix of a draft, where it has its own, from the target's.

    Args:
        draft: on the CPU.
        embedding: the target's, [vocab, hidden].
        vocabulary: the tokens that the draft can propose.
    """
    if not draft.is_head:
        own = draft.model.embed_tokens.weight
        own.copy_(projected(embedding, own.shape[1]))
    if (rows := _output_rows(draft, vocabulary)) is not None:
        draft.lm_head.weight.copy_(rows)


@torch.no_grad()
def init_other_rows(draft: DraftModule, their_ids: Tensor, vocabulary: DraftVocabulary) -> None:
    """Rearrange the output rows of a draft that was loaded for another vocabulary.

    Rows of tokens that both propose are kept, the others begin as without that draft.

    Args:
        draft: on the CPU, with the rows as loaded.
        their_ids: tokens of those rows, int64, ascending.
        vocabulary: the tokens that the draft can propose from now on.
    """
    rows = _output_rows(draft, vocabulary)
    if rows is None or vocabulary.ids is None:
        return
    ids = vocabulary.ids.cpu()
    place = torch.searchsorted(their_ids, ids).clamp(max=len(their_ids) - 1)
    both = their_ids[place] == ids
    draft.lm_head.weight.copy_(torch.where(both[:, None], draft.lm_head.weight[place], rows))


def _output_rows(draft: DraftModule, vocabulary: DraftVocabulary) -> Tensor | None:
    """Return first rows of a draft's own output matrix; None if it has none.

    A head's are the target's, a model's are those of its own embedding.
    """
    if not hasattr(draft, "lm_head"):
        return None
    if draft.is_head:
        return vocabulary.rows.float().cpu()
    own: Tensor = draft.model.embed_tokens.weight
    return own if vocabulary.ids is None else own[vocabulary.ids.cpu()]


@torch.no_grad()
def projected(embedding: Tensor, width: int) -> Tensor:
    """Project an embedding on its main directions, so that similar tokens stay similar.

    Which tokens are alike is most of what a draft of few weights has to learn; the target knows it.

    Args:
        embedding: [vocab, hidden].
        width: numbers per token; those beyond `hidden` are small noise.

    Returns:
        fp32 [vocab, width], scaled so that logits of a normed state begin with a spread of 1.
    """
    some = embedding[:: -(-len(embedding) // _ROWS)].float()
    _, directions = torch.linalg.eigh(some.t() @ some)  # the weakest come first
    kept = min(width, embedding.shape[1])
    found: Tensor = embedding.float() @ directions[:, -kept:]
    found *= width**-0.5 / found.square().mean().sqrt().clamp(min=1e-12)
    if kept == width:
        return found
    noise = torch.randn(len(found), width - kept, device=found.device)
    return torch.cat((found, 0.02 * noise), 1)

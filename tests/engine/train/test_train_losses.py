"""Losses as the papers define them, and their gradients."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from head_models import HeadWeights, head_config

from engine.train.batches import Batch
from engine.train.draft_folder import describe_draft, draft_config
from engine.train.learner import DraftVocabulary, Learner, LossWeights, soft_cross_entropy
from engine.train.modules import DraftModule
from engine.train.settings import DraftKind, DraftShape


def _numbers(*shape: int, seed: int = 0) -> torch.Tensor:
    return torch.from_numpy(np.random.default_rng(seed).standard_normal(shape)).float()


def _plain(
    hidden: torch.Tensor, matrix: torch.Tensor, goal: torch.Tensor, cap: float
) -> torch.Tensor:
    logits = goal @ _numbers(50, 12, seed=3).t()
    logits = torch.tanh(logits / cap) * cap if cap else logits
    return -(logits.softmax(1) * (hidden @ matrix.t()).log_softmax(1)).sum()


def test_soft_cross_entropy_in_stretches_has_the_gradient_of_the_whole(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr("engine.train.learner.SLICE", 50 * 16)
    target = DraftVocabulary(_numbers(50, 12, seed=3), softcap=2.0)
    goal = _numbers(45, 12, seed=4)
    found, wanted = [], []
    for grads, plain in ((found, False), (wanted, True)):
        hidden = _numbers(45, 8, seed=1).requires_grad_()
        matrix = _numbers(50, 8, seed=2).requires_grad_()
        if plain:
            loss = _plain(hidden, matrix, goal, 2.0)
        else:
            loss, agrees = soft_cross_entropy(hidden, matrix, target.probs(goal))
            assert torch.equal(agrees, (hidden @ matrix.t()).argmax(1) == target.wanted(goal))
        (3 * loss).backward()  # type: ignore[no-untyped-call]
        grads += [loss.detach(), hidden.grad, matrix.grad]
    for one, other in zip(found, wanted, strict=True):
        torch.testing.assert_close(one, other, rtol=1e-4, atol=1e-4)


def _lesson(hidden: int, lengths: tuple[int, ...], vocab: int) -> Batch:
    rng = np.random.default_rng(5)
    longest = max(lengths)
    answers = torch.zeros(len(lengths), longest, dtype=torch.bool)
    features = torch.zeros(len(lengths), longest, hidden)
    for row, length in enumerate(lengths):
        answers[row, 3:length] = True
        features[row, :length] = _numbers(length, hidden, seed=row)
    tokens = torch.from_numpy(rng.integers(0, vocab, (len(lengths), longest)))
    return Batch(tokens, answers, torch.tensor(lengths), features, features)


def test_a_draft_of_few_rows_learns_their_proportions_and_is_measured_by_all_tokens() -> None:
    matrix, ids = _numbers(50, 12, seed=3), torch.tensor([1, 4, 7, 30])
    vocabulary = DraftVocabulary(matrix, ids)
    goal = _numbers(45, 12, seed=4)
    logits = (goal @ matrix.t())[:, ids]
    torch.testing.assert_close(vocabulary.probs(goal), logits.softmax(1))
    torch.testing.assert_close(vocabulary.wanted(goal), (goal @ matrix.t()).argmax(1))
    drafted = vocabulary.drafted(goal, matrix[ids])
    torch.testing.assert_close(drafted, ids[logits.argmax(1)])
    assert not torch.equal(drafted, vocabulary.wanted(goal))


def _head() -> tuple[Learner, torch.Tensor]:
    config = head_config("dgf", 2)
    weights = HeadWeights(config)
    torch.manual_seed(0)
    embedding = torch.from_numpy(weights.float32("model.embed_tokens.weight"))
    matrix = torch.from_numpy(weights.float32("lm_head.weight"))
    draft = DraftModule(config)
    papers = LossWeights(regression=1.0, labels=0.1)
    return Learner(draft, embedding, DraftVocabulary(matrix), papers, 1, 0.0), matrix


def test_a_heads_loss_is_the_papers() -> None:
    """1.0 * SmoothL1 + 0.1 * soft cross-entropy, means over the answer tokens."""
    learner, matrix = _head()
    lesson = _lesson(72, (8, 5), 323)
    outcome = learner.learn(lesson, torch.Generator())
    embedded = learner._embedding[lesson.tokens]
    regression, labels, rows = 0.0, 0.0, 0
    for row, length in enumerate((8, 5)):
        output, _ = learner.draft.run_head(
            lesson.features[row : row + 1, : length - 1], embedded[row : row + 1, 1:length], []
        )
        for told in range(3, length):  # pair told - 2 tells token `told`
            own, goal = output[0, told - 2], lesson.hidden[row, told - 1]
            gap = (own - goal).abs()
            regression += torch.where(gap < 1, gap**2 / 2, gap - 0.5).mean().item()
            wanted, given = (matrix @ goal).softmax(0), (matrix @ own).log_softmax(0)
            labels -= (wanted * given).sum().item()
            rows += 1
    assert outcome.rows == rows == 7
    np.testing.assert_allclose(outcome.loss.item(), (regression + 0.1 * labels) / rows, rtol=1e-4)


def test_conversations_of_a_batch_do_not_see_each_other() -> None:
    """A batch's loss is that of its sequences, each alone, weighted by its answers."""
    learner, _ = _head()
    both = learner.learn(_lesson(72, (8, 5), 323), torch.Generator())
    whole = _lesson(72, (8, 5), 323)
    losses = []
    for row, length in enumerate((8, 5)):
        alone = Batch(
            *(part[row : row + 1, :length] for part in (whole.tokens, whole.answers)),
            whole.lengths[row : row + 1],
            *(part[row : row + 1, :length] for part in (whole.features, whole.hidden)),
        )
        losses.append(learner.learn(alone, torch.Generator()))
    total = sum(one.loss.item() * one.rows for one in losses) / both.rows
    np.testing.assert_allclose(both.loss.item(), total, rtol=1e-4)


def test_noise_touches_input_features_only() -> None:
    """The same for a seed; targets stay, so a head that ignores features loses nothing."""
    learner, _ = _head()
    learner._noise = 51.2
    lesson = _lesson(72, (8, 5), 323)
    before = lesson.hidden.clone()
    losses = []
    for seed in (1, 1, 2):
        generator = torch.Generator()
        generator.manual_seed(seed)
        losses.append(learner.learn(lesson, generator).loss.item())
    assert losses[0] == losses[1] != losses[2]
    assert torch.equal(lesson.hidden, before)
    with torch.no_grad():
        learner.draft.fusion.feature.weight.zero_()
    quiet = learner.learn(lesson, torch.Generator()).loss.item()
    generator = torch.Generator()
    generator.manual_seed(3)
    assert learner.learn(lesson, generator).loss.item() == quiet


def test_accepted_counts_drafted_tokens_that_the_target_takes() -> None:
    """A model that is its own target always agrees: runs end where the answer does."""
    target = head_config("dgf")
    shape = DraftShape(DraftKind.MODEL, blocks=1, hidden=32, heads=2, intermediate=48)
    config = draft_config(describe_draft(shape, target, "", ""), target)
    torch.manual_seed(1)
    draft = DraftModule(config)
    lesson = _lesson(32, (9,), 323)
    with torch.no_grad():
        hidden = draft.before_output(draft.run_model(lesson.tokens))
    matrix = draft.output
    assert matrix is not None
    vocabulary = DraftVocabulary(matrix.detach())
    learner = Learner(draft, matrix, vocabulary, LossWeights(), 1, 0.0)
    same = Batch(lesson.tokens, lesson.answers, lesson.lengths, hidden, hidden)
    assert learner.accepted(same).tolist() == [5, 5, 4, 3, 2, 1]
    other = Batch(lesson.tokens, lesson.answers, lesson.lengths, -hidden, -hidden)
    assert learner.accepted(other).sum() == 0

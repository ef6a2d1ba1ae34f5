"""Prompts that go to the model as they stand."""

from __future__ import annotations

from collections.abc import Sequence

from engine.errors import UserFixable
from engine.language import tr
from engine.model.text.chat_template import Prompt, answer_ids
from engine.model.text.fill_in_the_middle import middle_prompt
from engine.model.text.tokenizer import Tokenizer
from engine.request import Message, RawPrompt


def raw_prompt(raw: RawPrompt, begun: Sequence[Message], tokenizer: Tokenizer) -> Prompt:
    """Return the tokens of a raw prompt, a begin-of-text id first where the model wants one.

    Args:
        raw: the prompt.
        begun: the answer that is to be continued, if there is one.
        tokenizer: of the model.

    Raises:
        UserFixable: there is nothing to read, an id is none of the vocabulary's, or the model does
            not fill in the middle.
    """
    if raw.suffix is not None:
        middle = middle_prompt(raw.text, raw.suffix, tokenizer)
        if middle is None:
            raise UserFixable(
                tr("This model does not fill in the middle."),
                tr("Send a prompt without a suffix, or choose a model for code."),
            )
        ids = middle
    elif raw.ids is not None:
        ids = list(raw.ids)
    elif raw.control_tokens:
        ids = tokenizer.encode_rendered(raw.text)
    else:
        ids = tokenizer.encode_text(raw.text)
    begins = raw.begins and tokenizer.adds_bos
    if tokenizer.bos_id is not None and begins and ids[:1] != [tokenizer.bos_id]:
        ids = [tokenizer.bos_id, *ids]
    if not ids:
        raise UserFixable(tr("The prompt is empty."), tr("Write something and send it again."))
    if not all(0 <= each < tokenizer.vocab_size for each in ids):
        raise UserFixable(
            tr("The prompt has token ids that the model does not know."),
            tr("Send ids of this model's own tokenizer."),
        )
    written = [each for answer in begun for each in answer_ids(answer, tokenizer)]
    return Prompt(ids + written, tuple(written))

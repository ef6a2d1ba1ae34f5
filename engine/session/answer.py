"""An answer, from a chat request to events: template -> reuse -> prefill -> rounds -> text."""

from __future__ import annotations

import codecs
from collections import deque
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from datetime import date
from itertools import count
from operator import attrgetter
from time import perf_counter

from engine.backend.round import Round
from engine.errors import Cancelled, ContextFull, UserFixable
from engine.events import (
    Alternative,
    AnswerStats,
    Event,
    Finished,
    FinishReason,
    Guess,
    Interval,
    PrefillProgress,
    RoundFinished,
    TextDelta,
)
from engine.language import number, tr
from engine.loading.load import LoadedPair
from engine.machine.cpu_share import CpuShare
from engine.model.text.chat_template import ChatTemplate, Prompt, TemplateChoices
from engine.model.text.fill_in_the_middle import middle_ends
from engine.model.text.kinds_of_text import KindsOfText
from engine.model.text.text_stream import NOTHING, Released, TextStream
from engine.model.text.tokenizer import Tokenizer
from engine.request import ChatRequest, PromptDetail, Role
from engine.session.constraining import constraint_of
from engine.session.prompt_details import PromptDetails
from engine.session.raw_prompt import raw_prompt
from engine.session.repetition import RepetitionDetector
from engine.session.tally import Tally
from engine.session.thought_budget import ThoughtBudget
from engine.speculative.decoding import Decoding
from engine.speculative.loops import Loop, Plain
from engine.speculative.sampler import Sampler

Emit = Callable[[Event], None]
ENOUGH = 4
"""Tokens that may have a part in one character: its bytes."""


def read(request: ChatRequest, template: ChatTemplate, tokenizer: Tokenizer) -> Prompt:
    """Return the prompt of a request.

    Raises:
        UserFixable: the template does not take the conversation.
    """
    messages = request.messages
    if request.raw is not None:
        return raw_prompt(request.raw, messages, tokenizer)
    continued = bool(messages) and messages[-1].role is Role.ASSISTANT
    today = date.today()  # noqa: DTZ011 - the user's own day
    choices = TemplateChoices(
        request.thinking, request.effort, request.began or today, request.tools.tools
    )
    return template.prompt(messages, tokenizer, continue_answer=continued, choices=choices)


class Answer:
    """Writes one answer with a loaded pair.

    Args:
        pair: the loaded models.
        request: what is asked.
        emit: where events go.
        cancelled: whether the user has stopped it.
        share_noise: whether drafts are ranked with the target's noise (off only to compare).
    """

    def __init__(
        self,
        pair: LoadedPair,
        request: ChatRequest,
        emit: Emit,
        cancelled: Callable[[], bool],
        *,
        share_noise: bool = True,
    ) -> None:
        self._pair = pair
        self._request = request
        self._emit = emit
        self._cancelled = cancelled
        self._share_noise = share_noise
        self._started = request.clicked_at or perf_counter()
        self._tally = Tally()
        self._cpu = CpuShare()
        self._ends = frozenset(pair.tokenizer.eos_ids)
        if request.raw is not None and request.raw.suffix is not None:
            self._ends |= middle_ends(pair.tokenizer)
        own_stop = pair.template.stop if request.raw is None else ()
        self._stream = TextStream(
            pair.tokenizer, (*request.stop, *own_stop), thoughts=request.raw is None
        )
        self._text: list[str] = []
        self._kinds = KindsOfText()
        self._ids: list[int] = []
        self._others: deque[tuple[Alternative, ...]] = deque()  # of tokens that are not yet shown
        self._opening: tuple[int, ...] = ()
        self._repetition = RepetitionDetector(self._text_of) if request.stop_repetition else None
        self._repeats = False
        self._thoughts: ThoughtBudget | None = None
        self._indices = count()
        self._cut_short = False  # in the middle of a forward
        self.stats: AnswerStats | None = None
        """Its statistics, once it has ended."""

    def write(self) -> None:
        """Run to the end, emitting progress, text, rounds and `Finished`.

        Raises:
            UserFixable: the request cannot be answered; call `give_up` then.
        """
        decoding = self._prepare()
        try:
            request = self._request
            loop = self._pair.loop if request.drafting and request.max_tokens != 0 else Plain()
            reader = PromptDetails.of(request, decoding.tokens, self._pair.tokenizer)
            self._turn(loop)
            with loop.rounds(decoding) as rounds:
                self._progress(decoding.reused)
                for processed in decoding.prefill(reader):
                    self._progress(processed)
                if reader is not None:
                    self._emit(reader.told(decoding))
                self._decode(decoding, loop, rounds)
            while self._goes_on():
                with loop.rounds(decoding) as rounds:
                    deque(decoding.prefill(), maxlen=0)
                    self._decode(decoding, loop, rounds)
        except Cancelled:
            self._cut_short = True
        except BaseException:
            self._pair.states.drop(decoding.state)
            raise
        if self._request.detail is PromptDetail.EMBEDDING:
            self._pair.states.drop(decoding.state)  # nobody comes back to it
        self._finish(self._reason(decoding))

    def _turn(self, loop: Loop) -> None:
        """Tell the controller which kind of text comes next."""
        if loop.controller is not None:
            loop.controller.turn_to(self._kinds.now)

    def _decode(self, decoding: Decoding, loop: Loop, rounds: Iterator[Round]) -> None:
        """Decode until the rounds end, the answer repeats itself or a stop string comes up."""
        self._transfers(perf_counter())  # the prompt's are nobody's
        for done in rounds:
            counted, released = self._take(done)
            self._turn(loop)
            index = next(self._indices)
            self._tally.add(done, counted, first=index == 0)
            self._announce(decoding, index, done, counted, released)
            if self._stream.stopped or self._repeats:
                return

    def _goes_on(self) -> bool:
        """Tell whether the answer goes on behind a thought that had to end; end it."""
        if self._thoughts is None or self._stream.stopped or self._repeats:
            return False
        ending = self._thoughts.end()
        if ending:
            self._show(self._open() + self._put(ending))
        return ending is not None

    def give_up(self) -> None:
        """Close the answer after an error, with what was written before it."""
        self._finish(FinishReason.ERROR)

    @property
    def tokens(self) -> int:
        """Length of the conversation by now."""
        return self._tally.prompt_tokens + len(self._ids)

    def _prepare(self) -> Decoding:
        pair, request = self._pair, self._request
        prompt = self._prompt()
        context = pair.plan.context
        if len(prompt.ids) >= context:
            raise ContextFull(
                tr(
                    "This conversation is {needed} tokens long, and the context holds {context}."
                ).format(needed=number(len(prompt.ids)), context=number(context)),
                tr(
                    "Shorten the message, start a new conversation or load the model with a longer "
                    "context."
                ),
                len(prompt.ids),
                context,
            )
        afresh = request.detail is not PromptDetail.NONE
        state = pair.states.take(() if afresh else prompt.ids, request.asker)
        if afresh:
            state.crop(0)
        decoding = Decoding(
            pair.target,
            state,
            prompt.ids,
            Sampler(
                request.sampling,
                prompt.answer_start,
                share_noise=self._share_noise,
                account=pair.account,
                constraint=constraint_of(pair, request, prompt),
                threads=pair.threads,
                bias=request.bias,
            ),
            stop_ids=self._ends,
            max_tokens=request.max_tokens,
            cancelled=self._cancelled,
            alternatives=request.alternatives,
            snapshot=lambda: pair.states.snapshot(state),
        )
        self._tally.prompt_tokens, self._tally.reused = len(prompt.ids), decoding.reused
        if request.thought_tokens is not None and request.raw is None:
            written = len(prompt.begun) - prompt.opening
            self._thoughts = ThoughtBudget(
                decoding, request.thought_tokens, written, pair.tokenizer
            )
            self._thoughts.feed(request.messages[-1].text if written else "")
        return decoding

    def _prompt(self) -> Prompt:
        """The conversation as the model reads it; makes the text stream go on from there."""
        pair, messages = self._pair, self._request.messages
        continued = bool(messages) and messages[-1].role is Role.ASSISTANT
        if self._request.raw is None and not messages:
            raise UserFixable(tr("The message is empty."), tr("Write something and send it again."))
        prompt = read(self._request, pair.template, pair.tokenizer)
        largest, known = max(prompt.ids), pair.target.config.vocab_size
        if largest >= known:
            raise UserFixable(
                tr("The model's tokenizer and its weights do not belong together."),
                tr("Download the model again, or choose another one."),
                f"token id {largest}, vocabulary {known}",
            )
        if continued and (messages[-1].text or len(prompt.begun) > prompt.opening):
            self._stream.resume(prompt.begun, messages[-1].text)
            self._kinds.feed(messages[-1].text)
        elif self._request.raw is not None:
            self._stream.keep_spaces()
        else:
            self._opening = prompt.begun
        return prompt

    def _text_of(self, token: int) -> str:
        return self._pair.tokenizer.decode((token,))

    def _progress(self, processed: int) -> None:
        total, reused = self._tally.prompt_tokens, self._tally.reused
        self._emit(PrefillProgress(perf_counter(), self._request.id, processed, total, reused))

    def _take(self, done: Round) -> tuple[int, Released]:
        """Turn the round's tokens into text; how many of them belong to the answer."""
        tokens = done.tokens
        if tokens[-1] in self._ends:  # nothing follows such a token
            tokens = tokens[:-1]
        chances = done.verified.chances[: len(tokens)]
        if self._repetition is not None:
            end = self._repetition.find(tokens, chances)
            self._repeats = end is not None
            tokens, chances = tokens[:end], chances[:end]
        opened = self._open()
        if self._request.alternatives:
            self._others.extend(map(self._named, done.verified.likeliest[: len(tokens)]))
        before = self._stream.pushed
        accepted = min(done.accepted, len(tokens))
        released = self._stream.push_all(tokens, accepted, chances)
        counted = self._stream.pushed - before
        self._ids += tokens[:counted]
        if opened.spans:
            released = opened + released
        self._show(released)
        return counted, released

    def _open(self) -> Released:
        """Release what the template has begun the answer with; nothing the second time."""
        opening, self._opening = self._opening, ()
        return self._put(opening) if opening else NOTHING

    def _put(self, tokens: tuple[int, ...]) -> Released:
        """Release tokens that nobody drew."""
        if self._request.alternatives:
            self._others.extend(() for _ in tokens)
        self._ids += tokens
        return self._stream.open(tokens)

    def _named(self, found: Sequence[tuple[int, float]]) -> tuple[Alternative, ...]:
        """Return tokens and their probabilities with their texts."""
        spell = self._pair.tokenizer.token_bytes
        return tuple(
            Alternative(token, spell(token).decode("utf-8", "replace"), probability)
            for token, probability in found
        )

    def _show(self, released: Released) -> None:
        if self._others and released.spans:
            spans = tuple(  # one for each token, in their order
                replace(span, others=self._others.popleft() if self._others else ())
                for span in released.spans
            )
            released = replace(released, spans=spans)
        if released.spans:
            self._text.append(released.text)
            self._kinds.feed(released.text)
            if self._thoughts is not None:
                self._thoughts.feed(released.text)
            self._emit(TextDelta(perf_counter(), self._request.id, released.text, released.spans))

    def _announce(
        self, decoding: Decoding, index: int, done: Round, counted: int, released: Released
    ) -> None:
        stream, spans, tokenizer = self._stream, released.spans, self._pair.tokenizer
        refused = self._refused(done)
        own_shown = spans and counted == len(done.tokens) and not stream.undecided
        self._emit(
            RoundFinished(
                at=perf_counter(),
                request_id=self._request.id,
                index=index,
                drafting=done.drafting,
                verify=done.verify,
                drafted=done.drafted,
                accepted=min(done.accepted, counted),
                committed=counted,
                drafted_by_depth=done.verified.offered_by_depth[:counted],
                accepted_by_depth=done.verified.accepted_by_depth[:counted],
                context_used=len(decoding.tokens),
                rejected="".join(refused),
                text_start=spans[0].start if spans else stream.position,
                text_end=stream.position,
                rejected_at=spans[-1].start if own_shown else stream.position,
                useful_s=done.useful,
                wasted_s=done.wasted,
                transfers=self._transfers(done.verify.end),
                guesses=drafted_tokens(tokenizer, self._before(counted), done, counted, refused),
            )
        )

    def _transfers(self, until: float) -> tuple[Interval, ...]:
        """Copies between devices since the last time this was asked."""
        devices = self._pair.devices.values()
        taken = [copy for device in devices for copy in device.transfers.take(until)]
        return tuple(sorted(taken, key=attrgetter("start")))

    def _refused(self, done: Round) -> list[str]:
        """Texts of the draft's tokens at the place of the target's own last token."""
        tokenizer = self._pair.tokenizer
        if not (rejected := done.rejected):
            return []
        shown = done.tokens[-1] not in self._ends
        return token_texts(tokenizer, self._before(int(shown)), rejected)

    def _before(self, count: int) -> list[int]:
        """The tokens before the last `count`, as many as a character may have a part in."""
        end = len(self._ids) - count
        return self._ids[max(end - ENOUGH, 0) : end]

    def _reason(self, decoding: Decoding) -> FinishReason:
        ended = decoding.committed and decoding.tokens[-1] in self._ends
        if self._repeats and not self._stream.stopped:
            return FinishReason.REPETITION
        if self._stream.stopped or ended:
            return FinishReason.STOP
        if decoding.remaining or self._cut_short:
            return FinishReason.STOPPED
        room = decoding.state.context - self._tally.prompt_tokens
        limited = self._request.max_tokens is not None and self._request.max_tokens <= room
        return FinishReason.LENGTH if limited else FinishReason.CONTEXT

    def _finish(self, reason: FinishReason) -> None:
        final = reason is FinishReason.STOP
        self._show(self._stream.finish() if final else self._stream.suspend())
        ids = None if self._stream.cut_token else tuple(self._ids[: self._stream.kept])
        fallback = self._pair.fallback_reason if self._tally.plain_rounds else None
        stats = self._tally.stats(self._started, fallback)
        others = self._cpu.of_others()
        self.stats = stats = replace(stats, mode=self._pair.plan.mode, others_cpu=others)
        self._emit(
            Finished(
                at=perf_counter(),
                request_id=self._request.id,
                reason=reason,
                text="".join(self._text),
                token_ids=ids,
                stats=stats,
                seed=self._request.sampling.seed,
                signature=self._pair.target.signature,
                stop=self._stream.stopped_by,
            )
        )


def token_texts(tokenizer: Tokenizer, before: Sequence[int], tokens: Sequence[int]) -> list[str]:
    """Return the text that each token writes; a character belongs to the token that completes it.

    Half a character at the end is in none of them.

    Args:
        tokenizer: of both models.
        before: the last tokens before them, `ENOUGH` if there are so many.
        tokens: the ids.
    """
    pieces = [tokenizer.token_bytes(token) for token in tokens]
    if all(map(bytes.isascii, pieces)):
        return [piece.decode("ascii") for piece in pieces]
    utf8 = codecs.getincrementaldecoder("utf-8")("replace")
    utf8.decode(b"".join(map(tokenizer.token_bytes, before)))
    return [utf8.decode(piece) for piece in pieces]


def drafted_tokens(
    tokenizer: Tokenizer, before: Sequence[int], done: Round, counted: int, refused: Sequence[str]
) -> tuple[Guess, ...]:
    """Return the drafted tokens that were accepted, and the first one that was not.

    Args:
        tokenizer: of both models.
        before: the answer's last tokens before the round, see `token_texts`.
        done: the round.
        counted: how many of its tokens belong to the answer.
        refused: `token_texts` of its rejected tokens.
    """
    accepted = min(done.accepted, counted)
    drafts = done.guesses
    told = done.verified.chances or (None,) * len(done.tokens)
    found = [
        Guess(text, draft, target, accepted=True)
        for text, draft, target in zip(
            token_texts(tokenizer, before, done.tokens[:accepted]), drafts, told, strict=False
        )
    ]
    if refused and accepted == done.accepted:
        found.append(Guess(refused[0], drafts[-1], done.verified.refused, accepted=False))
    return tuple(found)

"""What the engine thread tells the world: frozen, picklable, in order, on one clock.

`at` and every interval are seconds of `time.perf_counter` in the engine's process. Text offsets
count UTF-16 code units from the start of the answer, because that is what Qt counts.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from enum import StrEnum
from pathlib import Path

from engine.commands import Load, Mode
from engine.plan.curve import Curve
from engine.plan.machine import Machine, Missing
from engine.plan.plan import DeviceMemory
from engine.plan.shortage import Holder, Shortage
from engine.plan.speeds import Speeds


class FinishReason(StrEnum):
    """Why an answer ended."""

    STOP = "stop"
    """The model ended its turn, or a stop string came up."""
    LENGTH = "length"
    """`max_tokens` was reached."""
    CONTEXT = "context"
    """The context is full."""
    STOPPED = "stopped"
    """The user stopped it."""
    ERROR = "error"


class Origin(StrEnum):
    """Who proposed a committed token. Either way the target has verified it."""

    DRAFTED = "drafted"
    TARGET = "target"


@dataclass(frozen=True, slots=True)
class Interval:
    """A span of work on one lane, in seconds on the events' clock."""

    start: float
    end: float

    @property
    def seconds(self) -> float:
        """Its length."""
        return self.end - self.start


def hull(intervals: Sequence[Interval]) -> Interval | None:
    """From the start of the first to the end of the last; None of none."""
    return Interval(intervals[0].start, intervals[-1].end) if intervals else None


@dataclass(frozen=True, slots=True)
class PlanSummary:
    """How the loaded pair will run, with the reasons in words."""

    mode: Mode
    target_device: str
    draft_device: str | None
    draft: str | None
    """Name of the draft model or head, "lookup", both joined with " + ", or None."""
    context: int
    signature: str
    """The numeric signature: weight format, KV type, device class. Text is a function of it."""
    reasons: tuple[str, ...]
    target_bytes: int = 0
    draft_bytes: int = 0
    kv_bytes: int = 0
    can_think: bool = False
    """Whether the model's template knows how to switch thinking on and off."""
    context_limit: int = 0
    """The longest context the model itself can handle; 0: not known."""
    caveat: str = ""
    """What this model cannot do that others can, for the user to know before the first answer."""
    layers: int = 0
    """Blocks of the target."""
    layers_on_gpu: int = 0
    tokens_per_s: float | None = None
    """Predicted; None where nothing was measured yet."""
    memory: tuple[DeviceMemory, ...] = ()
    """What the plan takes on each device, the CPU first."""
    knee: int | None = None
    """The smallest VRAM budget from which on the speed is about the best."""
    measured: bool = True
    """Whether the prediction rests on what calibration measured here."""
    draft_is_head: bool = False
    """Whether what drafts is a feature head."""
    embedding_on_gpu: bool = False
    head_on_gpu: bool = False


@dataclass(frozen=True, slots=True)
class LoadProgress:
    """A model is being loaded; `fraction` runs from 0 to 1."""

    at: float
    stage: str
    fraction: float


@dataclass(frozen=True, slots=True)
class MachineFound:
    """What is here, as a load found it: it plans with what of this is usable."""

    at: float
    machine: Machine


@dataclass(frozen=True, slots=True)
class PlanReady:
    """The model is loaded and answers can be asked for."""

    at: float
    model: Path
    model_name: str
    plan: PlanSummary
    load: Load | None = None
    """What was asked for; after a load that came to nothing, what the present model was loaded as.
    """


@dataclass(frozen=True, slots=True)
class Unloaded:
    """No model is in memory any more."""

    at: float


@dataclass(frozen=True, slots=True)
class PrefillProgress:
    """`done` of `total` prompt tokens are processed, `reused` of them came from a kept state."""

    at: float
    request_id: str
    done: int
    total: int
    reused: int


@dataclass(frozen=True, slots=True)
class TokenSpan:
    """The stretch of answer text one token wrote; empty for a token that completes no character."""

    token_id: int
    start: int
    end: int
    origin: Origin
    probability: float | None = None
    """What the target gave it, at temperature 1 and before penalties and filters; None where nobody
    told."""


@dataclass(frozen=True, slots=True)
class TextDelta:
    """Verified text to append to the answer, with the tokens it came from.

    Joining all deltas gives the answer; text that might become a stop string or half a character
    is held back until it is decided. What the template itself has begun the answer with (a think
    block) comes first, its tokens as the target's own.
    """

    at: float
    request_id: str
    text: str
    spans: tuple[TokenSpan, ...]


@dataclass(frozen=True, slots=True)
class Guess:
    """A drafted token on the verified way: those that were accepted, then the first that was not.

    Attributes:
        text: what it writes; empty for a token that completes no character.
        draft_probability: what the draft model gave it behind the tokens before; where tokens are
            drawn, the draft ranks with the noise of the draw, and this is its guess at the draw.
            None of a token that no model has drafted (lookup).
        probability: what the target gave it, as in `TokenSpan`.
    """

    text: str
    draft_probability: float | None
    probability: float | None
    accepted: bool


@dataclass(frozen=True, slots=True)
class RoundFinished:
    """One round of draft -> verify -> commit.

    `drafted_by_depth[i]` tells whether a node at depth i + 1 was on offer below accepted nodes
    (1 or 0), `accepted_by_depth[i]` whether one was accepted: summed over rounds they give
    acceptance by position.
    """

    at: float
    request_id: str
    index: int
    drafting: tuple[Interval, ...]
    """When the draft lane computed, in order: for this round or, while the round before was being
    verified, ahead of it."""
    verify: Interval
    drafted: int
    accepted: int
    committed: int
    drafted_by_depth: tuple[int, ...] = ()
    accepted_by_depth: tuple[int, ...] = ()
    context_used: int = 0
    rejected: str = ""
    """Text of the likeliest drafted continuation that the target did not take."""
    text_start: int = 0
    text_end: int = 0
    """The stretch of the answer released with this round: that of its TextDelta, if it had one."""
    rejected_at: int = 0
    """Offset in the answer of the token the target wrote instead of `rejected`."""
    useful_s: float = 0.0
    wasted_s: float = 0.0
    """Seconds of drafting whose fate this round decided: some of it was committed, or none is any
    more."""
    transfers: tuple[Interval, ...] = ()
    """When something was copied from one device to another and somebody waited for it; since the
    round before, in order."""
    guesses: tuple[Guess, ...] = ()
    """The accepted ones, `accepted` of them, and the first of `rejected`."""

    @property
    def draft(self) -> Interval | None:
        """From the first drafting to the last."""
        return hull(self.drafting)

    @property
    def drafting_s(self) -> float:
        """Seconds in which the draft lane computed."""
        return sum(each.seconds for each in self.drafting)


@dataclass(frozen=True, slots=True)
class AcceleratorSample:
    """What an accelerator is doing. None: not measurable here, or not at this moment.

    Attributes:
        device: its name in a plan, "cuda:0"; empty until a probe has told, and where torch has
            none for it.
        percent: of the time in which it computed something, for anybody.
        memory_used: bytes held on it by all programs.
        memory_ours: of these, by this process.
        temperature: degrees Celsius.
        power: watts.
        identity: that of `engine.plan.machine.Accelerator`.
        simulated: to be said wherever it shows.
        missing: why something is None.
        holders: other programs that hold memory there, as far as the driver tells, the largest
            first.
    """

    device: str
    name: str
    percent: float | None = None
    memory_used: int | None = None
    memory_ours: int | None = None
    memory_total: int | None = None
    temperature: float | None = None
    power: float | None = None
    identity: str = ""
    simulated: bool = False
    missing: tuple[Missing, ...] = ()
    holders: tuple[Holder, ...] = ()


@dataclass(frozen=True, slots=True)
class DeviceSample:
    """What the machine is doing, twice a second. None: not measurable here."""

    at: float
    cpu_percent: float | None
    """This process, in percent of all cores available to it."""
    system_cpu_percent: float | None
    memory_bytes: int | None
    memory_total_bytes: int | None
    accelerators: tuple[AcceleratorSample, ...] = ()
    """Every one that was seen since the start, in the system's order."""
    memory_available_bytes: int | None = None
    """What of the total another program could have, or this one more of."""

    @property
    def accelerator(self) -> AcceleratorSample | None:
        """The one to show where there is room for one: the first that can be computed on."""
        usable = (sample for sample in self.accelerators if sample.device)
        return next(usable, self.accelerators[0] if self.accelerators else None)


@dataclass(frozen=True, slots=True)
class AnswerStats:
    """The counts and timings of one answer; definitions in the README's glossary.

    `acceptance_length`: tokens committed in decode rounds (trimmed at end, stop and limit; the
    prefill's own token excluded) per target forward in rounds that verified at least one drafted
    token; None without such a round. `tokens_per_s`: committed tokens from first to last.
    """

    prompt_tokens: int
    reused_tokens: int
    committed: int
    rounds: int
    plain_rounds: int
    drafted: int
    accepted: int
    drafted_by_depth: tuple[int, ...]
    accepted_by_depth: tuple[int, ...]
    acceptance_length: float | None
    ttft_s: float | None
    tokens_per_s: float | None
    seconds: float
    draft_seconds: float = 0.0
    verify_seconds: float = 0.0
    fallback_reason: str | None = None
    decode_seconds: float = 0.0
    """From the first committed token to the last."""
    mode: str | None = None
    """The `Mode` of the plan it was written with; None of answers that older versions stored."""
    useful_seconds: float = 0.0
    wasted_seconds: float = 0.0
    """Of `draft_seconds`: some of what was drafted was committed, or none. The fate of the rest was
    open when the answer ended."""

    @property
    def draft_idle(self) -> float | None:
        """Share of the decoding time in which nothing was drafted."""
        return self._idle(self.draft_seconds)

    @property
    def draft_useful(self) -> float | None:
        """Share of the drafting time of which something was committed."""
        return self._of_drafting(self.useful_seconds)

    @property
    def draft_wasted(self) -> float | None:
        """Share of the drafting time of which nothing was committed."""
        return self._of_drafting(self.wasted_seconds)

    @property
    def verify_idle(self) -> float | None:
        """Share of the decoding time in which the target verified nothing."""
        return self._idle(self.verify_seconds)

    def _of_drafting(self, seconds: float) -> float | None:
        if not self.draft_seconds:
            return None
        # Some of what was decided may have been drafted before the first round.
        return seconds / max(self.draft_seconds, self.useful_seconds + self.wasted_seconds)

    def _idle(self, busy: float) -> float | None:
        if self.decode_seconds <= 0:
            return None
        return min(max(1 - busy / self.decode_seconds, 0.0), 1.0)


@dataclass(frozen=True, slots=True)
class Finished:
    """An answer ended. `text` and `token_ids` are what to store; both hold verified tokens only.

    Half a character at the end of an answer that can go on is in the ids and not in the text: it is
    told when its other half is there. What might have become a stop string is in neither.
    `token_ids` is None when a stop string cut the text in the middle of a token, so that the
    text alone says what was shown.
    """

    at: float
    request_id: str
    reason: FinishReason
    text: str
    token_ids: tuple[int, ...] | None
    stats: AnswerStats
    seed: int = 0
    signature: str = ""


@dataclass(frozen=True, slots=True)
class Counted:
    """How long a request is: the answer to `Count`."""

    at: float
    request_id: str
    prompt_tokens: int
    context: int


@dataclass(frozen=True, slots=True)
class CalibrationProgress:
    """The machine is being measured; `fraction` runs from 0 to 1."""

    at: float
    stage: str
    fraction: float


@dataclass(frozen=True, slots=True)
class Calibrated:
    """The end of a `Calibrate`; without speeds it was called off, or failed."""

    at: float
    speeds: Speeds | None


@dataclass(frozen=True, slots=True)
class HeldLine:
    """Bytes that are held for one purpose; see `engine.backend.ledger.Held`.

    `owner`: "target", "draft", ...; `purpose`: "weights", "kv", "features", "workspace", "runtime".
    """

    owner: str
    purpose: str
    nbytes: int
    touched: int


@dataclass(frozen=True, slots=True)
class DeviceHeld:
    """What the model in memory holds on one device, as its allocators say.

    `predicted`: what its plan said of the device; None where it was to be left alone.
    """

    device: str
    budget: int | None
    lines: tuple[HeldLine, ...]
    predicted: DeviceMemory | None = None

    @property
    def nbytes(self) -> int:
        """All of it."""
        return sum(line.nbytes for line in self.lines)


@dataclass(frozen=True, slots=True)
class MemoryHeld:
    """Told after every load, unload and answer; the CPU first. Without a model there are none.

    `typical_error`: how far plans for this model were off in their sum, as a share of what was
    held: the median of its loads here. None before the first answer of the first of them.
    """

    at: float
    devices: tuple[DeviceHeld, ...]
    typical_error: float | None = None


@dataclass(frozen=True, slots=True)
class ModeRun:
    """What a mode was measured to do in a `Compare`; medians over its answers.

    Attributes:
        plan: as it was loaded; None where it could not be, and `refusal` says why.
        answers: that were long enough to tell a speed.
        lowest, highest: tokens per second of its slowest and fastest answer.
        speeds: of each answer, in the order of asking, which is the same in all modes; None of
            those that were too short.
        same_as: it would run as this mode does, and was not measured for itself.
    """

    mode: Mode
    plan: PlanSummary | None
    answers: int = 0
    tokens_per_s: float | None = None
    lowest: float | None = None
    highest: float | None = None
    ttft_s: float | None = None
    acceptance_length: float | None = None
    refusal: str = ""
    speeds: tuple[float | None, ...] = ()
    same_as: Mode | None = None


@dataclass(frozen=True, slots=True)
class CompareProgress:
    """A comparison is under way; `fraction` runs from 0 to 1.

    `mode`: the one that has its turn; `loading`: its models are being loaded; `runs`: what is known
    so far, in the order in which modes are offered.
    """

    at: float
    mode: Mode
    fraction: float
    runs: tuple[ModeRun, ...] = ()
    loading: bool = False


@dataclass(frozen=True, slots=True)
class Compared:
    """The end of a `Compare`.

    The model runs again as it did before, which a PlanReady has said, unless another load is to
    come: the user's, or one without an accelerator that was lost.

    Attributes:
        model: an empty path where none was loaded.
        complete: it was not called off and did not fail.
        winner: the mode to use from now on, where it is complete; the automatic choice wherever
            nothing is clearly faster than that.
    """

    at: float
    model: Path
    runs: tuple[ModeRun, ...]
    complete: bool
    winner: Mode | None = None


class FailureKind(StrEnum):
    """What kind of trouble it was, where the window can offer a way out."""

    OTHER = "other"
    CONTEXT_FULL = "context full"
    OUT_OF_MEMORY = "out of memory"
    ABSENT = "absent"
    """Something optional is not here: a graphics card."""
    MODEL_UNUSABLE = "model unusable"


@dataclass(frozen=True, slots=True)
class WayOut:
    """Another load that was planned and fits.

    Attributes:
        words: what is different, for a button: "Context of 4,096 tokens".
        tokens_per_s: predicted.
    """

    words: str
    load: Load
    tokens_per_s: float | None = None


@dataclass(frozen=True, slots=True)
class Failed:
    """Something went wrong, in plain words. `request_id` is None outside an answer.

    When it belongs to an answer, a `Finished` with reason ERROR follows that carries what was
    written before. `bug` marks our own mistakes, as against what the user can mend.
    """

    at: float
    request_id: str | None
    cause: str
    remedy: str
    details: str = ""
    bug: bool = field(default=False)
    kind: FailureKind = FailureKind.OTHER
    needed: int | None = None
    available: int | None = None
    """For CONTEXT_FULL: tokens of the request, and of the context."""
    shortage: Shortage | None = None
    """For OUT_OF_MEMORY of a load."""
    ways_out: tuple[WayOut, ...] = ()
    """Loads that would fit, best first."""


@dataclass(frozen=True, slots=True)
class Previewed:
    """The answer to `Preview`.

    Attributes:
        machine: what is here now, the memory of the present model counted as free.
        plan: None where it cannot be loaded so, and `refusal` says why.
        curves: one per mode that this machine and these models can run in at all, the one that was
            asked for first. Such a mode that finds no room is there too, with its refusal.
        speeds: what the predictions rest on, as far as it is known.
    """

    at: float
    load: Load
    machine: Machine
    plan: PlanSummary | None
    curves: tuple[Curve, ...] = ()
    refusal: Failed | None = None
    speeds: Speeds | None = None


Event = (
    LoadProgress
    | MachineFound
    | Previewed
    | PlanReady
    | Unloaded
    | PrefillProgress
    | TextDelta
    | RoundFinished
    | Counted
    | CalibrationProgress
    | Calibrated
    | CompareProgress
    | Compared
    | MemoryHeld
    | DeviceSample
    | Finished
    | Failed
)

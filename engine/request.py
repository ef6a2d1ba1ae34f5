"""A request for an answer: messages, sampling parameters, chat request."""

from __future__ import annotations

from dataclasses import dataclass, field
from datetime import date
from enum import Enum, StrEnum, auto
from math import inf, isfinite

from engine.language import tr


class Role(StrEnum):
    """Speakers in a conversation."""

    SYSTEM = "system"
    USER = "user"
    ASSISTANT = "assistant"
    TOOL = "tool"


@dataclass(frozen=True, slots=True)
class ToolCall:
    """A tool call that an answer asked for; `arguments` is a JSON object."""

    id: str
    name: str
    arguments: str = "{}"


@dataclass(frozen=True, slots=True)
class Tool:
    """A tool that an answer may ask to be called; `parameters` is the JSON schema of its arguments.

    `strict`: a schema of which something is not supported is refused where the call is constrained;
    otherwise what is not supported does not count.
    """

    name: str
    description: str = ""
    parameters: str = '{"type": "object", "properties": {}}'
    strict: bool = False


@dataclass(frozen=True, slots=True)
class ToolChoice:
    """The tools of a request, and how free the answer is to call them.

    Attributes:
        tools: those that may be called; the model is told of no others.
        required: whether the answer has to be calls.
        parallel: whether it may call more than one.
    """

    tools: tuple[Tool, ...] = ()
    required: bool = False
    parallel: bool = True


NO_TOOLS = ToolChoice()


@dataclass(frozen=True, slots=True)
class Message:
    """One turn of a conversation.

    An answer may have asked for `calls` of tools; a tool's message has the result of the call whose
    id is `call_id`.

    `token_ids` are the ids the model itself wrote (without the end-of-turn token). They are
    reused verbatim when the conversation goes on, so that its cached state stays valid; None
    means that only the text is known.
    """

    role: Role
    text: str
    token_ids: tuple[int, ...] | None = None
    calls: tuple[ToolCall, ...] = ()
    call_id: str = ""


@dataclass(frozen=True, slots=True)
class SamplingParams:
    """Parameters of sampling from the target's logits. The defaults are greedy.

    Filters apply in the order penalties, top-k, top-p, min-p, temperature. 0 (top_k, min_p) and
    1 (top_p, repetition_penalty) switch a filter off. `repetition_penalty` looks at prompt and
    answer, `presence_penalty` and `frequency_penalty` at the answer only.
    """

    temperature: float = 0.0
    top_k: int = 0
    top_p: float = 1.0
    min_p: float = 0.0
    repetition_penalty: float = 1.0
    presence_penalty: float = 0.0
    frequency_penalty: float = 0.0
    seed: int = 0

    def __post_init__(self) -> None:
        checks = (
            (0 <= self.temperature < inf, tr("temperature must be 0 or more")),
            (self.top_k >= 0, tr("top_k must be 0 (off) or more")),
            (0 < self.top_p <= 1, tr("top_p must be above 0 and at most 1")),
            (0 <= self.min_p <= 1, tr("min_p must lie between 0 and 1")),
            (0 < self.repetition_penalty < inf, tr("repetition_penalty must be above 0")),
            (isfinite(self.presence_penalty), tr("presence_penalty must be a number")),
            (isfinite(self.frequency_penalty), tr("frequency_penalty must be a number")),
            (0 <= self.seed < 2**64, tr("seed must be a whole number from 0 to 2^64 - 1")),
        )
        for holds, sentence in checks:
            if not holds:
                raise ValueError(sentence)

    @property
    def greedy(self) -> bool:
        """True if the most likely token is always taken."""
        return self.temperature == 0

    @property
    def penalised(self) -> bool:
        """True if earlier tokens change the logits of later ones."""
        return (
            self.repetition_penalty != 1
            or self.presence_penalty != 0
            or self.frequency_penalty != 0
        )


Bias = tuple[tuple[int, float], ...]
"""What is added to the logits of some tokens: their ids, each once, with a finite number."""


class GrammarKind(StrEnum):
    """Languages that grammars are written in."""

    JSON_SCHEMA = "json_schema"
    REGEX = "regex"
    LARK = "lark"
    """Lark's own form with what llguidance adds: `%json`, special tokens."""
    GBNF = "gbnf"
    """llama.cpp's."""


@dataclass(frozen=True, slots=True)
class Grammar:
    """A grammar that an answer has to follow, after its thoughts if it has any."""

    kind: GrammarKind
    text: str


@dataclass(frozen=True, slots=True)
class RawPrompt:
    """A prompt that goes to the model as it stands, without a chat template.

    Attributes:
        text: the prompt.
        ids: its token ids, in place of a text.
        control_tokens: whether those that are written in the text become their ids; otherwise they
            are text like any other.
        suffix: text that follows what is to be written, for models that fill in the middle.
        begins: whether a begin-of-text id comes first, where the model wants one.
    """

    text: str = ""
    ids: tuple[int, ...] | None = None
    control_tokens: bool = False
    suffix: str | None = None
    begins: bool = True


class PromptDetail(Enum):
    """Details of a prompt that can be told (`engine.events.PromptRead`)."""

    NONE = auto()
    LOGPROBS = auto()
    """Its tokens with their probabilities."""
    EMBEDDING = auto()
    """The mean of the last hidden states of all its tokens, after the final norm."""


@dataclass(frozen=True, slots=True)
class ChatRequest:
    """One answer to write.

    When the last message is the assistant's, the answer continues it ("continue" after a stop or
    a crash): same seed, same positions, hence the text that an uninterrupted run would have given.
    Text and token ids of the events are then those of the new part; spans go on counting from
    the start of the whole answer. `max_tokens` limits the new part; 0: the prompt is read only.
    """

    id: str
    messages: tuple[Message, ...]
    sampling: SamplingParams = field(default_factory=SamplingParams)
    max_tokens: int | None = None
    stop: tuple[str, ...] = ()
    clicked_at: float | None = None
    """Moment when the user pressed send, on the events' clock; TTFT runs from here."""
    thinking: bool | None = None
    """Think before the answer, or not, where the template leaves the choice; None: its default.

    To continue an answer, ask as it was asked for.
    """
    thought_tokens: int | None = None
    """Tokens of the answer that may be thought, 1 or more; then the thought is ended for the model.

    None: it thinks as long as it likes.
    """
    effort: str | None = None
    """How much to think ("low", "high"), for templates that ask; None: their default."""
    began: date | None = None
    """The day on which the conversation began, for templates that ask for the date; None: today.

    A conversation keeps its day, so that "continue" tomorrow gives the text of today.
    """
    drafting: bool = True
    """Allow drafting; without it the same text comes from the target alone."""
    stop_repetition: bool = False
    """Stop an answer that keeps repeating the same passage, see `RepetitionDetector`."""
    raw: RawPrompt | None = None
    """Continue this in place of a conversation; `messages` then holds at most the begun answer."""
    grammar: Grammar | None = None
    """What the answer has to be; None: whatever the model writes."""
    tools: ToolChoice = NO_TOOLS
    """What the answer may call; `engine.model.text.tool_calls` reads the calls back."""
    bias: Bias = ()
    """What is added to logits before all sampling."""
    detail: PromptDetail = PromptDetail.NONE
    """What to tell of the prompt; it is then read afresh, whatever the prefix cache has."""
    alternatives: int = 0
    """How many likely tokens to tell at each place (`TokenSpan.others`); this costs time."""
    asker: str = ""
    """Who asks; nobody finds the cached states of another. The window's user has no name."""

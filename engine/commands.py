"""Commands to the engine thread. Frozen and picklable, like the events that answer."""

from __future__ import annotations

from dataclasses import dataclass, replace
from enum import StrEnum
from pathlib import Path, PurePosixPath, PureWindowsPath

from engine.request import ChatRequest


class Mode(StrEnum):
    """Modes of decoding: the devices of target and draft. `AUTO` lets the planner choose."""

    AUTO = "auto"
    PLAIN = "plain"
    CPU = "cpu"
    DOVETAIL = "dovetail"
    DUO = "duo"


class DraftChoice(StrEnum):
    """Draft sources that are not a model by themselves. `MTP`: the head in the target's files."""

    AUTO = "auto"
    MTP = "mtp"
    LOOKUP = "lookup"
    NONE = "none"


class WeightFormat(StrEnum):
    """Formats that weights are held in.

    `AUTO`: as stored in GGUF files; otherwise 8 bit, or 4 bit for a model of more than a billion
    weights. `STORED`: every matrix in the type that its file has. The quantised formats have a
    scale per 32 weights; F32 is the slow portable path.
    """

    AUTO = "auto"
    STORED = "stored"
    Q4 = "q4_0"
    Q8 = "q8_0"
    BF16 = "bf16"
    F32 = "f32"


class KvType(StrEnum):
    """Types of numbers in the KV cache on the CPU; accelerators hold 16-bit floats in any case.

    `Q8`: integers of 8 bits, keys with a scale per 32 numbers, values with one per head and token.
    """

    F16 = "f16"
    Q8 = "q8"


ALL_LAYERS = -1
"""Value of `Load.layers_on_gpu` for all layers of the target."""


@dataclass(frozen=True, slots=True)
class Load:
    """Load a target, and what drafts for it; an answer in progress is stopped first.

    `model` is a folder or a GGUF file. The model in memory stays in use when the new one turns out
    to be unusable.
    `context` is the planned number of tokens (None: the model's own limit, capped by memory);
    `weights` is the target's format, a draft's is chosen by its size.
    `kv` is the type of both models' keys and values.
    `vram`: bytes of an accelerator that may be used at most (None: as many as are useful);
    `threads`: of the CPU (None: by the size of its share);
    `layers_on_gpu`: exactly so many target blocks on it (None: the planner chooses);
    `simulate_gpu`: plan with a simulated accelerator of so many bytes instead of real ones;
    `device`: use this device by its name, "webgpu:0", and no other accelerator.
    `after_answer`: an answer in progress is written to its end first. So the split of a model is
    changed between answers: the same model again with another budget.
    `unless_so`: nothing is done, only told, where the present model was loaded just like this: a
    change that waited is taken back.
    """

    model: Path
    draft: Path | DraftChoice = DraftChoice.AUTO
    mode: Mode = Mode.AUTO
    context: int | None = None
    weights: WeightFormat = WeightFormat.AUTO
    kv: KvType = KvType.F16
    vram: int | None = None
    layers_on_gpu: int | None = None
    threads: int | None = None
    simulate_gpu: int | None = None
    device: str | None = None
    after_answer: bool = False
    unless_so: bool = False

    def same_as(self, other: Load) -> bool:
        """Return whether both ask for the same, at whatever moment."""
        at_any_time = replace(other, after_answer=self.after_answer, unless_so=self.unless_so)
        return self == at_any_time

    @property
    def options(self) -> list[str]:
        """Command-line options that describe it, without --model and what has its default value."""
        draft, mode, weights, kv = self.draft, self.mode, self.weights, self.kv
        vram, gpu = self.vram, self.simulate_gpu
        said: list[tuple[str, object]] = [
            ("--draft", None if draft is DraftChoice.AUTO else draft),
            ("--mode", None if mode is Mode.AUTO else mode),
            ("--format", None if weights is WeightFormat.AUTO else weights),
            ("--kv", None if kv is KvType.F16 else kv),
            ("--context", self.context),
            ("--vram", None if vram is None else f"{vram / 2**30:g}"),
            ("--layers-on-gpu", "all" if self.layers_on_gpu == ALL_LAYERS else self.layers_on_gpu),
            ("--simulate-gpu", None if gpu is None else f"{gpu / 2**30:g}"),
            ("--device", self.device),
        ]
        return [word for name, value in said if value is not None for word in (name, str(value))]

    @property
    def forces_drafting(self) -> bool:
        """Tell whether drafting was asked for by name, so that it goes on where it does not pay."""
        return self.mode not in (Mode.AUTO, Mode.PLAIN) or self.draft is not DraftChoice.AUTO

    @property
    def allows_lookup(self) -> bool:
        """Tell whether the conversation itself may propose tokens: beside any draft."""
        return self.draft is not DraftChoice.NONE


class ServerKind(StrEnum):
    """Programs that serve models to others, as far as their differences matter."""

    DUOTAIL = "duotail"
    VLLM = "vllm"
    RAY = "ray serve"
    SGLANG = "sglang"
    LLAMA_SERVER = "llama-server"
    LM_STUDIO = "lm studio"
    OLLAMA = "ollama"
    OTHER = "other"


@dataclass(frozen=True, slots=True)
class Connect:
    """Have a model on a server answer from now on; the one in memory is unloaded.

    Nothing is sent before an answer is asked for.

    Attributes:
        url: address of the server's interface, as in `engine.remote.address.Address`.
        model: name of the model there.
        kind: program that serves it.
        context: tokens that its context holds; None: not known.
    """

    url: str
    model: str
    kind: ServerKind = ServerKind.OTHER
    context: int | None = None

    @property
    def label(self) -> str:
        """The model's name as it is shown: some servers name the whole path of a file."""
        paths = PurePosixPath(self.model), PureWindowsPath(self.model)
        return next((path.name for path in paths if path.root), self.model) or self.model


@dataclass(frozen=True, slots=True)
class Generate:
    """Write an answer. Waits its turn while another one is written or a model loads.

    `gives_way`: one that does not give way goes first; where this one is being written, it ends as
    `FinishReason.YIELDED` and can be asked for again, as one that continues what there is.
    """

    request: ChatRequest
    gives_way: bool = False


@dataclass(frozen=True, slots=True)
class QuestionId:
    """Identifies a question and its answer; an asker's newer question replaces its older one."""

    asker: int = 0
    number: int = 0


@dataclass(frozen=True, slots=True)
class Count:
    """Tell how many tokens a request would have a model read, or why it cannot; waits for one.

    `spelled`: tell the tokens, too.
    """

    request: ChatRequest
    id: QuestionId = QuestionId()
    spelled: bool = False


@dataclass(frozen=True, slots=True)
class Preview:
    """Tell what a load would come to, for every ceiling of GPU memory; nothing is loaded."""

    load: Load
    id: QuestionId = QuestionId()


@dataclass(frozen=True, slots=True)
class FindDrafts:
    """Tell which models and heads on this disk can draft for a model, whatever it runs with."""

    model: Path
    id: QuestionId = QuestionId()


@dataclass(frozen=True, slots=True)
class Stop:
    """Stop the answer `request_id`, wherever it is.

    None stops whatever is running, a load too, but no answer that gives way: it is somebody else's.
    """

    request_id: str | None = None

    def means(self, work: object) -> bool:
        """Tell whether it stops this work of the engine's."""
        if isinstance(work, Generate) and (self.request_id is not None or work.gives_way):
            return work.request.id == self.request_id
        return self.request_id is None


@dataclass(frozen=True, slots=True)
class Unload:
    """Give the model's memory back."""


@dataclass(frozen=True, slots=True)
class Calibrate:
    """Measure how fast this machine is, for the plans of later loads; takes some seconds.

    Waits until nothing else is to be done. Whatever comes meanwhile calls it off.
    """


@dataclass(frozen=True, slots=True)
class Compare:
    """Measure the present model in each of some modes, on fixed prompts; takes a minute or so.

    Waits until nothing else is to be done. Whatever comes meanwhile calls it off; the model then
    runs again as it did.

    `modes`: those to try; empty: all there are. `passes`: how often each one has its turn; they
    take turns, so that what disturbs one disturbs all. `tokens`: of an answer at most; the model
    may end it sooner, at the same place in every mode.
    """

    modes: tuple[Mode, ...] = ()
    passes: int = 2
    tokens: int = 64


Question = Count | Preview | FindDrafts
"""Commands that are answered beside everything else."""

Command = Load | Connect | Generate | Question | Stop | Unload | Calibrate | Compare

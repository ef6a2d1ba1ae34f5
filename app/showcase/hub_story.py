"""Models as a hub would list them, for pictures and tests."""

from __future__ import annotations

from pathlib import Path

from engine.hub.advice import Badge, DraftCandidate, Fit, Recommendation, RecommendedRole, Verdict
from engine.hub.download.jobs import JobReport, JobState
from engine.hub.messages import FoundRepository, Job, Packaging, RemoteFile, Repository, Variant
from engine.hub.remote.faults import Fault
from engine.hub.shelf.kept_model import KeptModel, ModelOrigin

REVISION = "0" * 40
_GGUF, _SAFETENSORS = Packaging.GGUF, Packaging.SAFETENSORS
_SIZES = {
    "Q2_K": 0.40,
    "Q4_K_M": 0.61,
    "Q5_K_M": 0.71,
    "Q6_K": 0.82,
    "Q8_0": 1.06,
}
"""Bytes for each parameter."""

QWEN3_8B = FoundRepository(
    "Qwen/Qwen3-8B-GGUF",
    (_GGUF,),
    downloads=1_284_000,
    parameters=8_190_000_000,
    updated=1_746_000_000,
    licence="apache-2.0",
    architecture="qwen3",
    base="Qwen/Qwen3-8B",
)
QWEN3_SMALL = FoundRepository(
    "Qwen/Qwen3-0.6B-GGUF",
    (_GGUF,),
    downloads=431_000,
    parameters=596_000_000,
    licence="apache-2.0",
    architecture="qwen3",
)
LLAMA = FoundRepository(
    "meta-llama/Llama-3.1-8B-Instruct",
    (_SAFETENSORS,),
    downloads=5_640_000,
    parameters=8_030_000_000,
    updated=1_727_000_000,
    licence="llama3.1",
    gated=True,
    architecture="llama",
)
OLD = FoundRepository("somebody/old-model", (), downloads=412, licence=None)
RESULTS = (
    QWEN3_8B,
    FoundRepository("Qwen/Qwen3-14B-GGUF", (_GGUF,), 310_000, 14_800_000_000, licence="apache-2.0"),
    FoundRepository(
        "unsloth/Qwen3-30B-A3B-GGUF", (_GGUF,), 224_000, 30_500_000_000, licence="apache-2.0"
    ),
    LLAMA,
    QWEN3_SMALL,
    FoundRepository(
        "HuggingFaceTB/SmolLM3-3B",
        (_SAFETENSORS,),
        98_300,
        3_080_000_000,
        licence="apache-2.0",
    ),
    FoundRepository(
        "bartowski/Mistral-Small-3.2-24B-Instruct-2506-GGUF-with-a-very-long-name-indeed",
        (_GGUF,),
        88_000,
        23_600_000_000,
        licence="apache-2.0",
    ),
    OLD,
)


def many(count: int) -> tuple[FoundRepository, ...]:
    """Return so many results."""
    return tuple(
        FoundRepository(
            f"owner-{number % 37}/Model-{number}-GGUF",
            (_GGUF,),
            1_000_000 - number * 977,
            1_000_000_000 + number * 7_000_000,
            licence="apache-2.0",
            gated=number % 11 == 0,
        )
        for number in range(count)
    )


def variants(parameters: int, stem: str) -> tuple[Variant, ...]:
    """The usual quantisations."""
    return tuple(
        _variant(kind, round(parameters * share), f"{stem}-{kind}.gguf")
        for kind, share in _SIZES.items()
    )


def _variant(kind: str, nbytes: int, name: str, packaging: Packaging = _GGUF) -> Variant:
    return Variant(kind, packaging, (RemoteFile(name, nbytes, sha256="0" * 64),), nbytes)


REPOSITORY = Repository(
    QWEN3_8B,
    REVISION,
    variants(8_190_000_000, "Qwen3-8B"),
    licence_link="https://huggingface.co/Qwen/Qwen3-8B/blob/main/LICENSE",
    context=40_960,
    has_template=True,
)
SMALL_REPOSITORY = Repository(
    QWEN3_SMALL, REVISION, variants(596_000_000, "Qwen3-0.6B"), context=40_960, has_template=True
)
GATED_REPOSITORY = Repository(
    LLAMA,
    REVISION,
    (_variant("BF16", 16_060_000_000, "model-00001-of-00004.safetensors", _SAFETENSORS),),
    unusable=("original/consolidated.00.pth is in an old format that can run hidden code.",),
    licence_link="https://huggingface.co/meta-llama/Llama-3.1-8B-Instruct/blob/main/LICENSE",
    context=131_072,
    has_template=True,
)
REPOSITORIES = {each.found.repo: each for each in (REPOSITORY, SMALL_REPOSITORY, GATED_REPOSITORY)}


def fits(_repository: Repository, variant: Variant) -> Fit:
    """Return the fit on a laptop with 8 GiB of GPU memory and 16 GiB of memory."""
    size = variant.weight_bytes / 1e9
    if size < 5.5:
        return Fit(Badge.GPU, 38.0, 55.0, "5.9 of 8.0 GiB of GPU memory, all 36 layers.")
    if size < 7.5:
        return Fit(Badge.SPLIT, 14.0, 19.0, "30 of 36 layers fit beside the draft; the CPU has 6.")
    if size < 10:
        return Fit(Badge.TIGHT, 6.1, 8.4, "9.8 of 10.4 GiB that are free now.")
    return Fit(Badge.NO, reason="It needs 17.2 GiB, and this computer has 15.4.")


CANDIDATES = (
    DraftCandidate(
        "Qwen3 0.6B",
        Verdict.LIKELY,
        "A smaller model with the same vocabulary and 7 % of the parameters.",
        repo=QWEN3_SMALL.repo,
        nbytes=632_000_000,
        speedup=1.8,
    ),
    DraftCandidate(
        "SmolLM2 360M Instruct",
        Verdict.NO,
        "It speaks other tokens: 49152 of its own where the model has 151936.",
        path=Path("/models/smollm2-360m-q8_0.gguf"),
        nbytes=386_000_000,
    ),
    DraftCandidate(
        "Llama 3.2 1B",
        Verdict.NO,
        "It speaks other tokens: 128256 of its own where the model has 151936.",
        path=Path("/models/llama-3.2-1b-q4_k_m.gguf"),
        nbytes=807_000_000,
    ),
)
SUGGESTIONS = (
    Recommendation(
        RecommendedRole.BALANCED,
        "Qwen3 8B",
        QWEN3_8B.repo,
        "Q4_K_M",
        5_660_000_000,
        "apache-2.0",
        Fit(Badge.GPU, 38.0, 55.0, "All 36 layers fit: 5.9 of 8.0 GiB of GPU memory."),
        "All 36 layers fit: 5.9 of 8.0 GiB of GPU memory.",
        "Qwen3 0.6B",
        QWEN3_SMALL.repo,
        "Q8_0",
    ),
    Recommendation(
        RecommendedRole.FAST,
        "Qwen3 4B 2507",
        "unsloth/Qwen3-4B-Instruct-2507-GGUF",
        "Q4_K_M",
        3_130_000_000,
        "apache-2.0",
        Fit(Badge.GPU, 70.0, 92.0, "All 36 layers fit: 3.4 of 8.0 GiB of GPU memory."),
        "All 36 layers fit: 3.4 of 8.0 GiB of GPU memory.",
        "Qwen3 0.6B",
        QWEN3_SMALL.repo,
        "Q8_0",
    ),
    Recommendation(
        RecommendedRole.BEST,
        "Qwen3 30B A3B",
        "unsloth/Qwen3-30B-A3B-GGUF",
        "Q4_K_M",
        18_600_000_000,
        "apache-2.0",
        Fit(Badge.SPLIT, 17.0, 24.0, "12 of 48 layers fit into GPU memory."),
        "12 of 48 layers fit into GPU memory.",
    ),
    Recommendation(
        RecommendedRole.CODE,
        "Qwen2.5 Coder 14B",
        "Qwen/Qwen2.5-Coder-14B-Instruct-GGUF",
        "Q4_K_M",
        8_990_000_000,
        "apache-2.0",
        Fit(Badge.TIGHT, 5.2, 7.9, "9.8 of 10.4 GiB that are free now."),
        "9.8 of 10.4 GiB that are free now.",
    ),
)
KEPT = (
    KeptModel(
        Path("model"),
        "SmolLM2-135M-Instruct-Q4_1",
        ModelOrigin.BUNDLED,
        98_362_432,
        "Q4_1",
        "llama",
        134_500_000,
        8192,
        "apache-2.0",
    ),
    KeptModel(
        Path(
            "/home/ada/.cache/huggingface/hub/models--Qwen--Qwen3-8B-GGUF/snapshots/"
            "7c41481f57cb95916b40956ab2f0b139b296d974/Qwen3-8B-Q4_K_M.gguf"
        ),
        "Qwen3-8B-Q4_K_M",
        ModelOrigin.DOWNLOADED,
        5_030_000_000,
        "Q4_K_M",
        "qwen3",
        8_190_000_000,
        40_960,
        "apache-2.0",
        repo=QWEN3_8B.repo,
        revision=REVISION,
        gguf=True,
    ),
    KeptModel(
        Path(
            "/home/ada/.cache/huggingface/hub/models--Qwen--Qwen3-0.6B-GGUF/snapshots/"
            "23749fefcc72300e3a2ad315e1317431b06b590a/Qwen3-0.6B-Q8_0.gguf"
        ),
        "Qwen3-0.6B-Q8_0",
        ModelOrigin.DOWNLOADED,
        632_000_000,
        "Q8_0",
        "qwen3",
        596_000_000,
        40_960,
        "apache-2.0",
        repo=QWEN3_SMALL.repo,
        revision=REVISION,
        gguf=True,
    ),
    KeptModel(
        Path("/home/ada/models/half.gguf"),
        "half.gguf",
        ModelOrigin.IN_PLACE,
        734_000_000,
        problem="half.gguf is incomplete: 734003200 of 1117320736 bytes.",
        gguf=True,
    ),
    KeptModel(
        Path("/home/ada/models/qwen3-8b-dgf"),
        "qwen3-8b-dgf",
        ModelOrigin.IN_PLACE,
        412_000_000,
        "Q8_0",
        "DGF",
        head=True,
    ),
)
ELSEWHERE = (
    KeptModel(
        Path("/home/ada/.lmstudio/models/bartowski/Llama-3.2-3B/Llama-3.2-3B-Q4_K_M.gguf"),
        "Llama-3.2-3B-Q4_K_M",
        ModelOrigin.LM_STUDIO,
        2_020_000_000,
        "Q4_K_M",
        "llama",
        3_210_000_000,
        131_072,
        "llama3.2",
        gguf=True,
    ),
    KeptModel(
        Path(
            "/home/ada/.ollama/models/blobs/sha256-2bada8a7450677000f678be90653b85d364de7db25eb5e"
        ),
        "gemma3:4b",
        ModelOrigin.OLLAMA,
        3_340_000_000,
        "Q4_K_M",
        "gemma3_text",
        3_880_000_000,
        131_072,
        "gemma",
        gguf=True,
        notes=(
            (
                "The file leaves out numbers, so the usual ones are used: "
                "gemma3.attention.layer_norm_rms_epsilon = 1e-06, gemma3.rope.freq_base = 1e+06, "
                "gemma3.rope.scaling.factor = 8."
            ),
            (
                "439 tensors of a part that sees or hears are left aside: Duotail reads and writes "
                "text."
            ),
        ),
    ),
)
KEPT_CANDIDATES = (
    DraftCandidate(
        "Qwen3 0.6B",
        Verdict.FITS,
        "It speaks the same tokens. It has 7 % of the parameters.",
        path=KEPT[2].path,
        nbytes=632_000_000,
        speedup=1.8,
    ),
    *CANDIDATES[1:],
)


def job(repo: str, variant: Variant, key: str, draft_of: str | None = None) -> Job:
    """Return a download."""
    return Job(key, repo, REVISION, variant.name, variant.packaging, variant.files, draft_of)


_TARGET = job(QWEN3_8B.repo, REPOSITORY.variants[1], "target")
_DRAFT = job(QWEN3_SMALL.repo, SMALL_REPOSITORY.variants[4], "draft", "target")
_OTHER = job("bartowski/Mistral-Small-3.2-24B", _variant("Q4_K_M", 14_300_000_000, "m.gguf"), "m")
_PHI = job("microsoft/phi-4-gguf", _variant("Q4_K_M", 9_050_000_000, "phi.gguf"), "phi")
UNDER_WAY = (
    JobReport(_TARGET, JobState.FETCHING, 2_130_000_000, 31_400_000.0, 92.0),
    JobReport(_DRAFT, JobState.WAITING),
    JobReport(_OTHER, JobState.PAUSED, 4_410_000_000),
    JobReport(_PHI, JobState.DONE, _PHI.nbytes, model="/models/phi.gguf"),
)
FAILED = (
    JobReport(
        _TARGET,
        JobState.FAILED,
        2_130_000_000,
        cause="There is not enough room on the disk: 2.9 GB are missing.",
        remedy="Delete a model that you do not need, then try again.",
        fault=Fault.DISK_FULL,
    ),
    JobReport(
        job(LLAMA.repo, GATED_REPOSITORY.variants[0], "llama"),
        JobState.FAILED,
        cause="The owner of this model gives it only to accounts that have accepted its terms.",
        remedy="Accept them on its page, then put in a token of that account.",
        fault=Fault.GATED,
    ),
)

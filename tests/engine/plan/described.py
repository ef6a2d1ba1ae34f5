"""Machines that people have, described; and models that they run."""

from __future__ import annotations

from functools import cache

from engine.bench.random_model import RandomModel, random_draft
from engine.bench.recipes import tensor_kinds
from engine.bench.shapes import SHAPES
from engine.commands import WeightFormat
from engine.machine.facts import Accelerator, Host, Machine, Vendor
from engine.model.config import ModelConfig
from engine.model.families import parse_config
from engine.plan.facts import DraftFacts, ModelFacts, usual_draft
from engine.plan.footprint import footprint, stored_footprint

GIB, MIB = 2**30, 2**20

AVX2, VNNI = ("avx2", "fma"), ("avx2", "fma", "avx512f", "avx512_vnni")
AMX, ARM = (*VNNI, "amx_int8"), ("asimd", "asimddp", "i8mm")


def host(
    cores: int, memory: float, free: float, sets: tuple[str, ...] = AVX2, fast: int | None = None
) -> Host:
    """A processor with `memory` GiB, of which `free` are available."""
    return Host(cores, int(memory * GIB), int(free * GIB), threads=2 * cores, fast_cores=fast,
                instruction_sets=sets)  # fmt: skip


def card(
    name: str,
    memory: float,
    free: float,
    vendor: Vendor = Vendor.NVIDIA,
    device: str = "cuda:0",
    **more: str | bool,
) -> Accelerator:
    """A graphics card with so many GiB."""
    return Accelerator(device, name, vendor, int(memory * GIB), int(free * GIB), **more)  # type: ignore[arg-type]


def apple(name: str, memory: float, free: float) -> Machine:
    """Apple silicon: the GPU works in the computer's memory and may have three quarters of it."""
    gpu = card(name, memory * 0.75, free * 0.75, Vendor.APPLE, "mps", unified=True)
    return Machine(host(8, memory, free, ARM, fast=4), (gpu,))


def without_torch(name: str, vendor: Vendor, reason: str) -> Accelerator:
    """A card that the system sees and this torch cannot use."""
    return Accelerator("", name, vendor, 8 * GIB, None, unusable=reason)


_NO_TORCH = "the installed torch is built for the CPU only"
_OLD = "this torch has no kernels for so old a card"

MACHINES = {
    "laptop": Machine(host(4, 16, 11)),
    "laptop 8 GB": Machine(host(4, 8, 4.5)),
    "old laptop 4 GB": Machine(host(2, 4, 2, ())),
    "desktop 64 GB": Machine(host(8, 64, 56, VNNI)),
    "hybrid laptop": Machine(host(14, 32, 24, AVX2, fast=6)),
    "gtx 1050": Machine(host(4, 16, 11), (card("GTX 1050", 4, 3.6),)),
    "gtx 1060": Machine(host(4, 16, 12), (card("GTX 1060", 6, 5.5),)),
    "gtx 1650": Machine(host(6, 16, 12), (card("GTX 1650", 4, 3.7),)),
    "rtx 2060": Machine(host(6, 16, 12), (card("RTX 2060", 6, 5.6),)),
    "rtx 2080": Machine(host(8, 32, 26), (card("RTX 2080", 8, 7.4),)),
    "rtx 3060": Machine(host(6, 32, 27), (card("RTX 3060", 12, 11.3),)),
    "rtx 3050 laptop": Machine(host(6, 16, 10, fast=4), (card("RTX 3050", 4, 3.8),)),
    "rtx 3090": Machine(host(12, 64, 56), (card("RTX 3090", 24, 23),)),
    "rtx 4090": Machine(host(16, 64, 58, VNNI), (card("RTX 4090", 24, 23),)),
    "rtx 4060": Machine(host(8, 16, 11), (card("RTX 4060", 8, 7.3),)),
    "rtx 5090": Machine(host(16, 96, 88, VNNI), (card("RTX 5090", 32, 31),)),
    "7900 xtx": Machine(host(8, 32, 26), (card("RX 7900 XTX", 24, 23.4, Vendor.AMD),)),
    "rx 6700 xt": Machine(host(8, 32, 26), (card("RX 6700 XT", 12, 11.6, Vendor.AMD),)),
    "rx 580 without rocm": Machine(
        host(6, 16, 12), (without_torch("RX 580", Vendor.AMD, _NO_TORCH),)
    ),
    "arc a770": Machine(host(8, 32, 26), (card("Arc A770", 16, 15.2, Vendor.INTEL, "xpu:0"),)),
    "old card": Machine(host(4, 16, 12), (without_torch("GTX 680", Vendor.NVIDIA, _OLD),)),
    "m1 8 GB": apple("Apple M1", 8, 4.5),
    "m2 16 GB": apple("Apple M2", 16, 11),
    "m3 max 64 GB": apple("Apple M3 Max", 64, 54),
    "two cards": Machine(
        host(12, 64, 56),
        (card("RTX 3060", 12, 11.5), card("RTX 3090", 24, 23.5, device="cuda:1")),
    ),
    "two alike": Machine(
        host(12, 64, 56), (card("RTX 2080", 8, 7.5), card("RTX 2080", 8, 7.6, device="cuda:1"))
    ),
    "game": Machine(host(8, 32, 20), (card("RTX 4070", 12, 1.2),)),
    "half a game": Machine(host(8, 32, 20), (card("RTX 4070", 12, 5),)),
    "h200": Machine(host(48, 512, 480, AMX), (card("H200", 140, 138),)),
    "h200, few cores": Machine(host(16, 128, 120, AMX), (card("H200", 140, 139),)),
    "a100": Machine(host(32, 256, 240, VNNI), (card("A100", 80, 78),)),
    "container": Machine(host(2, 6, 5.2, VNNI)),
    "container with a card": Machine(host(2, 8, 6, VNNI), (card("T4", 15, 14.6),)),
    "simulated": Machine(
        host(4, 24, 20, VNNI),
        (Accelerator("simulated:0", "Simulated GPU", memory_total=4 * GIB,
                     memory_free=4 * GIB, simulated=True),),
    ),
}  # fmt: skip


def _described(name: str, **others: object) -> ModelConfig:
    return parse_config(SHAPES[name] | others)


@cache
def model(name: str, wanted: str) -> ModelFacts:
    """A model by its size, in one of llama.cpp's formats or one of ours."""
    config = _CONFIGS[name]()
    if wanted in (WeightFormat.Q4, WeightFormat.Q8, WeightFormat.BF16):
        held = footprint(config, WeightFormat(wanted))
    else:
        held = stored_footprint(config, tensor_kinds(config, wanted), wanted.upper())
    return ModelFacts(name, held, config.max_positions)


_CONFIGS = {
    "0.5B": lambda: _described("qwen2.5-0.5b"),
    "1.5B": lambda: _described("qwen2.5-1.5b"),
    "3B": lambda: _described("qwen2.5-3b"),
    "7B": lambda: _described("qwen2.5-7b"),
    "8B": lambda: _described("llama3.1-8b"),
    "old 7B": lambda: _described("llama2-7b"),
    "13B": lambda: _described("llama2-13b"),
    "14B": lambda: _described(
        "qwen2.5-7b", num_hidden_layers=48, hidden_size=5120, intermediate_size=13824,
        num_attention_heads=40, num_key_value_heads=8,
    ),
    "32B": lambda: _described(
        "qwen2.5-7b", num_hidden_layers=64, hidden_size=5120, intermediate_size=27648,
        num_attention_heads=40, num_key_value_heads=8,
    ),
    "70B": lambda: _described(
        "llama3.1-8b", num_hidden_layers=80, hidden_size=8192, intermediate_size=28672,
        num_attention_heads=64, num_key_value_heads=8,
    ),
    "30B-A3B": lambda: _described("qwen3-30b-a3b"),
    "1B": lambda: _described("llama3.2-1b"),
}  # fmt: skip

TARGETS = [
    ("0.5B", "q8_0"), ("1.5B", "q4_0"), ("3B", "q4_k_m"), ("7B", "q4_k_m"), ("7B", "q8_0"),
    ("8B", "q4_k_m"), ("old 7B", "q4_0"), ("13B", "q4_k_m"), ("14B", "q4_k_m"), ("32B", "q4_k_m"),
    ("70B", "q4_k_m"), ("30B-A3B", "q4_k_m"), ("3B", "bf16"),
]  # fmt: skip


@cache
def head(name: str, target: str, wanted: str = "q4_0", own: str = "q4_0") -> DraftFacts:
    """A feature head for a model of that size."""
    lender = RandomModel("target", _CONFIGS[target](), wanted)
    return usual_draft(random_draft(lender, name, own).facts)


DRAFTS = {
    "none": [],
    "0.5B": [DraftFacts(model("0.5B", "q8_0"), 0.7)],
    "1B": [DraftFacts(model("1B", "q4_0"), 0.75)],
    "both": [DraftFacts(model("0.5B", "q8_0"), 0.7), DraftFacts(model("1B", "q4_0"), 0.75)],
    "head": [head("dgf-5", "8B")],
    "head or 1B": [head("eagle3", "8B"), DraftFacts(model("1B", "q4_0"), 0.75)],
}

"""What the interpreter runs is also what compilers take: for NVIDIA's chips and AMD's, unseen.

And the machine code is what makes a product as fast as memory: weights are copied 16 bytes at a
time ahead of the arithmetic, go to the matrix units in few instructions, no register is spilled,
and two programs share a multiprocessor. Where they lie is counted in 64 bits.
"""

from __future__ import annotations

import re
import subprocess
from pathlib import Path
from typing import Any

import pytest
import torch
from interpreted import random_matrix

from engine.backend.accelerator.kernels.shapes import CUTS

triton = pytest.importorskip("triton", reason="Triton is not installed")
compiler = pytest.importorskip("triton.backends.nvidia.compiler", reason="no compiler for NVIDIA")
TOOLS = Path(compiler.__file__).parent / "bin"

NVIDIA = (80, 86, 89, 90, 120)
AMD = ("gfx1100", "gfx942")
INSTRUCTIONS = {
    "Q4_0": 4.0, "Q8_0": 5.5, "Q4_K": 6.5, "Q5_K": 9.0, "Q6_K": 6.5, "F16": 4.0, "BF16": 5.0,
}  # fmt: skip
"""Most of a thread for each weight and 16 rows, loads and products included."""

_TYPES = {
    torch.int32: "*i32", torch.int64: "*i64", torch.float16: "*fp16",
    torch.bfloat16: "*bf16", torch.float32: "*fp32",
}  # fmt: skip


class Asked:
    """In the place of a kernel: notes how it is started."""

    def __init__(self, kernel: Any) -> None:
        self.kernel, self.args, self.options = kernel, (), {}

    def __getitem__(self, grid: tuple[int, ...]) -> Any:
        assert all(size > 0 for size in grid)

        def start(*args: Any, **options: Any) -> None:
            self.args, self.options = args, options

        return start

    def compiled(self, chip: int | str) -> Any:
        """As Triton would compile it for what it was started with."""
        from triton.backends.compiler import GPUTarget
        from triton.compiler import ASTSource

        names = self.kernel.arg_names
        constants = {name: value for name, value in self.options.items() if name in names}
        launch = {name: value for name, value in self.options.items() if name not in names}
        signature, attributes = dict.fromkeys(names, "constexpr"), {}
        for place, (name, value) in enumerate(zip(names, self.args, strict=False)):
            tensor = isinstance(value, torch.Tensor)
            number = "fp32" if isinstance(value, float) else "i32"
            signature[name] = _TYPES[value.dtype] if tensor else number
            if number == "i32" and (value.data_ptr() if tensor else value) % 16 == 0:
                attributes[(place,)] = [["tt.divisibility", 16]]
        source = ASTSource(self.kernel, signature, constants, attributes)
        target = GPUTarget("cuda", chip, 32)
        if isinstance(chip, str):
            target = GPUTarget("hip", chip, 64 if chip.startswith("gfx9") else 32)
        return triton.compile(source, target=target, options=launch)


@pytest.fixture
def asked(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> dict[str, Asked]:
    from engine.backend.accelerator.kernels import attend, multiply

    monkeypatch.setenv("TRITON_CACHE_DIR", str(tmp_path))
    found = {}
    for module, names in (
        (multiply, ("make_ready", "sum_stretches", "add_stretches")),
        (attend, ("attend_stretches", "attend_tails", "combine")),
    ):
        for name in names:
            found[name] = Asked(getattr(module, name))
            monkeypatch.setattr(module, name, found[name])
    return found


def start(kind: str, count: int, rows: int, cols: int, *, large: bool = False) -> None:
    from engine.backend.accelerator.kernels.launch import StoredProducts

    stored = StoredProducts(torch.empty(1 << 18), torch.empty(1 << 18, dtype=torch.float16))
    matrix, _ = random_matrix(kind, rows, cols)
    stored.multiply(torch.empty(count, cols), matrix, torch.empty(count, rows), large=large)


def told_by(tool: str, option: str, code: bytes, folder: Path) -> str:
    file = folder / "kernel.cubin"
    file.write_bytes(code)
    command = [TOOLS / tool, option, file]
    return subprocess.run(command, capture_output=True, text=True, check=True).stdout


def stack_bytes(code: bytes, folder: Path) -> int:
    """Where spilled registers go."""
    told = told_by("cuobjdump", "--dump-resource-usage", code, folder)
    return int(re.findall(r"STACK:(\d+)", told)[-1])


def longest_loop(code: bytes, folder: Path) -> int:
    """Instructions of the longest stretch that is jumped back over."""
    begins, longest, count = dict[str, int](), 0, 0
    for line in told_by("nvdisasm", "-c", code, folder).splitlines():
        if label := re.match(r"(\.L_x_\d+):", line):
            begins[label[1]] = count
        if re.search(r"/\*[0-9a-f]{4,}\*/ +[@A-Z]", line):
            count += 1
            back = re.search(r"BRA.*`\((\.L_x_\d+)\)", line)
            if back and back[1] in begins:
                longest = max(longest, count - begins[back[1]])
    return longest


@pytest.mark.release(keep=2, reason="every kernel is compiled")
@pytest.mark.parametrize("kind", list(CUTS))
@pytest.mark.parametrize("chip", NVIDIA)
def test_weights_stream_to_the_matrix_units(
    chip: int, kind: str, asked: dict[str, Asked], tmp_path: Path
) -> None:
    start(kind, 16, 128, 2048)
    found = asked["sum_stretches"].compiled(chip)
    assert "mma.sync" in found.asm["ptx"]
    assert re.search(r"cp\.async\.cg\.shared\.global .* 0x10", found.asm["ptx"])
    assert stack_bytes(found.asm["cubin"], tmp_path) == 0
    assert 2 * (found.metadata.shared + 1024) <= 100 << 10, "two on a multiprocessor of any card"
    cut = CUTS[kind]
    weights = cut.rows * cut.numbers / (32 * cut.warps)
    assert 0 < longest_loop(found.asm["cubin"], tmp_path) / weights <= INSTRUCTIONS[kind]


@pytest.mark.release(keep=1, reason="every kernel is compiled")
@pytest.mark.parametrize("kind", list(CUTS))
@pytest.mark.parametrize("chip", AMD)
def test_they_do_on_amds(
    chip: str, kind: str, asked: dict[str, Asked], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(torch.version, "hip", "6.4")
    start(kind, 16, 128, 2048)
    found = asked["sum_stretches"].compiled(chip)
    code = found.asm["amdgcn"]
    assert re.search("v_mfma" if chip.startswith("gfx9") else "v_wmma", code)
    for fact in ("vgpr_spill_count", "sgpr_spill_count", "private_segment_fixed_size"):
        assert re.findall(rf"\.{fact}: +(\d+)", code) == ["0"], fact
    assert 2 * found.metadata.shared <= 64 << 10


def test_weights_beyond_two_thousand_million(asked: dict[str, Asked]) -> None:
    """Of a stack of experts, words that no 32 bits could count."""
    start("Q4_K", 16, 128, 512)
    code = asked["sum_stretches"].compiled(80).asm["ttir"]
    planes = re.findall(r"(%\S+) = tt\.splat %(?:codes|packed|scales)\S* ", code)
    offsets = re.findall(r"tt\.addptr (%\S+), .*: tensor<.*>, tensor<128x.*?(i\d+)>", code)
    kinds = [kind for plane, kind in offsets if plane in planes]
    assert set(kinds) == {"i64"}, code


@pytest.mark.release(reason="every kernel is compiled")
def test_for_twice_as_many_rows_on_hopper(asked: dict[str, Asked], tmp_path: Path) -> None:
    start("Q4_K", 32, 128, 512)
    found = asked["sum_stretches"].compiled(90)
    assert found.asm["ptx"].count("mma.sync") == 2 * 4 * 2 * 4, "each of the two has its own"
    assert stack_bytes(found.asm["cubin"], tmp_path) == 0


@pytest.mark.release(keep=1, reason="every kernel is compiled")
@pytest.mark.parametrize("large", [True, False])
def test_what_is_before_and_after(large: bool, asked: dict[str, Asked]) -> None:
    start("Q4_0", 16, 131, 2048, large=large)
    for name in ("make_ready", "add_stretches"):
        assert asked[name].compiled(80).asm["cubin"]


@pytest.mark.release(keep=1, reason="every kernel is compiled")
@pytest.mark.parametrize(
    ("chip", "heads", "kv", "dim"),
    [
        *((chip, *shape) for chip in NVIDIA for shape in ((32, 8, 128), (28, 4, 128), (8, 4, 256))),
        *((chip, 32, 8, 64) for chip in AMD),
    ],
)
def test_attention_goes_to_the_matrix_units(
    chip: int | str,
    heads: int,
    kv: int,
    dim: int,
    asked: dict[str, Asked],
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    from engine.backend.accelerator.kernels.launch import StretchedAttention

    monkeypatch.setattr(torch.version, "hip", "6.4" if isinstance(chip, str) else None)
    made = StretchedAttention(torch.device("cpu"), heads, kv, dim)
    kept = torch.zeros(5, kv, 64, dim, dtype=torch.float16)
    tails = torch.zeros(16, kv * 64, dtype=torch.int64)
    q, mask, out = (
        torch.zeros(16, heads, dim),
        torch.zeros(6, 16, 64),
        torch.zeros(16, heads * dim),
    )
    made.attend(q, (kept, kept), mask, tails, (0.1, 30.0, torch.zeros(kv, 1, heads // kv)), out)
    for name in ("attend_stretches", "attend_tails", "combine"):
        found = asked[name].compiled(chip)
        assert found.metadata.shared <= (99 if isinstance(chip, int) else 64) << 10
        if isinstance(chip, int):
            assert stack_bytes(found.asm["cubin"], tmp_path) == 0, name
        else:
            assert re.findall(r"\.vgpr_spill_count: +(\d+)", found.asm["amdgcn"]) == ["0"], name
        if name != "combine":
            code = found.asm["ptx" if isinstance(chip, int) else "amdgcn"]
            assert re.search("mma.sync|wgmma|v_wmma|v_mfma", code), name

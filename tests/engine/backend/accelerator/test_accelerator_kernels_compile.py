"""What the interpreter runs is also what compilers take: for NVIDIA's chips, without one at hand.

And the machine code is what makes a product as fast as memory: weights are copied 16 bytes at a
time ahead of the arithmetic, go to the matrix units, and no register is spilled.
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

_TYPES = {
    torch.int32: "*i32", torch.float16: "*fp16", torch.bfloat16: "*bf16", torch.float32: "*fp32",
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

    def compiled(self, capability: int) -> Any:
        """As Triton would compile it for what it was started with."""
        from triton.backends.compiler import GPUTarget
        from triton.compiler import ASTSource

        names = self.kernel.arg_names
        constants = {name: value for name, value in self.options.items() if name in names}
        launch = {name: value for name, value in self.options.items() if name not in names}
        signature, attributes = dict.fromkeys(names, "constexpr"), {}
        for place, (name, value) in enumerate(zip(names, self.args, strict=False)):
            tensor = isinstance(value, torch.Tensor)
            signature[name] = _TYPES[value.dtype] if tensor else "i32"
            if (value.data_ptr() if tensor else value) % 16 == 0:
                attributes[(place,)] = [["tt.divisibility", 16]]
        source = ASTSource(self.kernel, signature, constants, attributes)
        return triton.compile(source, target=GPUTarget("cuda", capability, 32), options=launch)


@pytest.fixture
def asked(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> dict[str, Asked]:
    from engine.backend.accelerator.kernels import multiply

    monkeypatch.setenv("TRITON_CACHE_DIR", str(tmp_path))
    kernels = ("make_ready", "sum_stretches", "add_stretches")
    found = {name: Asked(getattr(multiply, name)) for name in kernels}
    for name, kernel in found.items():
        monkeypatch.setattr(multiply, name, kernel)
    return found


def start(kind: str, count: int, rows: int, cols: int, *, large: bool = False) -> None:
    from engine.backend.accelerator.kernels.launch import StoredProducts

    stored = StoredProducts(torch.empty(1 << 18), torch.empty(1 << 18, dtype=torch.float16))
    matrix, _ = random_matrix(kind, rows, cols)
    stored.multiply(torch.empty(count, cols), matrix, torch.empty(count, rows), large=large)


def stack_bytes(code: bytes, folder: Path) -> int:
    """Where spilled registers go."""
    file = folder / "kernel.cubin"
    file.write_bytes(code)
    tool = Path(compiler.__file__).parent / "bin" / "cuobjdump"
    if not tool.is_file():
        return 0
    command = [tool, "--dump-resource-usage", file]
    told = subprocess.run(command, capture_output=True, text=True, check=True).stdout
    return int(re.findall(r"STACK:(\d+)", told)[-1])


@pytest.mark.release(keep=1, reason="every kernel is compiled")
@pytest.mark.parametrize("kind", list(CUTS))
def test_weights_stream_to_the_matrix_units(
    kind: str, asked: dict[str, Asked], tmp_path: Path
) -> None:
    start(kind, 16, 128, 2048)
    found = asked["sum_stretches"].compiled(86)
    assert "mma.sync" in found.asm["ptx"]
    assert re.search(r"cp\.async\.cg\.shared\.global .* 0x10", found.asm["ptx"])
    assert stack_bytes(found.asm["cubin"], tmp_path) == 0
    assert 2 * (found.metadata.shared + 1024) <= 100 << 10, "two on a multiprocessor of any card"


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

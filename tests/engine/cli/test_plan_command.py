"""`duotail plan`: fixed members, machines from files, words for people."""

from __future__ import annotations

from pathlib import Path

import pytest
from command_line import Duotail
from folder_models import FOLDER_TARGET

from engine.cli.plan import _point
from engine.devices.machine_file import write
from engine.machine.facts import Accelerator, Host, Machine, Vendor
from engine.machine.speeds import Speeds

GIB = 2**30


@pytest.fixture
def desktop(tmp_path: Path) -> Path:
    """An 8 GB card in a file."""
    card = Accelerator("cuda:0", "RTX 2080", Vendor.NVIDIA, 8 * GIB, 7 * GIB)
    host = Host(8, 32 * GIB, 26 * GIB, instruction_sets=("avx2",))
    path = tmp_path / "desktop.json"
    write(path, Machine(host, (card,)), Speeds({}))
    return path


def test_the_default_model(duotail: Duotail) -> None:
    plan = duotail("plan", "--json").json
    assert {"mode", "tokens_per_s", "memory", "layers_on_gpu", "reasons"} <= set(plan)
    assert (plan["mode"], plan["layers_on_gpu"], plan["lookup"]) == ("cpu", 0, True)
    assert plan["memory"]["cpu"]["target"] > 2**20
    assert plan["tokens_per_s"] > 0
    assert plan["reasons"]


def test_a_shape_on_a_machine_in_a_file(duotail: Duotail, desktop: Path) -> None:
    shape = ("plan", "--shape", "llama3.1-8b", "--draft", "llama3.2-1b", "--hardware", desktop)
    whole = duotail(*shape, "--json").json
    assert (whole["mode"], whole["layers_on_gpu"]) == ("dovetail", 32)
    assert whole["measured"] is False
    half = duotail(*shape, "--vram", "4", "--json").json
    assert 8 < half["layers_on_gpu"] < 24
    card = half["memory"]["cuda:0"]
    assert card["total"] <= card["budget"] == 4 * GIB
    assert half["memory"]["cpu"]["target"] + card["target"] > 4 * GIB
    assert any("your budget is 4.0" in reason for reason in half["reasons"])
    exactly = duotail(*shape, "--layers-on-gpu", "7", "--json").json
    assert exactly["layers_on_gpu"] == 7


def test_what_does_not_fit_is_refused_with_options_that_do(duotail: Duotail, desktop: Path) -> None:
    shape = ("plan", "--shape", "llama2-13b", "--hardware", desktop)
    refused = duotail(*shape, "--format", "bf16", "--layers-on-gpu", "30")
    assert refused.code == 2
    assert "This would fit:" in refused.err
    asked = duotail(*shape, "--format", "bf16", "--layers-on-gpu", "30", "--json").json
    assert asked["missing"]["device"] == "cuda:0"
    assert asked["missing"]["bytes"] > GIB
    assert asked["ways_out"]
    for way in asked["ways_out"]:
        assert way["words"] in refused.err
        assert " ".join(way["options"]) in refused.err
        given = () if "--format" in way["options"] else ("--format", "bf16")
        fits = duotail(*shape, *given, *way["options"], "--json").json
        assert fits["tokens_per_s"] == pytest.approx(way["tokens_per_s"])


def test_a_gpu_of_the_file_or_a_simulated_one(duotail: Duotail, desktop: Path) -> None:
    shape = ("plan", "--shape", "qwen2.5-1.5b", "--hardware", desktop, "--layers-on-gpu", "3")
    assert "cuda:0" in duotail(*shape, "--device", "cuda:0", "--json").json["memory"]
    simulated = duotail(*shape, "--simulate-gpu", "2", "--json").json
    assert simulated["memory"].keys() == {"cpu", "simulated:0"}
    assert simulated["tokens_per_s"] > 0
    assert duotail(*shape, "--device", "cuda:1").code != 0


def test_a_duo_is_planned_where_it_is_asked_for(duotail: Duotail, desktop: Path) -> None:
    shape = ("plan", "--shape", "llama2-7b", "--draft", "qwen2.5-0.5b", "--hardware", desktop)
    plan = duotail(*shape, "--mode", "duo", "--json").json
    assert (plan["mode"], plan["draft_device"]) == ("duo", "cpu")
    assert any("at the same time" in reason for reason in plan["reasons"])
    assert duotail(*shape, "--json").json["mode"] == "dovetail"


def test_more_memory_is_never_slower(duotail: Duotail, desktop: Path) -> None:
    plan = duotail(
        *("plan", "--shape", "llama2-13b", "--draft", "none"),
        *("--hardware", desktop, "--curve", "--json"),
    ).json
    speeds = [point["tokens_per_s"] for point in plan["curve"]]
    layers = [point["layers_on_gpu"] for point in plan["curve"]]
    assert len(speeds) == 9
    assert speeds == sorted(speeds)
    assert layers == sorted(layers)
    assert speeds[-1] > 1.3 * speeds[0]


@pytest.mark.parametrize("budget", ["0.5", "1", "1.5"])
def test_dovetail_on_a_simulated_accelerator_uses_the_budget(duotail: Duotail, budget: str) -> None:
    plan = duotail(
        *("plan", "--shape", "qwen2.5-1.5b", "--draft", "lookup", "--mode", "dovetail"),
        *("--simulate-gpu", "2", "--vram", budget, "--json"),
    ).json
    held = plan["memory"]["simulated:0"]
    assert 0.9 * held["budget"] < held["total"] <= held["budget"] or plan["layers_on_gpu"] == 28
    assert any("Simulated GPU" in reason for reason in plan["reasons"])


def test_a_budget_in_which_nothing_fits_has_an_empty_row() -> None:
    budget, *rest = _point((3 << 29, None))
    assert budget.startswith("1.5")
    assert rest == ["", ""]


def test_a_table_for_people(duotail: Duotail, desktop: Path) -> None:
    shown = duotail(
        *("plan", "--shape", "llama3.1-8b", "--draft", "llama3.2-1b"),
        *("--hardware", desktop, "--vram", "5", "--curve"),
    )
    assert shown.code == 0
    assert "dovetail: about" in shown.out
    assert "RTX 2080" in shown.out
    assert "layers fit beside the draft" in shown.out
    assert shown.out.count("\N{NO-BREAK SPACE}GiB") > 12


@pytest.mark.parametrize(
    ("arguments", "code", "words"),
    [
        (("--shape", "nope"), 2, "no shape"),
        (("--mode", "dovetail", "--model", str(FOLDER_TARGET)), 3, "needs a GPU"),
        (("--shape", "llama2-13b", "--context", "100000"), 2, "handles up to 4096"),
        (("--shape", "llama2-7b", "--model", str(FOLDER_TARGET)), 2, "not allowed with"),
    ],
)
def test_what_cannot_be_planned(
    duotail: Duotail, arguments: tuple[str, ...], code: int, words: str,
    monkeypatch: pytest.MonkeyPatch,
) -> None:  # fmt: skip
    bare = Machine(Host(4, 16 * GIB, 12 * GIB))
    monkeypatch.setattr("engine.loading.devices.probe_machine", lambda: bare)
    refused = duotail("plan", *arguments, "--json")
    assert refused.code == code
    assert words in refused.err

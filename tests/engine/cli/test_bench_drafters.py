"""`duotail bench drafters`: all strategies write the same, and each is told apart."""

from __future__ import annotations

import json
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from folder_models import FOLDER_DRAFT, FOLDER_TARGET
from head_folders import write_head

from engine.bench.harness import PLAIN
from engine.bench.pair_writer import LOOKUP, _model, strategies_of
from engine.cli import main
from engine.cli.exit_code import ExitCode
from engine.commands import Load
from engine.errors import UserFixable
from engine.loading.devices import DeviceManager
from engine.loading.load import load
from engine.loading.planned_load import plan_load
from engine.model.local_model import LocalModel

PROMPTS = (
    {"prompt": "Hello! How are you?", "category": "greeting"},
    {"prompt": "Tell me a short story about a dog.", "category": "story"},
    {"prompt": "Tell me a short story about a fox.", "category": "story"},
)
PAIR = ("--model", str(FOLDER_TARGET), "--draft", str(FOLDER_DRAFT))
DRAFT = FOLDER_DRAFT.name


@pytest.fixture
def prompts(tmp_path: Path) -> Path:
    file = tmp_path / "prompts.jsonl"
    file.write_text("\n".join(map(json.dumps, PROMPTS)), "utf-8")
    return file


@pytest.mark.release(keep=1, reason="every acceptance")
@pytest.mark.parametrize("temperature", ["0", "0.8"])
def test_every_way_writes_what_the_target_would(
    prompts: Path, temperature: str, capsys: pytest.CaptureFixture[str]
) -> None:
    words = [*PAIR, "--prompts", str(prompts), "--repeat", "2", "--max-tokens", "40"]
    words += ["--depth", "auto", "--depth", "3", "--temperature", temperature, "--json"]
    code = main(["bench", "drafters", *words])
    assert code == ExitCode.DONE
    told = json.loads(capsys.readouterr().out)
    assert [*told["figures"]] == ["greeting", "story", "all"]
    everything = told["figures"]["all"]
    names = ("lookup", DRAFT, f"{DRAFT} + lookup")
    assert [*everything] == ["plain", *(f"{name}{x}" for name in names for x in ("", ", chain 3"))]
    assert all(row["exact"] for row in everything.values())
    assert all(row["prompts"] == 3 for row in everything.values())
    assert everything["plain"]["speedup"] == 1
    assert everything["plain"]["acceptance_length"] is None
    assert 1 < everything[f"{DRAFT}, chain 3"]["acceptance_length"] <= 4
    assert told["draft_costs"]["plain"] is None
    assert 0 < told["draft_costs"][f"{DRAFT}, chain 3"] < 3
    assert 0 <= told["ended"] <= 1


def test_the_table_has_a_row_a_way(prompts: Path, capsys: pytest.CaptureFixture[str]) -> None:
    words = [*PAIR, "--prompts", str(prompts), "--limit", "1", "--repeat", "1"]
    assert main(["bench", "drafters", *words, "--max-tokens", "24"]) == ExitCode.DONE
    ways, speeds = capsys.readouterr().out.split("\n\n")
    rows = [line[3:].split("  ")[0] for line in ways.splitlines()[1:]]
    assert sorted(rows) == sorted(["plain", "lookup", DRAFT, f"{DRAFT} + lookup"])
    assert all("yes" in line for line in ways.splitlines()[1:])
    categories = [line.split(" ")[0] for line in speeds.splitlines()[1:]]
    assert categories == ["greeting", "story", "all"]
    overall = [float(cell) for cell in speeds.splitlines()[-1].split()[1:]]
    assert overall == sorted(overall, reverse=True)


def test_one_run_compares_budgets(prompts: Path, capsys: pytest.CaptureFixture[str]) -> None:
    words = [*PAIR, "--draft", "lookup", "--prompts", str(prompts), "--limit", "1"]
    budgets = ["--depth", "auto", "--depth", "2", "--depth", "3x2", "--lookup", "without"]
    limits = ["--repeat", "1", "--max-tokens", "24", "--json"]
    assert main(["bench", "drafters", *words, *budgets, *limits]) == ExitCode.DONE
    everything = json.loads(capsys.readouterr().out)["figures"]["all"]
    names = (DRAFT, f"{DRAFT}, chain 2", f"{DRAFT}, tree 3x2")
    assert {*everything} == {"plain", *names, "lookup", "lookup, chain 2", "lookup, tree 3x2"}
    assert all(row["exact"] for row in everything.values())
    assert everything[names[1]]["drafted_per_round"] <= 2
    assert 2 < everything[names[2]]["drafted_per_round"] <= 6
    assert everything[names[1]]["plain_share"] < 0.5


def test_only_with_lookup(prompts: Path, capsys: pytest.CaptureFixture[str]) -> None:
    words = [*PAIR, "--prompts", str(prompts), "--limit", "1", "--lookup", "with"]
    limits = ["--repeat", "1", "--max-tokens", "24", "--json"]
    assert main(["bench", "drafters", *words, *limits]) == ExitCode.DONE
    everything = json.loads(capsys.readouterr().out)["figures"]["all"]
    assert [*everything] == ["plain", "lookup", f"{DRAFT} + lookup"]


def test_a_pair_that_drafts_ahead_cannot_be_compared_in_turns() -> None:
    ahead: Any = SimpleNamespace(loop=object())
    with pytest.raises(UserFixable, match="ahead does not draft in turns"):
        _model("ahead", ahead)


def test_drafts_of_one_name_are_told_apart(
    prompts: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    other = tmp_path / DRAFT
    other.symlink_to(FOLDER_DRAFT)
    words = [*PAIR, "--draft", str(other), "--prompts", str(prompts), "--lookup", "without"]
    limits = ["--limit", "1", "--repeat", "1", "--max-tokens", "12", "--json"]
    assert main(["bench", "drafters", *words, *limits]) == ExitCode.DONE
    everything = json.loads(capsys.readouterr().out)["figures"]["all"]
    assert [*everything] == ["plain", str(FOLDER_DRAFT), str(other)]


@pytest.mark.parametrize("budget", ["0", "x", "3x", "3x0", "deep"])
def test_budgets_that_are_none(prompts: Path, budget: str) -> None:
    with pytest.raises(SystemExit) as ended:
        main(["bench", "drafters", *PAIR, "--prompts", str(prompts), "--depth", budget])
    assert ended.value.code == ExitCode.BAD_INPUT


def test_all_is_compared_with_a_target_that_feeds_no_head(tmp_path: Path) -> None:
    """Whichever draft is named first: keeping features would slow plain decoding."""
    manager = DeviceManager()
    machine = manager.look(None)
    head = write_head(tmp_path / "head", "dgf", LocalModel.inspect(FOLDER_TARGET).config)
    pairs = []
    for draft in (head, FOLDER_DRAFT):
        command = Load(FOLDER_TARGET, draft=draft)
        pair = load(plan_load(command, machine, manager.speeds(machine)), manager.open)
        pairs.append((draft.name, pair))
    assert [pair.target.feeds_a_head for _, pair in pairs] == [True, False]
    targets = {name: each.writer.pair.target for name, each in strategies_of(pairs).items()}
    assert targets[PLAIN] is targets[LOOKUP] is pairs[1][1].target
    assert targets["head"] is pairs[0][1].target


@pytest.mark.release(reason="measures for a second")
def test_chains_of_one_length_are_drafted_whether_they_pay_or_not(
    prompts: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    words = [*PAIR, "--prompts", str(prompts), "--repeat", "1", "--max-tokens", "40", "--json"]
    lengths = {}
    for levels in ("1", "5"):
        assert main(["bench", "drafters", *words, "--depth", levels]) == ExitCode.DONE
        everything = json.loads(capsys.readouterr().out)["figures"]["all"]
        assert all(row["exact"] for row in everything.values())
        lengths[levels] = everything[f"{DRAFT}, chain {levels}"]["acceptance_length"]
    assert 1 < lengths["1"] <= 2
    assert lengths["1"] < lengths["5"] <= 6


@pytest.mark.release(reason="measures for a second")
def test_a_tree_holds_what_its_chain_holds_and_more(
    prompts: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    words = [*PAIR, "--prompts", str(prompts), "--repeat", "1", "--max-tokens", "40", "--json"]
    lengths = {}
    for width, name in (("1", "chain 4"), ("3", "tree 4x3")):
        fixed = ["--depth", "4", "--width", width]
        assert main(["bench", "drafters", *words, *fixed]) == ExitCode.DONE
        everything = json.loads(capsys.readouterr().out)["figures"]["all"]
        assert all(row["exact"] for row in everything.values())
        lengths[width] = everything[f"{DRAFT}, {name}"]["acceptance_length"]
    assert lengths["1"] < lengths["3"] <= 5

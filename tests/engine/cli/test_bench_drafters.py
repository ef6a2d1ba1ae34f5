"""`duotail bench drafters`: all ways write the same, and each is told apart."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from folder_models import FOLDER_DRAFT, FOLDER_TARGET
from head_folders import write_head

from engine.bench.drafters import LOOKUP, PLAIN, depth, ways_of
from engine.cli import main
from engine.cli.exit_code import ExitCode
from engine.commands import Load
from engine.decode.tree import TokenTree
from engine.hub.local import LocalModel
from engine.loading.checking import check
from engine.loading.load import load
from engine.loading.machinery import Machinery

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


@pytest.mark.parametrize("temperature", ["0", "0.8"])
def test_every_way_writes_what_the_target_would(
    prompts: Path, temperature: str, capsys: pytest.CaptureFixture[str]
) -> None:
    words = [*PAIR, "--prompts", str(prompts), "--repeat", "2", "--max-tokens", "40"]
    code = main(["bench", "drafters", *words, "--temperature", temperature, "--json"])
    assert code == ExitCode.DONE
    told = json.loads(capsys.readouterr().out)
    assert [*told["figures"]] == ["greeting", "story", "all"]
    everything = told["figures"]["all"]
    assert [*everything] == ["plain", "lookup", DRAFT, f"{DRAFT} + lookup"]
    assert all(row["exact"] for row in everything.values())
    assert all(row["prompts"] == 3 for row in everything.values())
    assert everything["plain"]["speedup"] == 1
    assert everything["plain"]["acceptance_length"] is None
    assert everything[DRAFT]["acceptance_length"] > 1
    assert told["draft_costs"]["plain"] is None
    assert 0 < told["draft_costs"][DRAFT] < 3
    assert 0 <= told["ended"] <= 1


def test_the_table_has_a_row_a_way(prompts: Path, capsys: pytest.CaptureFixture[str]) -> None:
    words = [*PAIR, "--prompts", str(prompts), "--limit", "1", "--repeat", "1"]
    assert main(["bench", "drafters", *words, "--max-tokens", "24"]) == ExitCode.DONE
    lines = capsys.readouterr().out.splitlines()
    assert [line.split("  ")[0] for line in lines[1:4]] == ["greeting", "story", "all"]
    assert [line.split("  ")[0] for line in lines[6:]] == [
        "plain", "lookup", DRAFT, f"{DRAFT} + lookup"
    ]  # fmt: skip
    assert all("yes" in line for line in lines[6:])


def test_all_is_compared_with_a_target_that_feeds_no_head(tmp_path: Path) -> None:
    """Whichever draft is named first: keeping features would slow the plain way."""
    machinery = Machinery()
    machine = machinery.look(None)
    head = write_head(tmp_path / "head", "dgf", LocalModel.inspect(FOLDER_TARGET).config)
    pairs = []
    for draft in (head, FOLDER_DRAFT):
        command = Load(FOLDER_TARGET, draft=draft)
        pair = load(check(command, machine, machinery.speeds(machine)), machinery.open)
        pairs.append((draft.name, pair))
    assert [pair.target.feeds_a_head for _, pair in pairs] == [True, False]
    ways = ways_of(pairs)
    assert all(ways[name].pair.target is pairs[1][1].target for name in (PLAIN, LOOKUP))
    assert ways["head"].pair.target is pairs[0][1].target


def test_the_depth_of_a_tree() -> None:
    assert depth(TokenTree.root(5)) == 0
    tree = TokenTree.build(5, [(0, 1, -0.1), (0, 2, -0.5), (1, 3, -0.6), (3, 4, -0.9)])
    assert depth(tree) == 3


def test_chains_of_one_length_are_drafted_whether_they_pay_or_not(
    prompts: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    words = [*PAIR, "--prompts", str(prompts), "--repeat", "1", "--max-tokens", "40", "--json"]
    lengths = {}
    for levels in ("1", "5"):
        assert main(["bench", "drafters", *words, "--depth", levels]) == ExitCode.DONE
        everything = json.loads(capsys.readouterr().out)["figures"]["all"]
        assert all(row["exact"] for row in everything.values())
        lengths[levels] = everything[DRAFT]["acceptance_length"]
    assert 1 < lengths["1"] <= 2
    assert lengths["1"] < lengths["5"] <= 6


def test_a_tree_holds_what_its_chain_holds_and_more(
    prompts: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    words = [*PAIR, "--prompts", str(prompts), "--repeat", "1", "--max-tokens", "40", "--json"]
    lengths = {}
    for width in ("1", "3"):
        fixed = ["--depth", "4", "--width", width]
        assert main(["bench", "drafters", *words, *fixed]) == ExitCode.DONE
        everything = json.loads(capsys.readouterr().out)["figures"]["all"]
        assert all(row["exact"] for row in everything.values())
        lengths[width] = everything[DRAFT]["acceptance_length"]
    assert lengths["1"] < lengths["3"] <= 5

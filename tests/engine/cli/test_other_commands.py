"""`duotail models` and `duotail bench speculate`."""

from __future__ import annotations

import json
import os
from pathlib import Path

import pytest
from command_line import Duotail
from folder_models import FOLDER_DRAFT, FOLDER_TARGET
from head_folders import write_head

import engine.cli.bench
from engine.backend.native.packed_cache import PackedCache
from engine.bench.prompts import BenchPrompt, first_of_each_category, read_prompts
from engine.bench.speculate import PromptResult, summarise
from engine.model.config import ModelConfig

# -- models ----------------------------------------------------------------------------------


def test_models(duotail: Duotail, shipped: Path) -> None:
    done = duotail("models", "--json")
    assert done.code == 0
    rows = done.json["models"]
    assert {row["name"] for row in rows} == {FOLDER_TARGET.name, FOLDER_DRAFT.name}
    for row in rows:
        assert set(row) == {"name", "title", "path", "kind", "bytes", "head", "target"}
        assert Path(row["path"]) == shipped / row["name"]
    table = duotail("models")
    assert all(row["title"] in table.out for row in rows)


@pytest.mark.usefixtures("shipped")
def test_models_tell_heads_from_models(duotail: Duotail, tmp_path: Path) -> None:
    head = write_head(tmp_path / "My head", "dgf", ModelConfig.open(FOLDER_TARGET))
    row = duotail("models", head, "--json").json["models"][-1]
    assert (row["title"], row["kind"], row["head"]) == ("My head", "F32", "dgf")
    assert row["target"] == "Some target"
    listed = duotail("models", head).out.splitlines()
    (line,) = [line for line in listed if "My head" in line]
    assert line.endswith("(draft head for Some target)")
    (line,) = [line for line in listed if line.startswith(f"{FOLDER_TARGET.name} ")]
    assert "draft head" not in line


def test_models_show_and_clear_the_cache(duotail: Duotail) -> None:
    folder = PackedCache().folder
    assert str(folder).startswith(os.environ["DUOTAIL_CACHE_DIR"])
    folder.mkdir(parents=True)
    (folder / f"{'0' * 32}.packed").write_bytes(bytes(2_000_000))
    shown = duotail("models", "--json").json["cache"]
    assert shown == {"path": str(folder), "bytes": 2_000_000, "freed_bytes": 0}
    cleared = duotail("models", "--clear-cache", "--json").json["cache"]
    assert cleared == {"path": str(folder), "bytes": 0, "freed_bytes": 2_000_000}
    assert list(folder.iterdir()) == []
    assert f"0.0 GB of quantised weights in {folder}" in duotail("models", "--clear-cache").out


def test_models_ignores_stray_folders(
    duotail: Duotail, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for folder in (FOLDER_TARGET, FOLDER_DRAFT):
        (tmp_path / folder.name).symlink_to(folder)
    (tmp_path / "__pycache__").mkdir()
    monkeypatch.setattr("engine.hub.bundled.root", lambda: tmp_path)
    done = duotail("models", "--json")
    assert (done.code, len(done.json["models"])) == (0, 2)


# -- bench -----------------------------------------------------------------------------------


@pytest.fixture
def prompts(tmp_path: Path) -> Path:
    rows = [
        {"category": "story", "prompt": "Tell me a story about a fox."},
        {"category": "facts", "turns": ["What is rain?", "And snow?"]},
        {"category": "facts", "prompt": "What is the sun?"},
    ]
    file = tmp_path / "prompts.jsonl"
    file.write_text("\n".join(map(json.dumps, rows)) + "\n\n", encoding="utf-8")
    return file


def test_bench_speculate_with_a_simulated_accelerator(duotail: Duotail, prompts: Path) -> None:
    split = ("--mode", "dovetail", "--simulate-gpu", "1", "--layers-on-gpu", "3")
    limits = ("--max-tokens", "12", "--limit", "1")
    done = duotail("bench", "speculate", "--prompts", prompts, "--json", *split, *limits)
    assert (done.code, done.err) == (0, "")
    assert done.json["overall"]["exact"]
    assert done.json["overall"]["acceptance_length"] > 1


def test_bench_speculate(duotail: Duotail, prompts: Path) -> None:
    done = duotail(
        "bench", "speculate", "--prompts", prompts, "--json", "--mode", "cpu", "--max-tokens", "24"
    )
    assert (done.code, done.err) == (0, "")
    report = done.json
    assert list(report) == ["categories", "overall"]
    assert {name: row["prompts"] for name, row in report["categories"].items()} == {
        "story": 1,
        "facts": 2,
    }
    for row in (*report["categories"].values(), report["overall"]):
        assert row["exact"] is True
        assert row["speedup"] > 0
        assert row["acceptance_length"] > 1
    assert report["overall"]["prompts"] == 3
    assert report["overall"]["skipped"] == 0


def test_bench_says_what_it_skipped(duotail: Duotail, prompts: Path) -> None:
    with prompts.open("a", encoding="utf-8") as file:
        file.write(json.dumps({"category": "long", "prompt": "word " * 2000}) + "\n")
    done = duotail(
        "bench", "speculate", "--prompts", prompts, "--limit", "1", "--max-tokens", "4",
        "--temperature", "0.8", "--no-shared-noise", "--draft", "lookup",
    )  # fmt: skip
    assert done.code == 0
    assert "story" in done.out
    assert "overall" in done.out
    assert "long" not in done.out
    assert "NO" not in done.out
    report = duotail(
        "bench", "speculate", "--prompts", prompts, "--json", "--max-tokens", "4"
    ).json["overall"]
    assert (report["prompts"], report["skipped"]) == (3, 1)


@pytest.mark.parametrize(
    "line",
    [
        "not json",
        "7",
        '"text"',
        "{}",
        '{"prompt": ""}',
        '{"prompt": 7}',
        '{"turns": []}',
        '{"turns": "text"}',
    ],
)
def test_a_bad_line_is_named_by_its_number(duotail: Duotail, prompts: Path, line: str) -> None:
    with prompts.open("a", encoding="utf-8") as file:
        file.write(line + "\n")
    done = duotail("bench", "speculate", "--prompts", prompts, "--json")
    assert done.code == 2
    assert "Line 5 of" in done.json["error"]


@pytest.mark.parametrize("content", [None, b"", b"\n \n", b'{"prompt": "caf\xe9"}'])
def test_prompts_that_are_no_prompts(
    duotail: Duotail, tmp_path: Path, content: bytes | None
) -> None:
    file = tmp_path / "prompts.jsonl"
    if content is not None:
        file.write_bytes(content)
    done = duotail("bench", "speculate", "--prompts", file, "--json")
    assert done.code == 2
    assert "prompts.jsonl" in done.json["error"]


@pytest.mark.parametrize(
    ("options", "words"),
    [
        (("--draft", "none"), "Nothing drafts here"),
        (("--max-tokens", "1"), "None of the prompts could be measured"),
        (("--context", "4"), "None of the prompts could be measured"),
    ],
)
def test_nothing_to_measure(
    duotail: Duotail, prompts: Path, options: tuple[str, ...], words: str
) -> None:
    done = duotail("bench", "speculate", "--prompts", prompts, "--json", *options)
    assert done.code == 2
    assert words in done.json["error"]


@pytest.mark.parametrize("option", ["--limit", "--repeat", "--max-tokens"])
def test_counts_are_one_or_more(duotail: Duotail, prompts: Path, option: str) -> None:
    done = duotail("bench", "speculate", "--prompts", prompts, option, "0")
    assert (done.code, done.out) == (2, "")
    assert "1 or more" in done.err


def test_ctrl_c_in_a_benchmark(
    duotail: Duotail, prompts: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def interrupted(*_arguments: object, **_more: object) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr(engine.cli.bench, "measure", interrupted)
    done = duotail("bench", "speculate", "--prompts", prompts, "--json")
    assert (done.code, done.out) == (130, "")


def test_the_summary_weighs_acceptance_by_rounds() -> None:
    results = [
        PromptResult("a", 10.0, 20.0, 3.0, 10, exact=True),
        PromptResult("a", 10.0, 30.0, 1.0, 30, exact=True),
        PromptResult("b", 10.0, 5.0, None, 0, exact=False),
    ]
    categories, overall = summarise(results)
    assert categories["a"].acceptance_length == pytest.approx((3 * 10 + 1 * 30) / 40)
    assert categories["a"].speedup == pytest.approx(2.5)
    assert (categories["a"].exact, categories["b"].exact) == (True, False)
    assert categories["b"].acceptance_length is None
    assert overall is not None
    assert (overall.speedup, overall.exact, overall.prompts) == (2.0, False, 3)
    assert summarise([]) == ({}, None)


def test_only_line_feeds_end_a_line(tmp_path: Path) -> None:
    file = tmp_path / "prompts.jsonl"
    text = "one\u2028line\x85still"
    row = json.dumps({"prompt": text}, ensure_ascii=False)
    file.write_bytes(f"\ufeff{row}\r\n{row}".encode())
    assert [prompt.text for prompt in read_prompts(file)] == [text, text]


def test_the_first_prompts_of_each_category() -> None:
    rows = [BenchPrompt(category, str(i)) for i, category in enumerate("aabab")]
    assert [row.text for row in first_of_each_category(rows, 2)] == ["0", "1", "2", "4"]
    assert first_of_each_category(rows, None) == rows

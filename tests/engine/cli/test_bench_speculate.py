"""`duotail bench speculate`: what it asks, what its figures mean."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from command_line import Duotail
from folder_models import FOLDER_TARGET

from engine.bench.harness import PLAIN, BenchAnswer, MeasuredStrategy, figures
from engine.bench.prompts import BenchPrompt, first_of_each_category, read_prompts
from engine.cli.exit_code import ExitCode
from engine.request import ChatRequest
from engine.session.tally import Tally


class _Nobody:
    """A writer whose answers are given."""

    def write(self, request: ChatRequest) -> BenchAnswer:
        raise NotImplementedError


_NONE = _Nobody()


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
        assert row["c"] > 0
        assert row["drafted_per_round"] >= 1
        assert row["t1_ms"] > 0
        assert row["draft_share"] + row["verify_share"] + row["rest_share"] == pytest.approx(1)
    overall = report["overall"]
    assert (overall["prompts"], overall["skipped"]) == (3, 0)
    speeds = {name: row["speedup"] for name, row in report["categories"].items()}
    assert overall["slowest_speedup"] == speeds[overall["slowest_category"]] == min(speeds.values())


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
        (("--draft", "none"), "There is no draft"),
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

    monkeypatch.setattr("engine.cli.bench_answers.measured_prompts", interrupted)
    done = duotail("bench", "speculate", "--prompts", prompts, "--json")
    assert (done.code, done.out) == (130, "")


def written(
    tokens: int, seconds: float, level_s: float = 0.0, levels: int = 0, **counts: Any
) -> BenchAnswer:
    """An answer of so many tokens behind its first, whose text goes by its length."""
    tally = Tally(committed=tokens + 1, first_at=1.0, last_at=1.0 + seconds, **counts)
    return BenchAnswer(tally.stats(0.0, None), tuple(range(tokens)), True, level_s, levels)


def test_what_the_figures_mean() -> None:
    rounds = {"rounds": 10, "plain_rounds": 10, "verify_seconds": 0.04}
    plain = MeasuredStrategy(
        _NONE, [[written(10, 1.0, **rounds)], [written(30, 1.0, **rounds)] * 2]
    )
    better = {"rounds": 4, "plain_rounds": 1, "drafting_rounds": 3, "drafted": 9}
    better["drafting_tokens"] = 6
    times = {"draft_seconds": 0.1, "verify_seconds": 0.3, "level_s": 0.009, "levels": 9}
    draft = MeasuredStrategy(
        _NONE, [[written(10, 0.5, **better, **times)], [written(30, s) for s in (1.0, 2.0)]]
    )
    prompts = [BenchPrompt("a", "one"), BenchPrompt("b", "two")]
    found = figures({PLAIN: plain, "draft": draft}, prompts)
    assert [*found] == ["a", "b", "all"]
    one, two, everything = (found[name]["draft"] for name in found)
    assert (one.speedup, one.tokens_per_s) == (2.0, 20.0)
    assert (one.acceptance_length, one.drafted_per_round, one.plain_share) == (2.0, 3.0, 0.25)
    assert one.t1_ms == pytest.approx(4.0)
    assert one.c == pytest.approx(0.001 / 0.004)
    shares = (one.draft_share, one.verify_share, one.rest_share)
    assert shares == pytest.approx((0.2, 0.6, 0.2))
    assert two.speedup == pytest.approx((30 + 15) / 2 / 30), "median of two answers' speeds"
    assert (two.acceptance_length, two.c) == (None, None)
    assert everything.speedup == pytest.approx((2.0 + 0.75) / 2)
    assert everything.total_tokens_per_s == pytest.approx(40 / (0.5 + 1.5))
    assert everything.total_speedup == pytest.approx(20 / 20)
    assert everything.exact
    assert found["all"][PLAIN].speedup == found["all"][PLAIN].total_speedup == 1
    assert figures({PLAIN: MeasuredStrategy(_NONE)}, []) == {}


@pytest.mark.parametrize("ids", [None, (0, 1, 3)])
def test_one_text_that_differs_or_is_not_known_is_not_exact(ids: tuple[int, ...] | None) -> None:
    plain = MeasuredStrategy(_NONE, [[written(3, 1.0, rounds=3)]])
    other = MeasuredStrategy(_NONE, [[written(3, 1.0), replace(written(3, 1.0), token_ids=ids)]])
    found = figures({PLAIN: plain, "other": other}, [BenchPrompt("a", "one")])["a"]
    assert (found[PLAIN].exact, found["other"].exact) == (True, False)


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


def test_plain_text_is_a_prompt_a_line_and_limits_go_by_file(
    duotail: Duotail, prompts: Path, tmp_path: Path
) -> None:
    plain = tmp_path / "everyday.txt"
    plain.write_text("# a comment\n\nWhat is rain?\nHow are you? \n", encoding="utf-8")
    texts = ["What is rain?", "How are you?"]
    assert read_prompts(plain) == [BenchPrompt("everyday", text) for text in texts]
    files = ("--prompts", prompts, "--prompts", plain, "--limit", "1", "--limit", "2")
    limits = ("--max-tokens", "8", "--system", "Be brief.", "--draft", "lookup")
    done = duotail("bench", "speculate", *files, *limits, "--json")
    counts = {name: row["prompts"] for name, row in done.json["categories"].items()}
    assert counts == {"story": 1, "facts": 1, "everyday": 2}


def test_without_a_peer(duotail: Duotail, prompts: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("DUOTAIL_PEER_PYTHON", "/no/such/python")
    done = duotail("bench", "speculate", "--prompts", prompts, "--peer", "llama.cpp", "--json")
    assert done.code == 3


def test_a_peer_that_drafts_needs_two_files_with_names(
    duotail: Duotail, prompts: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("DUOTAIL_PEER_PYTHON", "/no/such/python")
    asked = (
        "bench",
        "speculate",
        "--prompts",
        prompts,
        "--peer",
        "llama.cpp-draft",
        "--mode",
        "cpu",
    )
    unnamed = duotail(*asked)
    assert (unnamed.code, unnamed.out) == (2, "")
    assert "--draft" in unnamed.err
    folder = duotail(*asked, "--draft", FOLDER_TARGET)
    assert (folder.code, folder.out) == (2, "")
    assert "GGUF" in folder.err


def test_bench_with_a_schema(duotail: Duotail, prompts: Path, tmp_path: Path) -> None:
    """What a schema forces needs no draft, and is drafted nonetheless."""
    schema = tmp_path / "schema.json"
    schema.write_text('{"type": "object", "properties": {"number": {"type": "integer"}}}')
    limits = ("--limit", "1", "--max-tokens", "24")
    asked = ("bench", "speculate", "--prompts", prompts, "--schema", schema, *limits)
    done = duotail(*asked, "--draft", "lookup", "--json")
    assert (done.code, done.err) == (0, "")
    assert done.json["overall"]["exact"]
    assert done.json["overall"]["acceptance_length"] > 1
    refused = duotail(*asked, "--peer", "llama.cpp")
    assert refused.code == ExitCode.BAD_INPUT
    assert "without a grammar" in refused.err


@pytest.mark.parametrize(("row", "category"), [({}, "everyday"), ({"category": "all"}, "all")])
def test_prompts_without_a_category_have_one(
    duotail: Duotail, tmp_path: Path, row: dict[str, str], category: str
) -> None:
    file = tmp_path / "prompts.jsonl"
    file.write_text(json.dumps({"prompt": "Hello there", **row}))
    limits = ("--draft", "lookup", "--max-tokens", "8")
    done = duotail("bench", "speculate", "--prompts", file, "--json", *limits)
    assert (done.code, done.err) == (0, "")
    assert done.json["overall"]["slowest_category"] == category

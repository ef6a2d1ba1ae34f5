"""The report: what was found as JSON and in words, and which stack goes."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

from card.steps import FORMATS, REPORT, SHAPES, STACKS, results

NAME = "report.md"
DECODES, PREFILLS = 0.8, 0.5
"""WebGPU's share of the PyTorch path's speed from which on that path goes."""

Found = list[dict[str, Any]]


def write(out: Path) -> None:
    """Write both forms of what is known so far."""
    found = results(out)
    decision = decide(found)
    told = {"decision": decision, "results": found}
    (out / REPORT).write_text(json.dumps(told, indent=1), "utf-8")
    (out / NAME).write_text(_text(found, decision), "utf-8")


def is_fault(line: dict[str, Any]) -> bool:
    """Tell whether something was not as it should be."""
    match line["kind"]:
        case "failed":
            return True
        case "test":
            return bool(line["outcome"] == "failed")
        case "placement" | "setup":
            return not line["exact"]
        case "logits":
            return not line["within"]
    return False


def text(out: Path) -> str:
    """Return the report of an earlier run, also of one that was cut off."""
    found = results(out)
    return _text(found, decide(found))


def decide(found: Found) -> dict[str, Any]:
    """Compare the stacks, shape by shape and format by format, and say which one goes."""
    pairs: list[dict[str, Any]] = []
    for shape in SHAPES:
        for wanted in FORMATS:
            ours, theirs = (_speeds(found, stack, shape, wanted) for stack in STACKS)
            shares = {part: ours[part] / theirs[part] for part in ours if part in theirs}
            if shares:
                pairs.append({"shape": shape, "format": wanted, "shares": shares})
    slow = [
        f"{pair['shape']} {pair['format']}: {part} at {share:.2f}"
        for pair in pairs
        for part, share in pair["shares"].items()
        if share < (DECODES if part.startswith("decode") else PREFILLS)
    ]
    parts = {part.partition(" ")[0] for pair in pairs for part in pair["shares"]}
    if parts != {"decode", "prefill"}:
        verdict = "Undecided: both stacks were not timed."
    elif slow:
        verdict = "PyTorch's kernels stay until WebGPU's catch up with: " + "; ".join(slow) + "."
    else:
        verdict = (
            "PyTorch's kernels, recordings and drafting go: WebGPU decodes at "
            f"{DECODES} and prefills at {PREFILLS} of their speed, or better, everywhere."
        )
    return {"verdict": verdict, "rule": [DECODES, PREFILLS], "pairs": pairs, "slow": slow}


def _speeds(found: Found, stack: str, shape: str, wanted: str) -> dict[str, float]:
    """Tokens per second by what was measured."""
    speeds = {}
    for line in found:
        if (line.get("stack"), line.get("shape"), line.get("format")) != (stack, shape, wanted):
            continue
        if line["kind"] == "TimedRounds" and "1" in line["seconds"]:
            speeds[f"decode {line['context']}"] = 1 / line["seconds"]["1"]
        elif line["kind"] == "TimedPrefill":
            speeds[f"prefill {line['tokens']}"] = line["tokens"] / line["seconds"]
    return speeds


def _text(found: Found, decision: dict[str, Any]) -> str:
    parts: tuple[Callable[[Found], Iterator[str]], ...] = (
        _steps, _ceilings, _forwards, _kernels, _setups, _wrong, _tests,
    )  # fmt: skip
    lines = ["# The check of a card", ""]
    for line in found:
        if line["kind"] == "has" and not {*STACKS} & {*line["has"]}:
            lines += ["No card that Duotail can use was found.", ""]
            lines += [f"- no {name}: {why}" for name, why in line["missing"].items()] + [""]
    lines += [str(decision["verdict"]), ""]
    for part in parts:
        told = list(part(found))
        lines += [*told, ""] if told else []
    return "\n".join(lines)


def _steps(found: Found) -> Iterator[str]:
    yield from _table("step", "seconds", "ended", "what it says")
    for line in found:
        if line["kind"] == "end":
            words = [each["words"] for each in found if _is(each, line["step"], "words")]
            said = str(words[-1]).replace("\n", "; ") if words else ""
            yield _row(line["step"], line["seconds"], line["ended"], said)


def _ceilings(found: Found) -> Iterator[str]:
    lines = [line for line in found if line["kind"] == "ceilings"]
    if lines:
        yield from _table("device", "GB/s", "TFLOP/s")
    for line in lines:
        products = ", ".join(f"{kind} {n / 1e12:.1f}" for kind, n in line["flop_per_s"].items())
        yield _row(line["where"], f"{line['bytes_per_s'] / 1e9:.0f}", products)


def _forwards(found: Found) -> Iterator[str]:
    """Milliseconds, and the share of the bandwidth that a copy has reached."""
    best = {line["where"]: line["bytes_per_s"] for line in found if line["kind"] == "ceilings"}
    rows = []
    for shape in SHAPES:
        for wanted in FORMATS:
            for stack in STACKS:
                lines = [
                    line for line in found
                    if (line.get("stack"), line.get("shape"), line.get("format"))
                    == (stack, shape, wanted)
                ]  # fmt: skip
                if lines:
                    rows.append(_forward(stack, shape, wanted, lines, best.get(stack)))
    if rows:
        yield from _table(
            "shape", "format", "stack", "load, s", "T(1, 2, 4, 8, 16, 32), ms", "of bandwidth",
            "8k, ms", "prefill, tokens/s", "launches, waits, kernels of T(1)",
        )  # fmt: skip
        yield from rows


def _forward(stack: str, shape: str, wanted: str, lines: Found, best: float | None) -> str:
    load = next((line for line in lines if line["kind"] == "LoadTime"), None)
    rounds = [line for line in lines if line["kind"] == "TimedRounds"]
    fills = [line for line in lines if line["kind"] == "TimedPrefill"]
    times, share, asked = "", "", ""
    if rounds:
        seconds, work = rounds[0]["seconds"], rounds[0]["work"]
        times = " ".join(f"{1e3 * spent:.2f}" for spent in seconds.values())
        if load and best:
            share = f"{load['read'] / seconds['1'] / best:.2f}"
        first = next(iter(work.values()), None)
        asked = f"{first['launches']}, {first['waits']}, {first['runs']}" if first else ""
    later = " ".join(f"{1e3 * line['seconds']['1']:.2f}" for line in rounds[1:])
    prefills = " ".join(f"{line['tokens'] / line['seconds']:.0f}" for line in fills)
    loaded = f"{load['seconds']:.1f}" if load else ""
    return _row(shape, wanted, stack, loaded, times, share, later, prefills, asked)


def _kernels(found: Found) -> Iterator[str]:
    """The costliest kernels of plain decoding and of a prompt."""
    lines = []
    for line in found:
        if line["kind"] == "TimedRounds" and line["work"].get("1"):
            lines.append((line, f"1 row behind {line['context']}", line["work"]["1"]))
        elif line["kind"] == "TimedPrefill":
            lines.append((line, f"prompt of {line['tokens']}", line["work"]))
    if lines:
        yield from _table("shape", "format", "stack", "of", "kernels: runs, ms")
    for line, what, work in lines:
        costly = [
            f"{name[:48]}: {each['runs']}, {1e3 * each['seconds']:.2f}"
            for name, each in work["kernels"].items()
            if each["seconds"]
        ]
        yield _row(line["shape"], line["format"], line["stack"], what, "; ".join(costly[:6]))


def _setups(found: Found) -> Iterator[str]:
    lines = [line for line in found if line["kind"] == "setup"]
    if lines:
        yield from _table(
            "set-up", "stack", "plain/s", "tokens/s", "speed-up", "over the CPU", "planned/s",
            "on the card", "overlap", "first token, of plain", "of serial speculation", "exact",
        )  # fmt: skip
    alone = {
        line["stack"]: line["plain_tokens_per_s"]
        for line in lines
        if line["setup"] == "on the CPU alone"
    }
    for line in lines:
        cpu, first = alone.get(line["stack"]), line.get("ttft_ms")
        overlap = line.get("overlap")
        yield _row(
            f"{line['kind_of']}: {line['setup']}",
            line["stack"],
            f"{line['plain_tokens_per_s']:.1f}",
            f"{line['tokens_per_s']:.1f}",
            f"{line['speedup']:.2f}",
            f"{line['tokens_per_s'] / cpu:.2f}" if cpu else "",
            f"{line['predicted_tokens_per_s']:.1f}",
            line["plan"].get("layers_on_gpu", ""),
            "" if overlap is None else f"{overlap:.2f}",
            f"{first / line['plain_ttft_ms']:.2f}" if first else "",
            f"{first / serial:.2f}" if first and (serial := line.get("serial_ttft_ms")) else "",
            "yes" if line["exact"] else "NO",
        )


def _wrong(found: Found) -> Iterator[str]:
    """What was not as it should be."""
    for line in found:
        if line["kind"] in ("failed", "left out"):
            rest = {key: value for key, value in line.items() if key not in ("step", "kind")}
            yield f"- {line['step']}, {line['kind']}: {json.dumps(rest)[:600]}"
        elif line["kind"] == "placement" and not line["exact"]:
            yield f"- {line['step']}: {line['placement']} writes another text"
        elif line["kind"] == "logits" and not line["within"]:
            yield f"- {line['step']}: {line['format']} logits are {max(line['apart']):.1e} apart"


def _tests(found: Found) -> Iterator[str]:
    for line in found:
        if line["kind"] == "test" and line["outcome"] == "failed":
            yield f"- {line['test']}\n\n```\n{line['why'][-1500:]}\n```"


def _is(line: dict[str, Any], step: str, kind: str) -> bool:
    return bool(line["step"] == step and line["kind"] == kind)


def _table(*heads: str) -> Iterator[str]:
    yield _row(*heads)
    yield _row(*("---" for _ in heads))


def _row(*cells: object) -> str:
    return "| " + " | ".join(str(cell) for cell in cells) + " |"

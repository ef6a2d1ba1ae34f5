"""`duotail bench quality`: what each weight format costs in perplexity."""

from __future__ import annotations

import argparse
import json
import sys
from pathlib import Path

from engine.bench.passages import read_passages
from engine.bench.quality import Quality, measure_quality
from engine.cli.exit_code import ExitCode
from engine.cli.options import one_or_more
from engine.columns import left, right
from engine.commands import WeightFormat
from engine.hub.local import resolve_model
from engine.language import listed, number, tr, tr_count
from engine.loading.inspected_model import own_model
from engine.model.local_model import LocalModel

FORMATS = (WeightFormat.F32, WeightFormat.BF16, WeightFormat.Q8, WeightFormat.Q4)
WINDOW = 512


def add_parser(kinds: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    """Declare the sub-command."""
    parser = kinds.add_parser(
        "quality", help=tr("measure the perplexity of a text in every weight format")
    )
    parser.add_argument(
        "--model", metavar="NAME|PATH", help=tr("the target model (default: the starter model)")
    )
    parser.add_argument(
        "--text",
        type=Path,
        required=True,
        metavar="FILE",
        help=tr("the text to measure: plain text, or messages in .jsonl"),
    )
    parser.add_argument(
        "--formats",
        type=_formats,
        default=FORMATS,
        metavar="F,F",
        help=tr("weight formats to measure (default: all)"),
    )
    parser.add_argument(
        "--limit", type=one_or_more, metavar="N", help=tr("use only the first N passages")
    )
    parser.add_argument(
        "--threads", type=one_or_more, metavar="N", help=tr("number of CPU threads")
    )
    parser.add_argument("--json", action="store_true", help=tr("print one JSON object on stdout"))
    parser.set_defaults(run=run)


def run(arguments: argparse.Namespace) -> ExitCode:
    """Measure and print."""
    model = LocalModel.inspect(resolve_model(arguments.model))
    config, weights, _ = own_model(model, WeightFormat.F32)
    window = min(WINDOW, config.max_positions)
    passages = read_passages(arguments.text, model.tokenizer(), model.template(), window)
    passages = passages[: arguments.limit]
    measured = dict(
        measure_quality(config, weights, arguments.formats, passages, arguments.threads)
    )
    rows = {str(fmt): _row(quality, measured) for fmt, quality in measured.items()}
    tokens = sum(len(passage) - 1 for passage in passages)
    if arguments.json:
        sys.stdout.write(json.dumps({"tokens": tokens, "formats": rows}) + "\n")
        return ExitCode.DONE
    sys.stdout.write(_table(rows) + tr_count("{n} token", "{n} tokens", tokens) + "\n")
    return ExitCode.DONE


def _table(rows: dict[str, dict[str, float | None]]) -> str:
    shares = ("vs_f32", "vs_bf16", "weights_only_vs_f32", "activations_cost")
    head = [
        tr("perplexity"),
        tr("to f32"),
        tr("to bf16"),
        tr("weights alone"),
        tr("activations"),
    ]
    lines = [left(tr("format"), 8) + "".join(right(name, 15) for name in head)]
    for name, row in rows.items():
        cells = [row[share] for share in shares]
        values = [number(row["perplexity"] or 0, ".4f")]
        values += ["-" if cell is None else number(cell, "+.3%") for cell in cells]
        lines.append(left(name, 8) + "".join(right(value, 15) for value in values))
    return "\n".join(lines) + "\n"


def _row(quality: Quality, measured: dict[WeightFormat, Quality]) -> dict[str, float | None]:
    """Shares are what is lost: 0.01 is a perplexity one percent higher."""

    def against(own: float | None, fmt: WeightFormat) -> float | None:
        base = measured.get(fmt)
        return None if base is None or own is None else own / base.perplexity - 1

    return {
        "perplexity": quality.perplexity,
        "vs_f32": against(quality.perplexity, WeightFormat.F32),
        "vs_bf16": against(quality.perplexity, WeightFormat.BF16),
        "weights_only": quality.weights_only,
        "weights_only_vs_f32": against(quality.weights_only, WeightFormat.F32),
        "activations_cost": quality.activations_cost,
    }


def _formats(text: str) -> tuple[WeightFormat, ...]:
    known = [str(fmt) for fmt in FORMATS]
    chosen = text.split(",")
    if not set(chosen) <= set(known):
        raise argparse.ArgumentTypeError(
            tr("{text!r} is not among {names}").format(text=text, names=listed(known))
        )
    return tuple(WeightFormat(name) for name in dict.fromkeys(chosen))

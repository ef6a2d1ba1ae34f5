"""`duotail bench decode|verify|prefill`: what forwards cost, on a model or on a published shape."""

from __future__ import annotations

import argparse
import json
import sys

from engine.bench.forward import decoder_for, time_forwards, time_prefill
from engine.bench.shapes import RandomWeights, shape
from engine.cli.exit_code import ExitCode
from engine.cli.options import one_or_more
from engine.commands import WeightFormat
from engine.errors import Absent
from engine.hub.local import ModelFolder, resolve_model
from engine.model.decoder import Decoder
from engine.model.weights import SafetensorsFolder

VERIFY_ROWS = (1, 2, 4, 5, 8, 16)


def add_parsers(kinds: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    """Declare the sub-commands."""
    for name, run, words in (
        ("decode", run_decode, "plain decoding, one token after the other"),
        ("verify", run_verify, "a forward over n tokens, as verification takes"),
        ("prefill", run_prefill, "processing a prompt"),
    ):
        parser = kinds.add_parser(name, help=words)
        which = parser.add_mutually_exclusive_group()
        which.add_argument("--model", metavar="NAME|PATH", help="default: the bundled one")
        which.add_argument("--shape", metavar="S", help="random weights of a published shape")
        parser.add_argument(
            "--format",
            default=WeightFormat.AUTO,
            choices=[str(weights) for weights in WeightFormat],
            help="how the weights are held",
        )
        parser.add_argument("--threads", type=one_or_more, metavar="N")
        parser.add_argument("--runs", type=one_or_more, default=20, metavar="N")
        parser.add_argument("--peer", choices=["llama.cpp"], help="measure it in the same run")
        parser.add_argument("--json", action="store_true", help="one JSON object on stdout")
        parser.set_defaults(run=run)


def run_decode(arguments: argparse.Namespace) -> ExitCode:
    """Plain decoding speed."""
    times = time_forwards(_decoder(arguments), (1,), runs=arguments.runs)
    return _report(arguments, {"tokens_per_s": times.tokens_per_s, "runs": times.runs})


def run_verify(arguments: argparse.Namespace) -> ExitCode:
    """Milliseconds of a forward by its rows."""
    times = time_forwards(_decoder(arguments), VERIFY_ROWS, runs=arguments.runs)
    milliseconds = [1e3 * times.seconds[n] for n in VERIFY_ROWS]
    return _report(arguments, {"n": list(VERIFY_ROWS), "ms": milliseconds})


def run_prefill(arguments: argparse.Namespace) -> ExitCode:
    """Prompt tokens per second."""
    speed = time_prefill(_decoder(arguments), runs=min(arguments.runs, 5))
    return _report(arguments, {"tokens_per_s": speed})


def _decoder(arguments: argparse.Namespace) -> Decoder:
    if arguments.peer is not None:
        raise Absent("The comparison with llama.cpp is not there yet.", "Leave out --peer for now.")
    wish = WeightFormat(arguments.format)
    if arguments.shape is not None:
        config = shape(arguments.shape)
        # A published shape stands for a model of 4 bits unless told otherwise.
        wish = WeightFormat.Q4 if wish is WeightFormat.AUTO else wish
        return decoder_for(config, RandomWeights(config), wish, arguments.threads)
    folder = ModelFolder.inspect(resolve_model(arguments.model))
    weights = SafetensorsFolder.open(folder.path)
    return decoder_for(folder.config, weights, wish, arguments.threads)


def _report(arguments: argparse.Namespace, result: dict[str, object]) -> ExitCode:
    if arguments.json:
        sys.stdout.write(json.dumps(result) + "\n")
        return ExitCode.DONE
    for name, value in result.items():
        numbers = value if isinstance(value, list) else [value]
        sys.stdout.write(f"{name:<14}" + "".join(f"{number:>10.5g}" for number in numbers) + "\n")
    return ExitCode.DONE

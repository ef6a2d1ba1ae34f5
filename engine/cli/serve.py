"""`duotail serve`: the OpenAI-compatible server without a window."""

from __future__ import annotations

import argparse
import json
import os
import signal
import sys
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import replace
from pathlib import Path
from queue import Empty, SimpleQueue
from time import strftime
from types import FrameType

from engine.cli.exit_code import ExitCode
from engine.cli.loaded import wait_for_model
from engine.cli.options import add_model_options, load_command, parsed
from engine.commands import DraftChoice, Load
from engine.events import Event
from engine.hub.starter import user_data
from engine.language import tr
from engine.server.dispatcher import Dispatcher
from engine.server.events import RequestStatus
from engine.server.models import Catalogue
from engine.server.origins import is_origin
from engine.server.running import announced
from engine.server.settings import (
    TOKEN_VARIABLE,
    ServerSettings,
    is_loopback,
    kept_token,
    new_token,
    token_in,
)
from engine.service.engine import Engine

_PORTS = range(2**16)
_LONGEST_PATH = 100
_WAKE_S = 1.0
"""Seconds after which the main thread looks up: a process that was stopped (Ctrl+Z) may get its
signal in another thread, and handlers run in this one only."""


class _SignalCame(BaseException):
    """The server is to end; raised in the main thread, wherever that is."""


def add_parser(commands: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    """Declare the sub-command."""
    parser = commands.add_parser(
        "serve", help=tr("let other programs use the model, through an OpenAI-compatible server")
    )
    add_model_options(parser)
    parser.add_argument(
        "--host",
        default="127.0.0.1",
        metavar="ADDRESS",
        help=tr(
            "listen on this address (default: 127.0.0.1, programs on this computer only); "
            "0.0.0.0 lets others in the network in"
        ),
    )
    parser.add_argument(
        "--port",
        type=_port,
        default=0,
        metavar="N",
        help=tr("listen on this port (default: 0, any free one)"),
    )
    _add_token_options(parser)
    parser.add_argument(
        "--allow-origin",
        action="append",
        type=_origin,
        default=[],
        metavar="ORIGIN",
        help=tr("let web pages of this origin ask, as https://chat.example; may be repeated"),
    )
    parser.add_argument(
        "--allow-host",
        action="append",
        default=[],
        metavar="NAME",
        help=tr("accept requests for this host name too; may be repeated"),
    )
    parser.add_argument(
        "--tls-certificate",
        type=Path,
        metavar="FILE",
        help=tr("encrypt, with the certificate in this PEM file"),
    )
    parser.add_argument(
        "--tls-key",
        type=Path,
        metavar="FILE",
        help=tr("private key of the certificate, if it is in a file of its own"),
    )
    parser.add_argument(
        "--load-on-request",
        action="store_true",
        help=tr("let requests load the other models that Duotail knows on this computer, by name"),
    )
    parser.add_argument(
        "--embedding-model",
        type=Path,
        metavar="PATH",
        help=tr(
            "answer requests for embeddings with this model of the BERT family, a GGUF file or a "
            "folder; otherwise the loaded model does"
        ),
    )
    parser.set_defaults(run=run)


def _add_token_options(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "--alias",
        action="append",
        default=[],
        metavar="NAME",
        help=tr("a further name by which requests may mean the model; may be repeated"),
    )
    parser.add_argument(
        "--strict-model",
        action="store_true",
        help=tr(
            "refuse requests for a model that is not here; otherwise, on this computer's own "
            "address, the loaded model answers them"
        ),
    )
    token = parser.add_mutually_exclusive_group()
    token.add_argument(
        "--token",
        metavar="TOKEN",
        help=tr(
            "ask clients for this access token (default: DUOTAIL_TOKEN, or one that Duotail makes "
            "and keeps); other users may see it in the list of processes"
        ),
    )
    token.add_argument(
        "--token-file",
        type=Path,
        metavar="FILE",
        help=tr("ask clients for the access token in this file"),
    )
    token.add_argument(
        "--new-token",
        action="store_true",
        help=tr("make a new access token in place of the one in the keyring"),
    )
    token.add_argument(
        "--no-token",
        action="store_true",
        help=tr("ask for no access token; only on this computer's own address"),
    )


def run(arguments: argparse.Namespace) -> ExitCode:
    """Serve until SIGINT or SIGTERM."""
    from engine.encoder.encoder import load_encoder
    from engine.server.server import Server  # its libraries are no other command's

    load = load_command(arguments)
    settings, kept = _settings(arguments)
    settings.check()
    encoder = None if arguments.embedding_model is None else load_encoder(arguments.embedding_model)
    events: SimpleQueue[Event] = SimpleQueue()
    dispatcher = Dispatcher()
    with suppress(_SignalCame), _until_signal():
        server = Server(
            dispatcher,
            settings,
            _ignore if arguments.json else _show,
            _catalogue(load) if arguments.load_on_request else None,
            encoder,
        )
        engine = Engine(
            lambda event: None if dispatcher.take(event) else events.put(event),
            sample_devices=False,
        )
        try:
            dispatcher.open(engine.submit)
            engine.submit(load)
            name = wait_for_model(events).model_name
            with announced(arguments.data or user_data(), server.url, name):
                if arguments.json:
                    _write(json.dumps({"url": server.url, "token": settings.token}))
                else:
                    _write("\n".join(_lines(name, server.url, settings, kept=kept)))
                while True:
                    with suppress(Empty):
                        events.get(timeout=_WAKE_S)
        finally:
            server.close()
            engine.close()
    return ExitCode.DONE


def _catalogue(first: Load) -> Catalogue:
    """Return the models that requests may load, all of them as the first one is but for its draft.

    The first one is among them: another may have taken its place.
    """
    from engine.hub.shelf.shelf import ModelShelf
    from engine.server.catalogue import shelf_catalogue

    def command(model: Path) -> Load:
        same = model == first.model
        return first if same else replace(first, model=model, draft=DraftChoice.AUTO)

    return shelf_catalogue(ModelShelf(user_data()), command, lambda: (first.model,))


def _settings(arguments: argparse.Namespace) -> tuple[ServerSettings, bool]:
    """Return the settings that the options describe, and whether the keyring holds the token."""
    token: str | None = arguments.token
    kept, data = True, user_data()
    if arguments.token_file is not None:
        token = token_in(arguments.token_file)
    elif token is None and not arguments.no_token:
        told = None if arguments.new_token else os.environ.get(TOKEN_VARIABLE)
        if told is not None:
            token = told
        else:
            token, kept = new_token(data) if arguments.new_token else kept_token(data)
    settings = ServerSettings(
        host=arguments.host,
        port=arguments.port,
        token=token,
        origins=frozenset(arguments.allow_origin),
        hosts=frozenset(arguments.allow_host),
        certificate=arguments.tls_certificate,
        key=arguments.tls_key,
        aliases=frozenset(arguments.alias),
        any_name=is_loopback(arguments.host) and not arguments.strict_model,
    )
    return settings, kept


@contextmanager
def _until_signal() -> Iterator[None]:
    """Raise `_SignalCame` in the block at the first SIGINT or SIGTERM; ignore those that follow."""
    signals = (signal.SIGINT, signal.SIGTERM)

    def handle(_signal: int, _frame: FrameType | None) -> None:
        for each in signals:
            signal.signal(each, signal.SIG_IGN)
        raise _SignalCame

    before = {each: signal.signal(each, handle) for each in signals}
    try:
        yield
    finally:
        for each, handler in before.items():
            signal.signal(each, handler)


def _lines(name: str, url: str, settings: ServerSettings, *, kept: bool) -> Iterator[str]:
    yield tr("Serving {model} at {url}").format(model=name, url=url)
    yield tr("Base URL for Anthropic's clients: {url}").format(url=url.removesuffix("/v1"))
    if settings.token is None:
        yield tr("No access token: every program on this computer can use it.")
    else:
        yield tr("Access token: {token}").format(token=settings.token)
    if not kept:
        yield tr(
            "Duotail cannot use a keyring on this computer: the access token is new each time."
        )
    if not settings.local and settings.certificate is None:
        yield tr(
            "Not encrypted: others in the network can read what is sent, the access token too."
        )
    yield tr("Press Ctrl+C to stop.")


def _show(request: RequestStatus) -> None:
    """Write a line about a request that ended; nothing of its content."""
    if request.state.over:
        words = tr("{time} {address} {path}: {outcome}, status {status}, {tokens} tokens")
        outcome = f"{request.state} ({request.reason})" if request.reason else str(request.state)
        line = words.format(
            time=strftime("%H:%M:%S"),
            address=request.address,
            path=request.path[:_LONGEST_PATH],
            outcome=outcome,
            status=request.code,
            tokens=request.tokens,
        )
        sys.stderr.write("".join(filter(str.isprintable, line)) + "\n")


def _ignore(_request: RequestStatus) -> None:
    """Show nothing."""


def _write(text: str) -> None:
    sys.stdout.write(f"{text}\n")
    sys.stdout.flush()


def _origin(text: str) -> str:
    if not is_origin(text):
        wrong = tr("{text!r} is not an origin like https://chat.example:8080")
        raise argparse.ArgumentTypeError(wrong.format(text=text))
    return text


def _port(text: str) -> int:
    wrong = tr("{text!r} is not a port from 0 to 65535")
    return parsed(text, int, lambda number: number in _PORTS, wrong)

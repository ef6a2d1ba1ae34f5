"""Servers in words: their programs, what a test found, where what is written goes."""

from __future__ import annotations

from engine.commands import ServerKind
from engine.language import later, listed, sentences, tr, tr_count
from engine.remote.address import ServerAddress
from engine.remote.catalogue import Catalogue
from engine.remote.servers import RemoteServer

_NAMES = {
    ServerKind.DUOTAIL: "Duotail",
    ServerKind.VLLM: "vLLM",
    ServerKind.RAY: later("Ray Serve"),
    ServerKind.SGLANG: "SGLang",
    ServerKind.LLAMA_SERVER: "llama-server",
    ServerKind.LM_STUDIO: "LM Studio",
    ServerKind.OLLAMA: "Ollama",
    ServerKind.OTHER: later("OpenAI-compatible server"),
}
_NAMED = 3


def kind_name(kind: ServerKind) -> str:
    """Return the name of a program that serves models."""
    return tr(_NAMES[kind])


def server_name(server: RemoteServer) -> str:
    """Return a server as it is listed: "192.168.1.5:8000 · vLLM"."""
    return f"{server.address.host}  \N{MIDDLE DOT}  {kind_name(server.kind)}"


def found_words(catalogue: Catalogue) -> str:
    """Return what a test found."""
    names = [model.name for model in catalogue.models]
    shown = listed(names[:_NAMED]) + ("…" if len(names) > _NAMED else "")
    count = tr_count("{n} model", "{n} models", len(names))
    return f"{kind_name(catalogue.kind)}, {count}: {shown}"


def route_words(address: ServerAddress) -> str:
    """Return where what is written goes, and who may read it on the way."""
    if address.local:
        return tr("This server runs on this computer: nothing leaves it.")
    where = tr("{host} is not this computer.").format(host=address.host)
    if address.encrypted:
        return where
    return sentences(
        where,
        tr("The connection is not encrypted: others in the network can read what is sent, the "
           "key too."),
    )  # fmt: skip


def consent_words(server: RemoteServer) -> tuple[str, str]:
    """Return the question before anything is sent to a server for the first time."""
    host = server.address.host
    question = tr("Send what you write to {host}?").format(host=host)
    remark = tr(
        "With this model, your messages leave this computer: the whole conversation, the system "
        "prompt and what you attach. Whoever runs {host} can read and keep them."
    ).format(host=host)
    if not server.address.encrypted:
        plain = tr("The connection is not encrypted: others in the network can read along too.")
        remark = f"{remark}\n\n{plain}"
    return question, remark

"""The server itself: sockets, clients that go away, encryption."""

from __future__ import annotations

import asyncio
import datetime as dt
import http.client
import ipaddress
import json
import logging
import socket
import ssl
import threading
from collections.abc import Iterator
from contextlib import closing, suppress
from pathlib import Path
from time import perf_counter
from typing import Any

import httpx2
import pytest
from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from engine_session import PATIENCE
from household import Household
from played_engine import PlayedEngine
from uvicorn.protocols.http.flow_control import FlowControl

from engine.errors import UserFixable
from engine.events import Finished, FinishReason
from engine.server import connection
from engine.server.dispatcher import Dispatcher
from engine.server.events import RequestStatus
from engine.server.server import Server
from engine.server.settings import ServerSettings
from tests.stopwatch import least

TOKEN = "a-token-of-the-tests"
CHAT = "/v1/chat/completions"
HELLO: dict[str, Any] = {"messages": [{"role": "user", "content": "Tell me about the sea."}]}
LONG = HELLO | {
    "max_tokens": 10_000, "temperature": 100, "top_k": 0, "top_p": 1, "min_p": 0, "seed": 1
}  # fmt: skip
"""At random among all tokens: it ends with the context."""


@pytest.fixture
def server(household: Household) -> Iterator[Server]:
    with closing(household.server(token=TOKEN)) as server:
        yield server


def connect(server: Server) -> http.client.HTTPConnection:
    return http.client.HTTPConnection("127.0.0.1", server.port, timeout=240)


def post(
    client: http.client.HTTPConnection, body: object, token: str = TOKEN
) -> http.client.HTTPResponse:
    headers = {"authorization": f"Bearer {token}", "content-type": "application/json"}
    client.request("POST", CHAT, json.dumps(body), headers)
    return client.getresponse()


def test_requests_come_over_the_network(server: Server) -> None:
    assert server.url == f"http://127.0.0.1:{server.port}/v1"
    with closing(connect(server)) as client:
        for _ in range(2):  # the connection is kept
            response = post(client, HELLO | {"max_tokens": 3})
            assert response.status == 200
            assert json.load(response)["usage"]["completion_tokens"] == 3
        assert response.getheader("server") is None
        response = post(client, HELLO, token="wrong")
        assert (response.status, response.getheader("www-authenticate")) == (401, "Bearer")


def test_a_stream_comes_as_it_is_written(household: Household, server: Server) -> None:
    household.hold_until_stopped()
    with closing(connect(server)) as client:
        response = post(client, LONG | {"stream": True})
        assert response.getheader("content-type") == "text/event-stream; charset=utf-8"
        assert response.readline().startswith(b'data: {"id":"chatcmpl-')
        assert not any(isinstance(event, Finished) for event in household.all)


@pytest.mark.parametrize("stream", [True, False])
def test_when_the_client_is_gone_the_answer_stops_within_300_ms(
    household: Household, server: Server, stream: bool
) -> None:
    def stopping() -> float:
        household.forget()
        household.hold_until_stopped()
        with closing(connect(server)) as client:
            if stream:
                post(client, LONG | {"stream": True}).readline()
            else:
                headers = {"authorization": f"Bearer {TOKEN}", "content-type": "application/json"}
                client.request("POST", CHAT, json.dumps(LONG), headers)
            household.wait_for_text()
        left = perf_counter()
        finished = household.wait(Finished)
        assert finished.reason is FinishReason.STOPPED
        return float(finished.at - left)

    assert least(stopping, 0.3) < 0.3


def test_the_end_of_the_server_ends_its_answers(household: Household) -> None:
    server = household.server(token=None)
    household.hold_until_stopped()
    with closing(connect(server)) as client:
        post(client, LONG | {"stream": True}).readline()
        server.close()
        assert household.wait(Finished).reason is FinishReason.STOPPED
        with pytest.raises(OSError, match="refused"):
            socket.create_connection(("127.0.0.1", server.port))


def test_connections_that_ask_for_nothing_keep_nobody_out(household: Household) -> None:
    with closing(
        household.server(token=None, max_connections=connection.MOST_SILENT + 6)
    ) as server:
        opened = [socket.create_connection(("127.0.0.1", server.port)) for _ in range(80)]
        try:
            assert httpx2.get(server.url + "/models", timeout=240).status_code == 200
            opened[0].settimeout(60)
            with suppress(ConnectionResetError):
                assert opened[0].recv(1) == b""  # the oldest had to go
        finally:
            for each in opened:
                each.close()


def test_there_are_not_more_connections_than_allowed(household: Household) -> None:
    with closing(household.server(token=None, max_connections=2)) as server:
        idle = [socket.create_connection(("127.0.0.1", server.port)) for _ in range(3)]
        with closing(connect(server)) as client:
            client.request("GET", "/health")
            assert client.getresponse().status == 503
        for each in idle:
            each.close()


@pytest.mark.parametrize(
    "sent", [b"", b"GET /health HT", b"GET /health HTTP/1.1\r\nHost: 127.0.0.1\r\n"]
)
def test_a_connection_without_a_whole_head_is_closed(
    server: Server, monkeypatch: pytest.MonkeyPatch, sent: bytes
) -> None:
    monkeypatch.setattr(connection, "HEAD_S", 0.05)
    with socket.create_connection(("127.0.0.1", server.port), timeout=240) as idle:
        idle.sendall(sent)
        with suppress(ConnectionResetError):
            assert idle.recv(100) == b""


def test_a_kept_connection_is_closed_in_the_middle_of_a_head(
    server: Server, monkeypatch: pytest.MonkeyPatch
) -> None:
    whole = b"GET /health HTTP/1.1\r\nHost: 127.0.0.1\r\n\r\n"
    with socket.create_connection(("127.0.0.1", server.port), timeout=240) as kept:
        for _ in range(2):
            kept.sendall(whole)
            received = b""
            while not received.endswith(b'"ok"}'):
                received += kept.recv(1000)
        monkeypatch.setattr(connection, "HEAD_S", 0.05)
        kept.sendall(b"GET /hea")
        with suppress(ConnectionResetError):
            assert kept.recv(1000) == b""


def test_a_client_that_takes_nothing_is_given_up(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(connection, "STALLED_S", 0.05)
    engine = PlayedEngine(tokens=["x" * 100_000] * 200)
    ended = threading.Event()

    def follow(request: RequestStatus) -> None:
        if request.state.over:
            ended.set()

    headers = {"authorization": f"Bearer {TOKEN}", "content-type": "application/json"}
    with (
        closing(Server(engine.dispatcher, ServerSettings(token=TOKEN), follow)) as server,
        closing(connect(server)) as client,
    ):
        client.request("POST", CHAT, json.dumps(HELLO | {"stream": True}), headers)
        assert ended.wait(PATIENCE)


def test_a_client_that_reads_on_is_not_given_up() -> None:
    async def cancelled() -> tuple[bool, bool]:
        client: Any = connection.ClientConnection.__new__(connection.ClientConnection)
        client.transport, client.loop = asyncio.Transport(), asyncio.get_running_loop()
        client.flow = FlowControl(client.transport)
        client.pause_writing()
        waits = client._stalled
        before = waits.cancelled()
        client.resume_writing()
        return before, waits.cancelled()

    assert asyncio.run(cancelled()) == (False, True)


def test_what_is_no_http_is_refused_and_not_logged(
    server: Server, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.WARNING)
    for noise in (b"private words\r\n\r\n", b"GET / HTTP/1.1\r\nHost: " + b"x" * 100_000):
        with socket.create_connection(("127.0.0.1", server.port), timeout=240) as raw:
            raw.sendall(noise)
            assert raw.recv(100).startswith(b"HTTP/1.1 400")
    assert caplog.text == ""


def test_a_port_in_use_is_told_in_words(server: Server) -> None:
    with pytest.raises(UserFixable, match=f"already uses port {server.port}"):
        Server(Dispatcher(), ServerSettings(port=server.port))


@pytest.mark.parametrize("host", ["no.such.host.invalid", "203.0.113.9", "x" * 300, "\udcff"])
def test_a_host_that_is_none_is_told_in_words(host: str, monkeypatch: pytest.MonkeyPatch) -> None:
    def nowhere(*_: object, **__: object) -> Any:
        raise socket.gaierror("no network in tests")

    if host.startswith("no."):
        monkeypatch.setattr(socket, "getaddrinfo", nowhere)
    with pytest.raises(UserFixable, match="cannot listen"):
        Server(Dispatcher(), ServerSettings(host=host, token="x" * 20))


@pytest.fixture(scope="module")
def certificate(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Path]:
    """A certificate for 127.0.0.1, and its key."""
    key = ec.generate_private_key(ec.SECP256R1())
    name = x509.Name([x509.NameAttribute(x509.NameOID.COMMON_NAME, "Duotail's tests")])
    now = dt.datetime.now(dt.UTC)
    address = x509.SubjectAlternativeName([x509.IPAddress(ipaddress.ip_address("127.0.0.1"))])
    made = (
        x509.CertificateBuilder(name, name, key.public_key(), x509.random_serial_number())
        .not_valid_before(now - dt.timedelta(days=1))
        .not_valid_after(now + dt.timedelta(days=1))
        .add_extension(address, critical=False)
        .sign(key, hashes.SHA256())
    )
    folder = tmp_path_factory.mktemp("tls")
    files = folder / "certificate.pem", folder / "key.pem"
    files[0].write_bytes(made.public_bytes(serialization.Encoding.PEM))
    files[1].write_bytes(
        key.private_bytes(
            serialization.Encoding.PEM,
            serialization.PrivateFormat.PKCS8,
            serialization.NoEncryption(),
        )
    )
    return files


def test_certificate_files_encrypt(household: Household, certificate: tuple[Path, Path]) -> None:
    file, key = certificate
    with closing(household.server(token=TOKEN, certificate=file, key=key)) as server:
        assert server.url.startswith("https://127.0.0.1:")
        trusting = ssl.create_default_context(cafile=str(file))
        secure = http.client.HTTPSConnection(
            "127.0.0.1", server.port, timeout=240, context=trusting
        )
        with closing(secure) as client:
            assert post(client, HELLO | {"max_tokens": 3}).status == 200


def test_a_certificate_that_is_none_is_told_in_words(
    certificate: tuple[Path, Path], tmp_path: Path
) -> None:
    broken = tmp_path / "broken.pem"
    broken.write_text("-----BEGIN CERTIFICATE-----\nnonsense\n")
    for file, key in ((broken, None), (certificate[0], broken), (certificate[0], None)):
        with pytest.raises(UserFixable, match="cannot be used"):
            Server(Dispatcher(), ServerSettings(certificate=file, key=key))

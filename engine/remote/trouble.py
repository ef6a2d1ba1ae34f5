"""What may go wrong between here and a server, in plain words."""

from __future__ import annotations

import ssl
from collections.abc import Iterator, Mapping
from http import HTTPStatus

from engine.errors import UserFixable
from engine.language import sentences, tr, tr_count

_LONGEST_QUOTE = 300
_LONGEST_WAIT_S = 24 * 3600


def of_status(
    status: int, host: str, said: str | None = None, headers: Mapping[str, str] | None = None
) -> UserFixable:
    """Return a response that is no success, in words.

    Args:
        status: of the response.
        host: the server.
        said: the server's own message, where it gave one.
        headers: of the response.
    """
    headers = headers or {}
    cause, remedy = _words(status, host, headers)
    quoted = tr("The server says: {message}").format(message=_quote(said)) if said else ""
    return UserFixable(sentences(cause, quoted), remedy, f"HTTP {status}\n{said or ''}".strip())


def _words(status: int, host: str, headers: Mapping[str, str]) -> tuple[str, str]:
    if status in (HTTPStatus.UNAUTHORIZED, HTTPStatus.FORBIDDEN):
        return (
            tr("{host} does not accept the key.").format(host=host),
            tr("Check its key (model menu, “Servers”)."),
        )
    if status == HTTPStatus.NOT_FOUND:
        return (
            tr("{host} does not know this address or this model.").format(host=host),
            tr("Test the server again (model menu, “Servers”): its models may have changed."),
        )
    if status in (HTTPStatus.REQUEST_TIMEOUT, HTTPStatus.GATEWAY_TIMEOUT):
        return (
            tr("{host} took too long to answer.").format(host=host),
            tr("Try again; its model may still be loading."),
        )
    if status == HTTPStatus.REQUEST_ENTITY_TOO_LARGE:
        return (
            tr("The conversation is too long for {host}.").format(host=host),
            tr("Begin a new chat, or attach less."),
        )
    if status == HTTPStatus.TOO_MANY_REQUESTS:
        return tr("{host} is busy and takes no more requests.").format(host=host), _wait(headers)
    if HTTPStatus.MULTIPLE_CHOICES <= status < HTTPStatus.BAD_REQUEST:
        place = _quote(headers.get("location", ""))
        return (
            tr("{host} sends Duotail to another address: {place}").format(host=host, place=place),
            tr("Nothing was sent there. If you trust it, enter that address for this server."),
        )
    if status >= HTTPStatus.INTERNAL_SERVER_ERROR:
        return (
            tr("Something went wrong on {host} (error {status}).").format(host=host, status=status),
            tr("Try again; if it happens once more, look at the log of the server."),
        )
    return (
        tr("{host} refused the request (error {status}).").format(host=host, status=status),
        tr("Other sampling settings, or a shorter conversation, may be accepted."),
    )


def _wait(headers: Mapping[str, str]) -> str:
    told = headers.get("retry-after", "").strip()
    if told.isascii() and told.isdigit() and 0 < int(told[:9]) <= _LONGEST_WAIT_S:
        return tr_count("Try again in {n} second.", "Try again in {n} seconds.", int(told[:9]))
    return tr("Try again in a moment.")


def of_transport(error: Exception, host: str) -> UserFixable:
    """Return a connection that failed, in words."""
    from httpx2 import ConnectError, ConnectTimeout  # whoever raised one has imported it

    details = f"{type(error).__name__}: {error}"
    if any(isinstance(each, ssl.SSLError) for each in _chain(error)):
        return UserFixable(
            tr("The encrypted connection to {host} failed.").format(host=host),
            tr(
                "Its certificate is unknown or out of date, or it expects http. For a certificate "
                "of your own, start Duotail with SSL_CERT_FILE."
            ),
            details,
        )
    if isinstance(error, ConnectError | ConnectTimeout):
        return UserFixable(
            tr("{host} cannot be reached.").format(host=host),
            tr("Check that the server is running, its address, and your network."),
            details,
        )
    return broken(host, details)


def broken(host: str, details: str = "") -> UserFixable:
    """Return a connection that ended before the answer did."""
    return UserFixable(
        tr("The connection to {host} broke before the answer was complete.").format(host=host),
        tr("What came is kept; “Continue” goes on with it."),
        details,
    )


def nothing(host: str) -> UserFixable:
    """Return a stream that ended in order, with nothing in it."""
    return UserFixable(
        tr("{host} sent no answer and did not say why.").format(host=host),
        tr("The conversation may be too long for its model; the log of the server tells more."),
    )


def silent(host: str, *, begun: bool) -> UserFixable:
    """Return a server that keeps the connection and sends nothing."""
    if begun:
        return UserFixable(
            tr("{host} stopped sending in the middle of the answer.").format(host=host),
            tr("What came is kept; “Continue” goes on with it."),
        )
    return UserFixable(
        tr("{host} has not begun to answer.").format(host=host),
        tr("Try again later; its model may still be loading, or it is busy."),
    )


def not_a_server(host: str, details: str = "") -> UserFixable:
    """Return a response that is not what an OpenAI-compatible server sends."""
    return UserFixable(
        tr("{host} sent something that is no answer of a model.").format(host=host),
        tr("Check the address; most servers want it to end with /v1."),
        details,
    )


def endless(host: str) -> UserFixable:
    """Return an answer that was too long to go on with."""
    return UserFixable(
        tr("{host} sent far more than an answer, so Duotail hung up.").format(host=host),
        tr("What came is kept. Set a maximum length in the sampling settings."),
    )


def server_error(host: str, said: str) -> UserFixable:
    """Return an error that a server told of in the middle of an answer."""
    quoted = tr("The server says: {message}").format(message=_quote(said)) if said else ""
    return UserFixable(
        sentences(tr("Something went wrong on {host}.").format(host=host), quoted),
        tr("What came is kept; “Continue” goes on with it."),
        said,
    )


def _quote(said: str) -> str:
    """Return a message of somebody else in one short line."""
    line = " ".join("".join(sign if sign.isprintable() else " " for sign in said).split())
    return line if len(line) <= _LONGEST_QUOTE else line[:_LONGEST_QUOTE] + "…"


def _chain(error: BaseException | None) -> Iterator[BaseException]:
    while error is not None:
        yield error
        error = error.__cause__ or error.__context__

"""Errors of the hub's library, the network and the disk are told apart; secrets stay unsaid."""

from __future__ import annotations

import errno
import socket
from pathlib import Path

import pytest

from engine.hub.remote.faults import (
    Fault,
    HubError,
    Trouble,
    cleaned,
    of_status,
    refuse,
    trouble_of,
)


@pytest.mark.parametrize(
    ("status", "headers", "fault"),
    [
        (401, {}, Fault.SIGN_IN),
        (401, {"X-Error-Code": "RepoNotFound"}, Fault.SIGN_IN),
        (401, {"X-Error-Code": "GatedRepo"}, Fault.GATED),
        (403, {"x-error-code": "GatedRepo"}, Fault.GATED),
        (403, {"X-Error-Message": "you are not in the authorized list"}, Fault.GATED),
        (403, {}, Fault.FORBIDDEN),
        (404, {"X-Error-Code": "EntryNotFound"}, Fault.NOT_FOUND),
        (410, {}, Fault.NOT_FOUND),
        (407, {}, Fault.OFFLINE),
        (408, {}, Fault.TIMEOUT),
        (429, {}, Fault.BUSY),
        (500, {}, Fault.SERVER),
        (503, {}, Fault.SERVER),
        (418, {}, Fault.UNREADABLE),
    ],
)
def test_a_refusal_by_its_number(status: int, headers: dict[str, str], fault: Fault) -> None:
    assert of_status(status, headers).fault is fault


@pytest.mark.parametrize(
    ("headers", "wait"),
    [
        ({"Retry-After": "7"}, 7.0),
        ({"retry-after": " 0 "}, 1.0),
        ({"Retry-After": "99999999"}, 3600.0),
        ({"Retry-After": "9" * 400}, 60.0),
        ({"Retry-After": "-5"}, 60.0),
        ({"Retry-After": "soon"}, 60.0),
        ({"Retry-After": "Thu, 01 Jan 1970 00:16:45 GMT"}, 5.0),
        ({"Retry-After": "Thu, 01 Jan 1970 00:00:45 GMT"}, 1.0),
        ({"RateLimit": '"api";r=0;t=55'}, 55.0),
        ({}, 60.0),
    ],
)
def test_how_long_a_busy_server_wants_to_be_left_alone(
    headers: dict[str, str], wait: float
) -> None:
    assert of_status(429, headers, now=1000.0).retry_s == wait


def test_a_server_in_trouble_may_say_when_to_come_back() -> None:
    assert of_status(503, {"Retry-After": "30"}).retry_s == 30
    assert of_status(502, {}).retry_s is None


@pytest.mark.parametrize(
    ("error", "fault"),
    [
        (socket.gaierror(-2, "Name or service not known"), Fault.OFFLINE),
        (ConnectionRefusedError(errno.ECONNREFUSED, "refused"), Fault.OFFLINE),
        (OSError(errno.ENETUNREACH, "unreachable"), Fault.OFFLINE),
        (TimeoutError("slow"), Fault.TIMEOUT),
        (ConnectionResetError(errno.ECONNRESET, "reset"), Fault.DROPPED),
        (OSError(errno.ENOSPC, "full", "/a"), Fault.DISK_FULL),
        (PermissionError(errno.EACCES, "denied", "/b"), Fault.DISK),
        (OSError(errno.EROFS, "read-only", "/b"), Fault.DISK),
        (OSError("without a number"), Fault.CRASHED),
        (ValueError("what?"), Fault.CRASHED),
        (refuse(Fault.UNSAFE, "x"), Fault.UNSAFE),
    ],
)
def test_errors_of_this_computer(error: BaseException, fault: Fault) -> None:
    assert trouble_of(error).fault is fault


def test_a_full_disk_names_its_folder() -> None:
    assert trouble_of(OSError(errno.ENOSPC, "full", "/models")).path == "/models"


def test_the_cause_of_a_wrapped_error_counts() -> None:
    error = LookupError("not in the cache")
    error.__cause__ = ConnectionResetError(errno.ECONNRESET, "reset")
    assert trouble_of(error).fault is Fault.DROPPED


def test_errors_of_the_library_itself() -> None:
    """Real ones: this is the only test that imports it into this process."""
    import httpx2
    from huggingface_hub.errors import GatedRepoError, HfHubHTTPError, OfflineModeIsEnabled

    request = httpx2.Request("GET", "http://hub/api/models/a/b")
    response = httpx2.Response(429, headers={"Retry-After": "3"}, request=request)
    busy = trouble_of(HfHubHTTPError("too many", response=response))
    assert (busy.fault, busy.retry_s) == (Fault.BUSY, 3.0)
    gated = httpx2.Response(403, headers={"X-Error-Code": "GatedRepo"}, request=request)
    assert trouble_of(GatedRepoError("no", response=gated)).fault is Fault.GATED
    assert trouble_of(OfflineModeIsEnabled("HF_HUB_OFFLINE")).fault is Fault.OFFLINE
    assert trouble_of(httpx2.ConnectTimeout("slow")).fault is Fault.OFFLINE
    assert trouble_of(httpx2.ReadTimeout("slow")).fault is Fault.TIMEOUT
    assert trouble_of(httpx2.ReadError("cut")).fault is Fault.DROPPED
    assert trouble_of(httpx2.RemoteProtocolError("cut")).fault is Fault.DROPPED
    assert trouble_of(httpx2.ProxyError("no")).fault is Fault.OFFLINE
    assert trouble_of(httpx2.DecodingError("gzip")).fault is Fault.UNREADABLE
    assert trouble_of(httpx2.TooManyRedirects("round")).fault is Fault.UNREADABLE


@pytest.mark.parametrize(
    "said",
    [
        "token hf_abcdefghijklmnop was refused",
        "authorization: Bearer hf_abcdefghijklmnop",
        "Bearer abcdefghijklmnop",
        "proxy http://me:abcdefghijklmnop@proxy:8080 failed",
        "GET https://cdn/x?X-Amz-Signature=abcdefghijklmnop&y=1",
    ],
)
def test_details_hold_no_secrets(said: str) -> None:
    assert "abcdefghijklmnop" not in cleaned(said)
    assert "abcdefghijklmnop" not in trouble_of(RuntimeError(said)).details
    assert "abcdefghijklmnop" not in of_status(403, {"X-Error-Message": said}).details
    assert "abcdefghijklmnop" not in refuse(Fault.SERVER, said).trouble.details


def test_details_are_short_and_on_one_line(tmp_path: Path) -> None:
    said = cleaned(f"{tmp_path}\n\r\t" + "long " * 1000)
    assert len(said) <= 600
    assert said.isprintable()


def test_a_trouble_is_its_own_message() -> None:
    error = HubError(Trouble(Fault.TIMEOUT))
    assert str(error) == "timeout"
    assert trouble_of(error) == Trouble(Fault.TIMEOUT)

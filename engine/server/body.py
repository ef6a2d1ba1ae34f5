"""Bodies of requests as their headers describe them: compressed, in other encodings."""

from __future__ import annotations

import zlib
from collections.abc import Mapping

from engine.server.api_error import ApiError, bad_request

MOST_BYTES = 16 * 2**20
"""Longest body once it is unpacked."""
_GZIP = 16 + zlib.MAX_WBITS
_WINDOWS = {"gzip": _GZIP, "x-gzip": _GZIP, "deflate": zlib.MAX_WBITS}
_CHARSETS = frozenset({"utf-8", "utf8", "us-ascii", "ascii", "utf-16", "utf-32", "iso-8859-1"})


def decoded(body: bytes, headers: Mapping[str, str]) -> bytes:
    """Return a body in UTF-8, without the mark that some programs put before it.

    Raises:
        ApiError: it is packed or written in a way that nobody here reads, or longer than it may be.
    """
    packing = headers.get("content-encoding", "identity").strip().lower()
    if packing not in ("", "identity"):
        body = _unpacked(body, packing)
    charset = headers.get("content-type", "").lower().partition("charset=")[2]
    charset = charset.partition(";")[0].strip(" \"'") or "utf-8"
    if charset not in _CHARSETS:
        raise ApiError(415, "The body should be JSON in UTF-8.")
    try:
        text = body.decode("utf-8-sig" if charset in ("utf-8", "utf8") else charset)
    except ValueError:
        raise bad_request("The body is not valid JSON in UTF-8.") from None
    return text.encode("utf-8", "surrogatepass")


def _unpacked(body: bytes, packing: str) -> bytes:
    if packing not in _WINDOWS:
        raise ApiError(415, "The body may be packed as gzip or deflate.")
    reader = zlib.decompressobj(_WINDOWS[packing])
    try:
        found = reader.decompress(body, MOST_BYTES)
    except zlib.error:
        raise bad_request("The body is not packed as its headers say.") from None
    if reader.unconsumed_tail or not reader.eof:
        raise ApiError(413, "The body is too long, or not whole.", code="request_too_large")
    return found

"""Requests that are not answered, in words for their sender.

These texts are part of the protocol and English, like the names of its members.
"""

from __future__ import annotations

from engine.events import Failed, FailureKind

_KINDS = {
    401: "authentication_error",
    403: "permission_error",
    404: "not_found_error",
    413: "request_too_large",
    429: "rate_limit_error",
    500: "api_error",
    503: "overloaded_error",
}
"""Names of statuses; all others are the sender's mistake."""


class HttpRefusal(Exception):
    """A request that is refused.

    Attributes:
        status: of HTTP.
        message: what is wrong, for a person.
        code: the same for a program; None: the status says it all.
        param: the member of the request that is wrong.
        retry_after: seconds after which another try may succeed.
    """

    def __init__(
        self,
        status: int,
        message: str,
        *,
        code: str | None = None,
        param: str | None = None,
        retry_after: int | None = None,
    ) -> None:
        super().__init__(message)
        self.status, self.message = status, message
        self.code, self.param, self.retry_after = code, param, retry_after

    @property
    def kind(self) -> str:
        """The name that OpenAI's and Anthropic's clients know the status by."""
        return _KINDS.get(self.status, "invalid_request_error")

    @property
    def headers(self) -> dict[str, str]:
        """Headers of the response."""
        headers = {} if self.retry_after is None else {"retry-after": str(self.retry_after)}
        return headers | ({"www-authenticate": "Bearer"} if self.status == 401 else {})

    def as_openai(self) -> dict[str, object]:
        """Return the body in OpenAI's shape."""
        told = {"message": self.message, "type": self.kind, "param": self.param, "code": self.code}
        return {"error": told}

    def as_anthropic(self) -> dict[str, object]:
        """Return the body in Anthropic's shape."""
        return {"type": "error", "error": {"type": self.kind, "message": self.message}}


def bad(message: str, param: str | None = None) -> HttpRefusal:
    """Return the refusal of a request that cannot be understood."""
    return HttpRefusal(400, message, param=param)


def no_model() -> HttpRefusal:
    """Return the refusal while no model is loaded."""
    return HttpRefusal(503, "No model is loaded.", code="no_model", retry_after=5)


def of_failure(failure: Failed) -> HttpRefusal:
    """Return an engine's failure; never its details, which may quote the request."""
    words = f"{failure.cause} {failure.remedy}"
    if failure.kind is FailureKind.CONTEXT_FULL:
        return HttpRefusal(400, words, code="context_length_exceeded", param="messages")
    if failure.bug:
        return HttpRefusal(500, words)
    if failure.kind in (FailureKind.OUT_OF_MEMORY, FailureKind.ABSENT):
        return HttpRefusal(503, words)
    return HttpRefusal(400, words)

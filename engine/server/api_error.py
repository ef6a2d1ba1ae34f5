"""Errors of the API, in words for the sender of a request.

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


class ApiError(Exception):
    """The error that a request is answered with.

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

    def to_openai(self) -> dict[str, object]:
        """Return the body in OpenAI's shape."""
        told = {"message": self.message, "type": self.kind, "param": self.param, "code": self.code}
        return {"error": told}

    def to_ollama(self) -> dict[str, object]:
        """Return the body in Ollama's shape."""
        return {"error": self.message}

    def to_anthropic(self) -> dict[str, object]:
        """Return the body in Anthropic's shape."""
        return {"type": "error", "error": {"type": self.kind, "message": self.message}}


def bad_request(message: str, param: str | None = None) -> ApiError:
    """Return the error of a request that cannot be understood."""
    return ApiError(400, message, param=param)


def too_many_tokens(tokens: int, most: int, param: str) -> ApiError:
    """Return the error of a text that is longer than its model reads; clients look for the words.

    Args:
        tokens: that it has.
        most: that it may have.
        param: the member of the request.
    """
    words = f"This model's maximum context length is {most} tokens. The text has {tokens}."
    return ApiError(400, words, code="context_length_exceeded", param=param)


def no_model() -> ApiError:
    """Return the error while no model is loaded."""
    return ApiError(503, "No model is loaded.", code="no_model", retry_after=5)


def from_failure(failure: Failed) -> ApiError:
    """Return an engine's failure; never its details, which may quote the request."""
    words = f"{failure.cause} {failure.remedy}"
    if failure.kind is FailureKind.CONTEXT_FULL:
        if failure.available is not None:  # clients look for these words
            words = f"This model's maximum context length is {failure.available} tokens. {words}"
        return ApiError(400, words, code="context_length_exceeded", param="messages")
    if failure.bug:
        return ApiError(500, words)
    if failure.kind in (FailureKind.OUT_OF_MEMORY, FailureKind.ABSENT, FailureKind.NEEDS_PYTORCH):
        return ApiError(503, words)
    return ApiError(400, words)

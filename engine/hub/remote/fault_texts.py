"""What went wrong with the hub, in plain words, and what to do about it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from math import ceil

from engine.errors import UserFixable
from engine.hub.messages import Access, Describe, Fetch, Question, Refused, Search
from engine.hub.remote.addresses import USUAL_ENDPOINT, endpoint_of
from engine.hub.remote.faults import BY_CHOICE, Fault, Trouble
from engine.language import later, sentences, tr, tr_count

_TRY_AGAIN_S = {
    Fault.TIMEOUT: 10.0,
    Fault.DROPPED: 5.0,
    Fault.BUSY: 60.0,
    Fault.SERVER: 30.0,
}
"""Seconds to wait where time alone may help, and the server does not say how long."""
_TOKENS = "/settings/tokens"
_CHECK_NETWORK = later(
    "Check your network connection, and the proxy in the settings if you use one."
)
_TEXTS: Mapping[Fault, tuple[str, str]] = {
    Fault.OFFLINE: (later("{server} cannot be reached."), _CHECK_NETWORK),
    Fault.TIMEOUT: (later("{server} does not answer."), _CHECK_NETWORK),
    Fault.DROPPED: (
        later("The connection to {server} was lost."),
        later("Try again; what is already downloaded is kept."),
    ),
    Fault.SERVER: (
        later("{server} has an internal error."),
        later("Try again in a few minutes."),
    ),
    Fault.SIGN_IN: (
        later("{server} asks you to sign in."),
        later("Enter an access token; you get one at {address}."),
    ),
    Fault.GATED: (
        later("{repo} has terms that must be accepted first."),
        later("Accept them at {address}, and enter your access token in Duotail."),
    ),
    Fault.FORBIDDEN: (
        later("{server} denies access to {repo}."),
        later("Its page may say why: {address}."),
    ),
    Fault.NOT_FOUND: (
        later("{repo} does not exist, or no longer exists."),
        later("Check the name, or look for another model."),
    ),
    Fault.DISK_FULL: (
        later("The disk is full."),
        later("Free some space, or choose another folder for models in the settings."),
    ),
    Fault.DISK: (
        later("The folder for models cannot be written."),
        later("Check its permissions, or choose another folder in the settings."),
    ),
    Fault.WRONG_BYTES: (
        later(
            "The files downloaded from {repo} differ from those the hub lists; they were deleted."
        ),
        later(
            "Download it again. If it happens again, a proxy or virus scanner may be "
            "changing the files."
        ),
    ),
    Fault.CHANGED: (
        later("{repo} has changed since it was listed."),
        later("Open its page here again and download it again."),
    ),
    Fault.UNSAFE: (
        later("{repo} has files that could do harm on this computer."),
        later("Choose another model."),
    ),
    Fault.UNREADABLE: (
        later("{server} responds, but is not a model hub."),
        later(
            "Check the hub's address in the settings. On a public network, first sign in to the "
            "network itself."
        ),
    ),
    Fault.CRASHED: (
        later("Duotail failed while contacting {server}."),
        later("Try again. If it happens again, copy the details into a report."),
    ),
    Fault.BUSY: (
        later("{server} received too many requests from here."),
        later("An access token raises the limit."),
    ),
}
"""Cause and remedy of each fault, where nothing more is known; see `_special`."""


@dataclass(frozen=True, slots=True)
class About:
    """The repository and hub that a failure is about.

    Attributes:
        repo: "owner/name"; "" where it is about no single one.
        signed_in: whether a token was sent.
    """

    repo: str = ""
    endpoint: str = USUAL_ENDPOINT
    signed_in: bool = False

    @property
    def page(self) -> str:
        """The repository's address, where its terms are accepted."""
        return f"{self.endpoint}/{self.repo}" if self.repo else self.endpoint

    @property
    def server(self) -> str:
        """The hub's address without its scheme."""
        return self.endpoint.split("://", maxsplit=1)[-1]


def shown_endpoint(access: Access) -> str:
    """Return the hub's address as it is shown, with no password in it."""
    scheme, _, rest = endpoint_of(access).partition("://")
    return f"{scheme}://{rest.split('@')[-1]}"


def about(asked: Question) -> About:
    """Return what a question is about."""
    match asked:
        case Describe():
            repo = asked.repo
        case Fetch():
            repo = asked.job.repo
        case Search():
            repo = ""
    return About(repo, shown_endpoint(asked.access), bool(asked.access.token))


def refused(asked: Question, trouble: Trouble, what: About | None = None) -> Refused:
    """Return the answer to a question that cannot be answered."""
    error = explained(trouble, what or about(asked))
    usual = _TRY_AGAIN_S.get(trouble.fault)
    return Refused(
        asked,
        trouble.fault.value,
        error.cause,
        error.remedy,
        error.details,
        usual if trouble.retry_s is None else trouble.retry_s,
    )


def explained(trouble: Trouble, what: About) -> UserFixable:
    """Return a failure in words for people."""
    texts = _special(trouble, what) or _TEXTS[trouble.fault]
    names = {
        "server": what.server,
        "repo": what.repo or what.server,
        "address": what.endpoint + _TOKENS if trouble.fault is Fault.SIGN_IN else what.page,
        "path": trouble.path,
    }
    cause, remedy = (tr(text).format(**names) for text in texts)
    if trouble.fault is Fault.BUSY:
        wait = _try_again_in(trouble.retry_s or _TRY_AGAIN_S[Fault.BUSY])
        remedy = sentences(wait, "" if what.signed_in else remedy)
    return UserFixable(cause, remedy, trouble.details)


def _special(trouble: Trouble, what: About) -> tuple[str, str] | None:
    """Return cause and remedy where more is known than the fault."""
    match trouble.fault:
        case Fault.OFFLINE if BY_CHOICE in trouble.details:
            return (
                later("The environment variable HF_HUB_OFFLINE blocks requests to {server}."),
                later("Start Duotail without it to search for and download models."),
            )
        case Fault.GATED if what.signed_in:
            return (
                later("{repo} has terms that your account has not accepted yet."),
                later("Accept them at {address}, then try again."),
            )
        case Fault.SIGN_IN if what.signed_in:
            return (
                later("{server} does not accept your access token."),
                later("Create a new one at {address} and enter it in Duotail."),
            )
        case Fault.SIGN_IN if what.repo:
            return (
                later("There is no {repo}, or only signed-in users see it."),
                later(
                    "Check the name. If it is right, enter an access token; you get one at"
                    " {address}."
                ),
            )
        case Fault.DISK if trouble.path:
            return later("{path} cannot be written."), _TEXTS[Fault.DISK][1]
        case _:
            return None


def _try_again_in(wait_s: float) -> str:
    wait = ceil(wait_s)
    if wait <= 90:
        return tr_count("Try again in {n} second.", "Try again in {n} seconds.", wait)
    return tr_count("Try again in {n} minute.", "Try again in {n} minutes.", ceil(wait / 60))

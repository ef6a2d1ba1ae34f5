"""What went wrong with the hub, in plain words, and what to do about it."""

from __future__ import annotations

from dataclasses import dataclass
from math import ceil

from engine.errors import UserFixable
from engine.hub.messages import Describe, Fetch, Question, Refused, Search
from engine.hub.remote.addresses import USUAL_ENDPOINT, endpoint_of
from engine.hub.remote.faults import BY_CHOICE, Fault, Trouble
from engine.hub.remote.listing import Access
from engine.language import later, sentences, tr, tr_count

_TRY_AGAIN_S = {
    Fault.TIMEOUT: 10.0,
    Fault.DROPPED: 5.0,
    Fault.BUSY: 60.0,
    Fault.SERVER: 30.0,
}
"""Where time alone may help, and the server does not say how long it takes."""
_TOKENS = "/settings/tokens"
_CHECK_NETWORK = later(
    "Check your network connection, and the proxy in the settings if you use one."
)
_TRY_LATER = later("Try again in a few minutes.")


@dataclass(frozen=True, slots=True)
class About:
    """What it is about.

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
        """The hub's address without what nobody reads."""
        return self.endpoint.split("://", maxsplit=1)[-1]


def shown_endpoint(access: Access) -> str:
    """The hub's address as it is shown: no password in it."""
    scheme, _, rest = endpoint_of(access).partition("://")
    return f"{scheme}://{rest.split('@')[-1]}"


def about(asked: Question) -> About:
    """What a question is about."""
    match asked:
        case Describe():
            repo = asked.repo
        case Fetch():
            repo = asked.job.repo
        case Search():
            repo = ""
    return About(repo, shown_endpoint(asked.access), bool(asked.access.token))


def refused(asked: Question, trouble: Trouble, what: About | None = None) -> Refused:
    """The answer to a question that cannot be answered."""
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
    """The failure for people."""
    cause, remedy = _words(trouble, what)
    return UserFixable(cause, remedy, trouble.details)


def _words(trouble: Trouble, what: About) -> tuple[str, str]:
    match trouble.fault:
        case Fault.SIGN_IN | Fault.GATED | Fault.FORBIDDEN | Fault.NOT_FOUND:
            return _not_let_in(trouble.fault, what)
        case Fault.DISK_FULL | Fault.DISK:
            return _disk(trouble)
        case Fault.WRONG_BYTES | Fault.CHANGED | Fault.UNSAFE | Fault.UNREADABLE:
            return _not_trusted(trouble, what)
        case Fault.CRASHED:
            return (
                tr("Something went wrong in Duotail itself while it asked {server}.").format(
                    server=what.server
                ),
                tr("Try again. If it happens again, copy the details into a report."),
            )
        case _:
            return _network(trouble, what)


def _network(trouble: Trouble, what: About) -> tuple[str, str]:
    server = what.server
    match trouble.fault:
        case Fault.OFFLINE if BY_CHOICE in trouble.details:
            return (
                tr("The environment variable HF_HUB_OFFLINE forbids to ask {server}.").format(
                    server=server
                ),
                tr("Start Duotail without it to find and fetch models."),
            )
        case Fault.OFFLINE:
            return tr("{server} cannot be reached.").format(server=server), tr(_CHECK_NETWORK)
        case Fault.TIMEOUT:
            return tr("{server} does not answer.").format(server=server), tr(_CHECK_NETWORK)
        case Fault.DROPPED:
            return (
                tr("The connection to {server} broke off.").format(server=server),
                tr("Try again; what has been fetched is kept."),
            )
        case Fault.BUSY:
            return (
                tr("{server} was asked too often from here.").format(server=server),
                sentences(
                    _try_again_in(trouble.retry_s or _TRY_AGAIN_S[Fault.BUSY]),
                    "" if what.signed_in else tr("With an access token it answers more often."),
                ),
            )
        case _:
            return (
                tr("{server} has a problem of its own.").format(server=server),
                tr(_TRY_LATER),
            )


def _try_again_in(wait_s: float) -> str:
    wait = ceil(wait_s)
    if wait <= 90:
        return tr_count("Try again in {n} second.", "Try again in {n} seconds.", wait)
    return tr_count("Try again in {n} minute.", "Try again in {n} minutes.", ceil(wait / 60))


def _not_let_in(fault: Fault, what: About) -> tuple[str, str]:
    name = what.repo or what.server
    match fault:
        case Fault.GATED if what.signed_in:
            return (
                tr("{repo} has terms that your account has not accepted yet.").format(repo=name),
                tr("Accept them at {address}, then try again.").format(address=what.page),
            )
        case Fault.GATED:
            return (
                tr("{repo} has terms that must be accepted first.").format(repo=name),
                tr("Accept them at {address}, and enter your access token in Duotail.").format(
                    address=what.page
                ),
            )
        case Fault.SIGN_IN if what.signed_in:
            return (
                tr("{server} does not accept your access token.").format(server=what.server),
                tr("Make a new one at {address} and enter it in Duotail.").format(
                    address=what.endpoint + _TOKENS
                ),
            )
        case Fault.SIGN_IN if what.repo:
            return (
                tr("There is no {repo}, or only signed-in users see it.").format(repo=name),
                tr(
                    "Check the name. If it is right, enter an access token; you get one at"
                    " {address}."
                ).format(address=what.endpoint + _TOKENS),
            )
        case Fault.SIGN_IN:
            return (
                tr("{server} wants to know who asks.").format(server=what.server),
                tr("Enter an access token; you get one at {address}.").format(
                    address=what.endpoint + _TOKENS
                ),
            )
        case Fault.FORBIDDEN:
            return (
                tr("{server} does not let you have {repo}.").format(server=what.server, repo=name),
                tr("Its page may say why: {address}.").format(address=what.page),
            )
        case _:
            return (
                tr("{repo} is not there, or not any more.").format(repo=name),
                tr("Check the name, or look for another model."),
            )


def _disk(trouble: Trouble) -> tuple[str, str]:
    if trouble.fault is Fault.DISK_FULL:
        return (
            tr("The disk is full."),
            tr("Free some space, or choose another folder for models in the settings."),
        )
    if not trouble.path:
        return (
            tr("The folder for models cannot be written."),
            tr("Check its permissions, or choose another folder in the settings."),
        )
    return (
        tr("{path} cannot be written.").format(path=trouble.path),
        tr("Check its permissions, or choose another folder in the settings."),
    )


def _not_trusted(trouble: Trouble, what: About) -> tuple[str, str]:
    name = what.repo or what.server
    match trouble.fault:
        case Fault.WRONG_BYTES:
            return (
                tr("What came of {repo} is not what the hub lists; it was deleted.").format(
                    repo=name
                ),
                tr("Fetch it again. If it happens again, something between here and there changes"
                   " files: a proxy, or a virus scanner."),
            )  # fmt: skip
        case Fault.CHANGED:
            return (
                tr("{repo} has changed since it was listed.").format(repo=name),
                tr("Open its page here again, and fetch it anew."),
            )
        case Fault.UNSAFE:
            return (
                tr("{repo} has files that could do harm on this computer.").format(repo=name),
                tr("Choose another model."),
            )
        case _:
            return (
                tr("{server} answers, but not as a model hub does.").format(server=what.server),
                tr(
                    "Check the hub's address in the settings. On a public network, first sign in"
                    " to the network itself."
                ),
            )

"""Every fault has words of its own, which name the model and what to do."""

from __future__ import annotations

import pytest

from engine.hub.messages import Access, Describe, Fetch, Job, Packaging, Search
from engine.hub.remote.fault_texts import About, explained, refused
from engine.hub.remote.faults import Fault, Trouble

REPO = "someone/some-model"
TOKEN = "hf_verysecrettoken"
ABOUT = About(REPO)
OF_A_MODEL = {
    Fault.GATED, Fault.NOT_FOUND, Fault.FORBIDDEN, Fault.WRONG_BYTES, Fault.CHANGED, Fault.UNSAFE,
}  # fmt: skip


@pytest.mark.parametrize("fault", list(Fault))
def test_every_fault_is_said_in_words(fault: Fault) -> None:
    error = explained(Trouble(fault, "HTTP 000"), ABOUT)
    for text in (error.cause, error.remedy):
        assert text.endswith(".")
        assert "{" not in text
        assert fault.value not in {"timeout", "gated"} or fault.value not in text
    assert error.details == "HTTP 000"
    if fault in OF_A_MODEL:
        assert REPO in error.cause


def test_no_two_faults_say_the_same() -> None:
    said = [explained(Trouble(fault), ABOUT).cause for fault in Fault]
    assert len(set(said)) == len(said)


def test_terms_are_accepted_on_the_page_of_the_model() -> None:
    for signed_in in (False, True):
        error = explained(Trouble(Fault.GATED), About(REPO, signed_in=signed_in))
        assert f"https://huggingface.co/{REPO}" in error.remedy
        assert ("access token" in error.remedy) is not signed_in


def test_a_token_that_is_refused_is_another_thing_than_none() -> None:
    without = explained(Trouble(Fault.SIGN_IN), ABOUT)
    refused_one = explained(Trouble(Fault.SIGN_IN), About(REPO, signed_in=True))
    assert REPO in without.cause
    assert "does not accept" in refused_one.cause
    assert "/settings/tokens" in without.remedy
    assert "/settings/tokens" in refused_one.remedy


def test_another_hub_is_named_by_its_own_address() -> None:
    asked = Describe(Access(endpoint="https://me:secret@hub.example/", token=TOKEN), REPO)
    answer = refused(asked, Trouble(Fault.OFFLINE))
    assert answer.cause == "hub.example cannot be reached."
    assert "secret" not in answer.cause + answer.remedy + answer.details


def test_offline_by_choice_is_said() -> None:
    said = explained(Trouble(Fault.OFFLINE, "OfflineModeIsEnabled: Cannot reach"), ABOUT)
    assert "HF_HUB_OFFLINE" in said.cause


@pytest.mark.parametrize(
    ("wait", "words"),
    [
        (1.0, "Try again in 1 second."),
        (7.2, "Try again in 8 seconds."),
        (None, "Try again in 60 seconds."),
        (600.0, "Try again in 10 minutes."),
    ],
)
def test_a_busy_hub_says_when_to_come_back(wait: float | None, words: str) -> None:
    assert words in explained(Trouble(Fault.BUSY, retry_s=wait), ABOUT).remedy


def test_what_time_may_heal_is_tried_again_and_what_not_is_not() -> None:
    asked = Search(Access(), "words")
    waits = {fault: refused(asked, Trouble(fault)).retry_s for fault in Fault}
    assert {fault for fault, wait in waits.items() if wait is not None} == {
        Fault.TIMEOUT,
        Fault.DROPPED,
        Fault.BUSY,
        Fault.SERVER,
    }
    assert refused(asked, Trouble(Fault.BUSY, retry_s=3.0)).retry_s == 3.0


def test_a_full_disk_is_no_matter_of_the_model() -> None:
    job = Job("1", REPO, "0" * 40, "Q4_K_M", Packaging.GGUF, ())
    answer = refused(Fetch(Access(token=TOKEN), job), Trouble(Fault.DISK, path="/models"))
    assert answer.cause == "/models cannot be written."
    assert answer.kind == "disk"
    assert TOKEN not in repr(answer)

"""The parts of a long text that matter to a question."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

from desk import Desk
from fake_engine import Script
from hypothesis import given
from hypothesis import strategies as st

from app.session.attachments import Attachment
from app.session.passages import GAP, extract, parts_of, passages_of

FILLER = [f"Paragraph {n} tells of the weather and of nothing else at all. " * 8 for n in range(60)]
NEEDLE = "The warranty of the dishwasher ends on the third of May."
OpenDesk = Callable[[Script | None], Desk]


def test_what_is_asked_for_is_found_in_its_place() -> None:
    text = "\n\n".join([*FILLER[:40], NEEDLE, *FILLER[40:]])
    found = extract(text, "When does the warranty of my dishwasher end?", 3000)
    assert NEEDLE in found.text
    assert len(found.text) <= 3000
    assert 0 < found.taken < found.passages
    assert GAP.strip() in found.text


def test_scripts_without_blanks_are_searched_too() -> None:
    text = "\n\n".join(
        [
            *FILLER,
            "\u6d17\u7897\u673a\u7684\u4fdd\u4fee\u671f\u5230\u4e94\u6708\u4e09\u65e5\u3002",
            *FILLER,
        ]
    )
    assert (
        "\u4e94\u6708"
        in extract(text, "\u4fdd\u4fee\u671f\u5230\u4ec0\u4e48\u65f6\u5019\uff1f", 3000).text
    )


@given(st.text(max_size=4000), st.text(max_size=60), st.integers(10, 5000))
def test_nothing_is_made_up_and_the_limit_holds(text: str, question: str, most: int) -> None:
    found = extract(text, question, most)
    assert len(found.text) <= max(most, 10) + len(GAP)
    for piece in found.text.split(GAP.strip()):
        for line in piece.strip().split("\n"):
            assert line in text
    assert "".join("".join(passages_of(text)).split()) == "".join(text.split())


def test_what_is_asked_for_takes_the_room_of_other_files() -> None:
    """It was shared alike: of a project's files each gave as much, whatever was asked."""
    manual = [
        f"{NEEDLE} Part {n} of the dishwasher is under warranty, too. " * 9 for n in range(20)
    ]
    files = [Attachment("other.txt", "\n\n".join(FILLER), 1), Attachment("small.txt", "Whole.", 6)]
    files.insert(1, Attachment("manual.txt", "\n\n".join(manual), 1))
    other, asked, small = parts_of(files, "What of the warranty of my dishwasher?", 7000)
    assert small is files[2]
    assert asked.taken.endswith("of 20 passages)")
    assert 0 < len(other.text) < len(asked.text) / 3, "every file says something"
    assert len(other.text) + len(asked.text) <= 7000


def test_a_file_that_does_not_fit_goes_along_in_parts(open_desk: OpenDesk) -> None:
    script = Script()
    script.plan = replace(script.plan, context=1500, context_limit=1500)
    desk = open_desk(script)
    desk.ready()
    text = "\n\n".join([*FILLER[:40], NEEDLE, *FILLER[40:]])
    outgoing, card = desk.chat.outgoing, desk.chat.context_card
    outgoing._attach(None, Attachment("manual.txt", text, len(text)))
    desk.chat.composer.field.setPlainText("When does the warranty of my dishwasher end?")
    meter = desk.chat.composer.meter
    desk.bot.waitUntil(lambda: meter.fill is not None and meter.fill.used > 1500)
    desk.bot.waitUntil(lambda: outgoing._fill_is_current)
    desk.chat.composer.send()
    assert card.parts_button.isVisible()
    card.parts_button.click()
    desk.bot.waitUntil(lambda: "passages" in outgoing.attachments[0].name)
    assert NEEDLE in outgoing.attachments[0].text
    desk.bot.waitUntil(lambda: not card.isVisible())
    desk.chat.composer.send()
    desk.answered()
    assert "passages" in desk.session.messages[0].text

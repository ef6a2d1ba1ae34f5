"""Raw prompts in requests: texts or token ids, one or many."""

from __future__ import annotations

from engine.request import RawPrompt
from engine.server.members import Members, well_formed


def prompts(
    body: Members, name: str, *, most: int, special: bool = False, suffix: str | None = None
) -> list[RawPrompt]:
    """Return the prompts of a request: a text, a list of token ids, or a list of such.

    Args:
        body: of the request.
        name: of the member.
        most: how many there may be.
        special: whether control tokens in texts become their ids.
        suffix: text that follows what is to be written; only where all prompts are texts.

    Raises:
        ApiError: they are something else, or too many.
    """
    value = body.raw(name)
    many = isinstance(value, list) and bool(value) and isinstance(value[0], str | list)
    each = list(value) if many and isinstance(value, list) else [value]
    if len(each) > most:
        raise body.wrong(name, f"a list of at most {most} prompts")
    if suffix is not None and not all(isinstance(one, str) for one in each):
        raise body.wrong(name, "a text where there is a suffix")
    return [
        RawPrompt(ids=_ids(body, name, one))
        if isinstance(one, list)
        else RawPrompt(well_formed(one, name), control_tokens=special, suffix=suffix)
        for one in each
    ]


def _ids(body: Members, name: str, value: list[object]) -> tuple[int, ...]:
    found = tuple(one for one in value if type(one) is int and 0 <= one < 2**31)
    if not found or len(found) < len(value):
        raise body.wrong(name, "a text, a list of token ids, or a list of such")
    return found

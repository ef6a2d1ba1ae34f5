"""A model's licence as the hub knows it: a name for people, and where its terms are."""

from __future__ import annotations

from collections.abc import Collection
from urllib.parse import quote, urlsplit

from engine.hub.remote.answer import ServerObject

_TAG = "license:"
_OTHER = "other"
_FILES = ("LICENSE", "LICENSE.md", "LICENSE.txt", "LICENCE", "COPYING", "USE_POLICY.md")
_TERMS = {
    "apache-2.0": "https://www.apache.org/licenses/LICENSE-2.0",
    "mit": "https://opensource.org/license/mit",
    "bsd-3-clause": "https://opensource.org/license/bsd-3-clause",
    "cc-by-4.0": "https://creativecommons.org/licenses/by/4.0/",
    "cc-by-sa-4.0": "https://creativecommons.org/licenses/by-sa/4.0/",
    "cc-by-nc-4.0": "https://creativecommons.org/licenses/by-nc/4.0/",
    "cc0-1.0": "https://creativecommons.org/publicdomain/zero/1.0/",
    "gpl-3.0": "https://www.gnu.org/licenses/gpl-3.0.html",
    "agpl-3.0": "https://www.gnu.org/licenses/agpl-3.0.html",
    "gemma": "https://ai.google.dev/gemma/terms",
}
_LONGEST = 500


def licence_of(model: ServerObject) -> str | None:
    """Its name, as its card or its tags say."""
    card = model.member("cardData")
    tagged = (tag.removeprefix(_TAG) for tag in model.texts("tags") if tag.startswith(_TAG))
    said = next(iter(card.texts("license")), None) or next(tagged, None)
    named = card.text("license_name")
    name = named if named and said in (None, _OTHER) else said
    return name[:100] if name and name.isprintable() else None


def licence_link(model: ServerObject, page: str, files: Collection[str]) -> str | None:
    """Where its terms are.

    Args:
        model: what the hub says of it.
        page: the address of the repository.
        files: all paths in it.
    """
    said = model.member("cardData").text("license_link", _LONGEST)
    if said and _is_address(said):
        return said
    own = next((name for name in (said, *_FILES) if name in files), None)
    if own is not None:
        return f"{page}/blob/main/{quote(own)}"
    return _TERMS.get(licence_of(model) or "")


def _is_address(text: str) -> bool:
    try:
        split = urlsplit(text)
    except ValueError:
        return False
    usable = split.scheme in ("http", "https") and bool(split.hostname) and "@" not in split.netloc
    return usable and not set(text) & set(' "<>\\^`{|}')

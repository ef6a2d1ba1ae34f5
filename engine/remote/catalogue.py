"""Models that a server offers, and the program that serves them."""

from __future__ import annotations

from dataclasses import dataclass

from engine.commands import ServerKind

MOST_MODELS = 500
_LONGEST_NAME = 300
_OWNERS = {
    "duotail": ServerKind.DUOTAIL,
    "vllm": ServerKind.VLLM,
    "sglang": ServerKind.SGLANG,
    "llamacpp": ServerKind.LLAMA_SERVER,
    "organization_owner": ServerKind.LM_STUDIO,
    "library": ServerKind.OLLAMA,
}
"""Programs by what they write into `owned_by` of their models."""
_OWNED_BY_A_PUBLISHER = {"id", "object", "created", "owned_by"}
"""Members of a model in `transformers serve`, whose owner is an account that may have any name."""
_EMBEDDING = "text-embedding-"
"""Beginning of the names that LM Studio gives to models which cannot chat."""
_LARGEST_CONTEXT = 1 << 40


@dataclass(frozen=True, slots=True)
class RemoteModel:
    """A model on a server.

    Attributes:
        context: tokens that its context holds; None: the server does not say.
    """

    name: str
    context: int | None = None


@dataclass(frozen=True, slots=True)
class Catalogue:
    """Models of one server, in its order."""

    kind: ServerKind
    models: tuple[RemoteModel, ...]

    @classmethod
    def read(cls, body: object) -> Catalogue:
        """Return what a response to `/models` says; models without a name are left out.

        Raises:
            ValueError: it is no list of models.
        """
        data = body.get("data") if isinstance(body, dict) else None
        if data is None and isinstance(body, dict) and body.get("object") == "list":
            data = []  # Ollama without a model
        if not isinstance(data, list):
            raise ValueError("no list of models")
        cards = [card for card in data if isinstance(card, dict) and _named(card.get("id"))]
        kinds = (_kind(card) for card in cards)
        kind = next((each for each in kinds if each is not ServerKind.OTHER), ServerKind.OTHER)
        models = [
            RemoteModel(card["id"], _context(card))
            for card in cards
            if not card["id"].startswith(_EMBEDDING)
        ]
        return cls(kind, tuple(models[:MOST_MODELS]))


def _kind(card: dict[str, object]) -> ServerKind:
    metadata = card.get("metadata")
    if isinstance(metadata, dict) and "model_id" in metadata:  # Ray's owner is OpenAI's example
        return ServerKind.RAY
    # Ollama's have the same members, and a tag in each name.
    if card.keys() == _OWNED_BY_A_PUBLISHER and ":" not in str(card["id"]):
        return ServerKind.OTHER
    return _OWNERS.get(str(card.get("owned_by")), ServerKind.OTHER)


def _named(name: object) -> bool:
    return isinstance(name, str) and 0 < len(name) <= _LONGEST_NAME and name.isprintable()


def _context(card: dict[str, object]) -> int | None:
    """Return the context as vLLM and SGLang, Duotail, llama-server or Ray Serve tell it."""
    meta, metadata = (
        each if isinstance(each, dict) else {} for each in (card.get("meta"), card.get("metadata"))
    )
    told = (
        card.get("max_model_len"),
        card.get("context_length"),
        meta.get("n_ctx"),
        meta.get("n_ctx_train"),
        metadata.get("max_request_context_length"),
    )
    for each in told:
        if isinstance(each, int) and not isinstance(each, bool) and 0 < each < _LARGEST_CONTEXT:
            return each
    return None

"""Texts on models, wherever they are: one row or one line each."""

from __future__ import annotations

from PySide6.QtCore import QDateTime, QLocale

from app.models.badge import RowBadge, Tone
from app.models.row_model import ModelRow
from engine.hub.advice import Badge, DraftCandidate, Fit, Recommendation, RecommendedRole, Verdict
from engine.hub.messages import FoundRepository, Packaging, Variant
from engine.hub.shelf.kept_model import KeptModel, ModelOrigin
from engine.language import later, number, tr, tr_count
from engine.language.units import file_size, tokens_per_s

DOT = " \N{MIDDLE DOT} "

_BADGES = {
    Badge.GPU: (later("Fits the GPU"), Tone.GOOD),
    Badge.SPLIT: (later("GPU and CPU"), Tone.GOOD),
    Badge.CPU: (later("Runs on the CPU"), Tone.GOOD),
    Badge.TIGHT: (later("Tight"), Tone.FAIR),
    Badge.NO: (later("Too large"), Tone.BAD),
    Badge.UNKNOWN: (later("Fit unknown"), Tone.PLAIN),
}
_TIPS = {
    Badge.GPU: later("Fits entirely into GPU memory."),
    Badge.SPLIT: later("Fits partly into GPU memory; the CPU does the rest."),
    Badge.CPU: later("It fits into memory and runs on the CPU."),
    Badge.TIGHT: later("It fits only with other programs closed or with a short context."),
    Badge.NO: later("There is not enough memory for it."),
    Badge.UNKNOWN: later("The hub gives too little information to tell."),
}
ORIGINS = {
    ModelOrigin.BUNDLED: later("Bundled with Duotail"),
    ModelOrigin.DOWNLOADED: later("Downloaded"),
    ModelOrigin.COPIED: later("Copied into Duotail's folder"),
    ModelOrigin.IN_PLACE: later("Used in place"),
    ModelOrigin.LM_STUDIO: "LM Studio",
    ModelOrigin.OLLAMA: "Ollama",
    ModelOrigin.CACHE: later("Hugging Face cache"),
}
ROLES = {
    RecommendedRole.BALANCED: later("For any question"),
    RecommendedRole.FAST: later("Quick"),
    RecommendedRole.BEST: later("Best answers"),
    RecommendedRole.REASONING: later("Reasoning"),
    RecommendedRole.CODE: later("For code"),
    RecommendedRole.SMALL: later("Small"),
}
PACKAGINGS = {Packaging.GGUF: "GGUF", Packaging.SAFETENSORS: "safetensors"}
_FORMAT = "-gguf"
_COUNTS = ((1e9, later("{n} B")), (1e6, later("{n} M")), (1e3, later("{n} k")))


def short_count(value: int) -> str:
    """A large number in little room: 7.6 B are 7.6 thousand millions."""
    for unit, text in _COUNTS:
        if value >= unit:
            spec = ".1f" if value < 99.95 * unit else ".0f"
            return tr(text).format(n=number(value / unit, spec)).replace(" ", "\N{NO-BREAK SPACE}")
    return number(value)


def speed_words(fit: Fit) -> str:
    """Return the expected speed; empty where nobody knows."""
    if fit.slowest is None or fit.fastest is None:
        return ""
    low, high = (tokens_per_s(value, about=True) for value in (fit.slowest, fit.fastest))
    if low == high:
        return tr("about {speed} tokens/s").format(speed=low)
    return tr("{low}\N{EN DASH}{high} tokens/s").format(low=low, high=high)


def fit_mark(fit: Fit) -> RowBadge:
    """Return the fit of a model as a badge with its reason."""
    words, tone = _BADGES[fit.badge]
    return RowBadge(tr(words), tone, fit.reason or tr(_TIPS[fit.badge]))


def name_of(repo: str) -> str:
    """Return a repository's name without its owner."""
    return repo.rsplit("/", 1)[-1]


def model_of(repo: str) -> str:
    """Return the model's name by its repository, without what only tells the format."""
    name = name_of(repo)
    return name[: -len(_FORMAT)] if name.casefold().endswith(_FORMAT) else name


def owner_of(repo: str) -> str:
    """Return the owner of a repository."""
    return repo.split("/", 1)[0] if "/" in repo else ""


def parameters_words(parameters: int) -> str:
    """Return the size of a model in words."""
    return tr("{count} parameters").format(count=short_count(parameters))


def date_words(updated: float) -> str:
    """Return the date of a change."""
    moment = QDateTime.fromSecsSinceEpoch(int(updated))
    return QLocale().toString(moment.date(), QLocale.FormatType.ShortFormat)


def joined(*parts: str) -> str:
    """Return the parts that are not empty, in a line."""
    return DOT.join(part for part in parts if part)


def found_row(found: FoundRepository) -> ModelRow:
    """A repository among others."""
    mark = None
    if not found.packagings:
        tip = tr("It has no weights in GGUF or safetensors that Duotail could use.")
        mark = RowBadge(tr("Not usable"), Tone.BAD, tip)
    elif found.gated:
        tip = tr("Its owner asks you to accept terms on the hub's site first.")
        mark = RowBadge(tr("Terms to accept"), Tone.FAIR, tip)
    about = joined(
        owner_of(found.repo),
        parameters_words(found.parameters) if found.parameters else "",
        ", ".join(PACKAGINGS[each] for each in found.packagings),
        tr_count("{n} download", "{n} downloads", found.downloads)
        if found.downloads < 1000
        else tr("{count} downloads").format(count=short_count(found.downloads)),
        found.licence or "",
    )
    return ModelRow(name_of(found.repo), about, mark, found.repo)


def suggestion_row(suggestion: Recommendation) -> ModelRow:
    """A model that suits this computer."""
    about = joined(
        tr(ROLES[suggestion.role]),
        speed_words(suggestion.fit),
        file_size(suggestion.nbytes),
        tr("with a draft") if suggestion.draft_repo else "",
    )
    return ModelRow(suggestion.name, about, fit_mark(suggestion.fit), suggestion.reason)


def kind_beside(name: str, kind: str) -> str:
    """Return the kind of a model's weights, or nothing where its name tells it already."""
    return "" if kind.casefold() in name.casefold() else kind


def kept_row(model: KeptModel, *, in_use: bool) -> ModelRow:
    """A model on this computer."""
    mark = None
    if model.problem:
        mark = RowBadge(tr("Cannot be used"), Tone.BAD, model.problem)
    elif in_use:
        mark = RowBadge(tr("In use"), Tone.GOOD, tr("This model is in use."))
    elif model.head:
        mark = RowBadge(tr("Draft head"), Tone.PLAIN, tr("It drafts for another model."))
    about = joined(
        file_size(model.weight_bytes),
        kind_beside(model.name, model.kind),
        model.family,
        tr(ORIGINS[model.origin]),
    )
    return ModelRow(model.name, about, mark, str(model.path))


def variant_row(variant: Variant, fit: Fit | None) -> ModelRow:
    """A quantisation, and how it would run."""
    about = joined(
        file_size(variant.nbytes),
        PACKAGINGS[variant.packaging],
        speed_words(fit) if fit is not None else "",
    )
    return ModelRow(variant.name, about, fit_mark(fit) if fit is not None else None)


def candidate_row(candidate: DraftCandidate) -> ModelRow:
    """A draft, and why it fits or does not."""
    marks = {
        Verdict.FITS: RowBadge(tr("Matches"), Tone.GOOD, candidate.reason),
        Verdict.LIKELY: RowBadge(tr("Should match"), Tone.FAIR, candidate.reason),
        Verdict.NO: RowBadge(tr("Does not match"), Tone.BAD, candidate.reason),
    }
    size = file_size(candidate.nbytes) if candidate.nbytes else ""
    here = candidate.path is not None
    where = tr("on this computer") if here else tr("is downloaded with the model")
    about = joined(size, where if here or candidate.verdict is not Verdict.NO else "")
    return ModelRow(candidate.name, about, marks[candidate.verdict], candidate.reason)

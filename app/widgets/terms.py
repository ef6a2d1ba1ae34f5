"""Technical terms of the window, one sentence each, as in README's glossary. No Qt."""

from __future__ import annotations

from engine.events import PlanSummary
from engine.language import later, tr

TERMS = {
    later("Target"): later("The model whose answer you read."),
    later("Draft"): later(
        "A smaller model, or another quick source, that proposes what the target will probably"
        " write."
    ),
    later("Draft head"): later(
        "A draft that sees the target's hidden states, so it drafts better than a stand-alone"
        " model of its size."
    ),
    later("Lookup"): later(
        "Drafts words that came before, in the prompt or the conversation; it costs no time."
    ),
    later("Acceptance length"): later(
        "Tokens that a verification of drafted tokens brings on average; 1 means that the draft"
        " never helps."
    ),
    later("Accepted"): later("Drafted tokens that the target would have written itself."),
    later("Accepted by position"): later(
        "How often the first, second, third … drafted token of a round is accepted."
    ),
    later("Round"): later(
        "The draft proposes some tokens, the target verifies them in one forward pass, and those"
        " it agrees with, and one of its own, become part of the answer."
    ),
    later("First token after"): later(
        "Time from your click to the first token of the answer (TTFT)."
    ),
    later("Tokens per second"): later(
        "Tokens of the answer per second, from the first token to the last."
    ),
    later("KV cache"): later(
        "What the model has computed for the text so far, kept so that it is not computed again."
    ),
    later("Workspace"): later("Memory for the intermediate results of a forward pass."),
    later("Embedding"): later("The first layer of a model, which turns tokens into vectors."),
    later("Head"): later("The last layer of a model, which gives every token its probability."),
    later("Quantisation"): later(
        "Weights in fewer bits: less memory and more speed for a small loss of quality."
    ),
    later("Numeric signature"): later(
        "Formats and devices of an answer: with the same signature, seed and settings, the"
        " answer is the same."
    ),
}
"""Meanings by label; both texts for `tr`."""


def explained(label: str) -> str:
    """Return the tooltip of a label as it is shown, in the language in use; "" for other labels."""
    return next((tr(text) for term, text in TERMS.items() if tr(term) == label), "")


def plan_tooltip(plan: PlanSummary) -> str:
    """Return the reasons of a plan, and what the terms mean that its words use."""
    terms = [tr("Lookup")] if plan.draft and "lookup" in plan.draft else []
    terms += [tr("Draft head")] if plan.draft_is_head else []
    said = [f"{term}: {explained(term)}" for term in terms]
    return "\n".join([*plan.reasons, *said])

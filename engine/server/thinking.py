"""Whether a request wants the model to think, and how much: clients have many names for it."""

from __future__ import annotations

from dataclasses import dataclass

from engine.server.members import Members

_EFFORTS = frozenset({"none", "minimal", "low", "medium", "high", "xhigh", "max"})
_BUDGETS = (
    *("thinking_budget", "thinking_budget_tokens"),
    *("thinking_token_budget", "reasoning_budget"),
)
_KINDS = {"enabled": True, "adaptive": None, "auto": None, "disabled": False}


@dataclass(frozen=True, slots=True)
class ThinkingWish:
    """The wish of a request to think.

    Attributes:
        on: whether to think; None: as the template has it.
        effort: how much; None: as the template has it.
        budget: tokens that a thought may take; None: as many as it likes.
    """

    on: bool | None = None
    effort: str | None = None
    budget: int | None = None

    def or_else(self, other: ThinkingWish) -> ThinkingWish:
        """Return this wish, with the other one where it says nothing."""
        on = other.on if self.on is None else self.on
        effort = other.effort if self.effort is None else self.effort
        return ThinkingWish(on, effort, other.budget if self.budget is None else self.budget)


def thinking_wish(body: Members) -> ThinkingWish:
    """Return what a request says, by whatever names.

    These are `chat_template_kwargs` (vLLM, SGLang, llama.cpp), `enable_thinking` (Alibaba),
    `think` (Ollama), `thinking` (Anthropic, DeepSeek), `reasoning` (OpenAI's responses,
    OpenRouter) and `reasoning_effort` (OpenAI); for the budget also `thinking_budget` (Alibaba)
    and its other names. The first that says something counts.

    Raises:
        ApiError: a value means nothing.
    """
    wish = ThinkingWish()
    if (template := body.inner("chat_template_kwargs")) is not None:
        on = template.flag("enable_thinking")
        on = template.flag("thinking") if on is None else on
        wish = ThinkingWish(on).or_else(_effort(template, "reasoning_effort"))
        wish = wish.or_else(_budget(template, "thinking_budget"))
    for name in ("enable_thinking", "think", "thinking"):
        wish = wish.or_else(_switch(body, name))
    if (reasoning := body.inner("reasoning")) is not None:
        wish = wish.or_else(_effort(reasoning, "effort"))
        wish = wish.or_else(ThinkingWish(reasoning.flag("enabled")))
        wish = wish.or_else(_budget(reasoning, "max_tokens"))
    for name in _BUDGETS:
        wish = wish.or_else(_budget(body, name))
    return wish.or_else(_effort(body, "reasoning_effort"))


def _switch(body: Members, name: str) -> ThinkingWish:
    """Return what a member says that is true or false, an effort, or an object with a type."""
    value = body.raw(name)
    if isinstance(value, str):
        return _effort(body, name)
    if not isinstance(value, dict):
        return ThinkingWish(body.flag(name))
    said = Members(value, body.place(name))
    kind = said.text("type")
    if kind is not None and kind not in _KINDS:
        raise said.unsupported("type")
    return ThinkingWish(_KINDS.get(kind or "")).or_else(_budget(said, "budget_tokens"))


def _budget(body: Members, name: str) -> ThinkingWish:
    """Return what a number of tokens says: 0 is no thought, -1 is any length."""
    tokens = body.whole(name, -1, 2**31 - 1)
    if tokens is None or tokens < 0:
        return ThinkingWish()
    return ThinkingWish(budget=tokens) if tokens else ThinkingWish(on=False)


def _effort(body: Members, name: str) -> ThinkingWish:
    effort = body.text(name)
    if effort is None:
        return ThinkingWish()
    if effort not in _EFFORTS:
        raise body.unsupported(name)
    return ThinkingWish(on=False) if effort == "none" else ThinkingWish(effort=effort)

"""The constraint of an answer: its grammar, behind the thoughts that a model may begin with."""

from __future__ import annotations

import json

from engine.loading.load import LoadedPair
from engine.model.text.chat_template import Prompt
from engine.model.text.grammar import BODY
from engine.model.text.tokenizer import Tokenizer
from engine.model.text.tool_style import ToolStyle, calls_grammar, style_of
from engine.request import ChatRequest
from engine.speculative.constraint import Constraint

_TAGS = (("<think>", "</think>"), ("<thinking>", "</thinking>"), ("[THINK]", "[/THINK]"))
_CHANNELS = ("<|channel|>", "<|message|>", "<|end|>", "<|start|>")
_TEXT = "text: /(.|\\n)*/"
_BLANKS = "BLANKS: /[ \\n]{0,4}/"


def constraint_of(pair: LoadedPair, request: ChatRequest, prompt: Prompt) -> Constraint | None:
    """Return the constraint of an answer that begins where the prompt says; None: no grammar.

    Raises:
        UserFixable: the grammar cannot be used, or does not allow how the answer begins.
    """
    grammars = [] if request.grammar is None else [request.grammar]
    choice, template = request.tools, pair.template.source
    style = style_of(template)
    said = style is not ToolStyle.CHANNEL or not choice.required
    if choice.tools and (choice.required or (grammars and style is not ToolStyle.CHANNEL)):
        calls = calls_grammar(choice, style, pair.tokenizer.control_tokens)
        grammars = [calls] if choice.required else [*grammars, calls]
    if not grammars:
        return None
    begun = pair.tokenizer.decode(prompt.begun[: prompt.opening])
    rules = opening(pair.tokenizer, template, request, begun, said=said)
    matcher = pair.grammars.matcher(*grammars, opening=rules)
    constraint = Constraint(matcher, len(prompt.ids) - len(prompt.begun))
    constraint.allowed(prompt.ids)
    return constraint


def opening(
    tokenizer: Tokenizer, template: str, request: ChatRequest, begun: str, *, said: bool = True
) -> str:
    """Return Lark rules for what may come before the grammar; empty: nothing.

    Args:
        tokenizer: of the model.
        template: source of its chat template.
        request: what is asked.
        begun: how the template has begun the answer.
        said: whether the grammar is of what is said; a call in a channel has a header of its own.
    """
    if request.raw is not None:
        return ""
    if tokenizer.channels:
        channel, message, end, start = (_token(tokenizer, name) for name in _CHANNELS)
        thought = f'{channel} "analysis" {message} text {end} {start} "assistant"'
        header = f'{channel} "final" {message} ' if said else ""
        return f"start: ({thought})? {header}{BODY}\n{_TEXT}\n"
    for opens, closes in _TAGS:
        opened = begun.startswith(opens)
        if not opened and (closes not in template or request.thinking is False):
            continue
        thought, rule = _thought(tokenizer, opens, closes)
        start = (
            f"start: {thought} BLANKS {BODY}" if opened else f"start: ({thought} BLANKS)? {BODY}"
        )
        return f"{start}\n{_BLANKS}\n{rule}\n"
    return ""


def _thought(tokenizer: Tokenizer, opens: str, closes: str) -> tuple[str, str]:
    """Return a thought with its tags, and the rule of what it ends in."""
    first = _token(tokenizer, opens)
    if closes in tokenizer.control_tokens:
        return f"{first} text {_token(tokenizer, closes)}", _TEXT
    ending = closes.replace("/", "\\/").replace("[", "\\[").replace("]", "\\]")
    return f"{first} thought", f"thought[lazy]: /(.|\\n)*{ending}/"


def _token(tokenizer: Tokenizer, name: str) -> str:
    """Return a control token as Lark names it, or the text of another one."""
    known = tokenizer.control_tokens.get(name)
    return json.dumps(name) if known is None else f"<[{known}]>"

"""Answers: while they come, when they are done, in versions, in all kinds of text."""

from __future__ import annotations

from time import perf_counter

from app.chat.messages.message_actions import Act
from app.showcase.scenes.shoot import Shoot, answer, dialog, new_chat
from app.showcase.stage import Stage, catch_up
from engine.events import FinishReason, TextDelta

_QUESTION = "How does speculative decoding make a model faster? Please show some code too."
_ANSWER = """\
A small **draft** model guesses a few tokens ahead, and the *target* checks all of them in a
single pass. Whatever it agrees with is kept, so the text is exactly the target's own.

### What happens in a round

1. The draft proposes up to `k` tokens.
2. The target reads them all at once.
3. The longest agreed prefix is committed, plus one token of the target's own.

```python
def speculate(target, draft, tokens: list[int], k: int = 4) -> list[int]:
    \"\"\"One round: draft, verify, commit.\"\"\"
    guess = draft.propose(tokens, k)
    checked = target.verify(tokens, guess)  # one forward pass
    return tokens + checked.accepted + [checked.bonus]
```

| Mode | Tokens/s | Speed-up |
|:-----|---------:|---------:|
| Plain decoding | 21.4 | 1.00 |
| CPU, drafting | 33.0 | 1.54 |
| Dovetail | 41.8 | 1.95 |

> Only verified tokens are ever shown.

The gain depends on how often the two agree: see [the paper](https://arxiv.org/abs/2412.18934).
"""
_LOOP = "People like the sea for many reasons.\n\n" + (
    "The sea is a place of peace and quiet, where people can relax. " * 12
)
_OTHER = "It is wide and calm, it smells of salt, and every wave is a little different."
_SHORT = "A small model guesses ahead and a large one checks every guess in one go."
_KINDS = """\
<think>
The reader wants to see **what can be shown**. I will keep it short.
</think>
Maths reads as text: $E = mc^2$, $\\alpha_i \\le \\sqrt{x_1^2 + x_2^2}$, and

$$\\sum_{i=1}^{n} i = \\frac{n(n+1)}{2}$$

- A list with code in it:

  ```sh
  make run
  ```

- [x] done, ~~gone~~, `inline`
  - deeper
    1. and deeper

> A quote
> > in a quote

---

That costs $5 or $10, not maths.
"""
_SCRIPTS = """\
### العربية

مرحبًا! هذا نص من اليمين إلى اليسار مع **كلمة مهمة** و`code` في الوسط.

1. أولًا
2. ثانيًا

### 中文与日本語

推测解码让小模型先猜,大模型再一次性验证。速度更快,结果不变。日本語の文章もきれいに折り返されます。

### Emoji

👩‍👩‍👧‍👦 🏳️‍🌈 🇩🇪 é ä ñ
"""


def an_answer(stage: Stage, shoot: Shoot) -> None:
    """Show a question, waiting, text coming in, the finished answer."""
    session = stage.assembly.session
    session.send(_QUESTION)
    shoot("waiting")
    stage.stream(_ANSWER[:900])
    catch_up()
    shoot("streaming")
    stage.tell(TextDelta(perf_counter(), stage.request_id, _ANSWER[900:], ()))
    stage.finish(_ANSWER)
    catch_up()
    shoot("finished")
    session.send("And in one sentence?")
    stage.stream("A small model guesses ahead and")
    session.stop()
    stage.finish("A small model guesses ahead and", FinishReason.STOPPED)
    catch_up()
    shoot("stopped")


def repeated(stage: Stage, shoot: Shoot) -> None:
    """Show an answer stopped because it repeated itself, then one drawn with variation."""
    session = stage.assembly.session
    new_chat(stage)
    answer(stage, "Why do people like the sea?", _LOOP, FinishReason.REPETITION)
    shoot("repeated")
    session.vary(session.messages[-1].id)
    stage.stream(_OTHER)
    stage.finish(_OTHER)
    catch_up()
    shoot("varied")


def versions(stage: Stage, shoot: Shoot) -> None:
    """The last answer written anew: two versions with arrows; a question in the editor."""
    session = stage.assembly.session
    session.regenerate()
    stage.stream(_SHORT)
    stage.finish(_SHORT)
    catch_up()
    shoot("versions")


def editing(stage: Stage, shoot: Shoot) -> None:
    """Show an answer in the editor, and the dialog that asks where a chat is exported to."""
    new_chat(stage)
    answer(stage, _QUESTION, _ANSWER)
    shown, chat = stage.window.chat.transcript.last_answer(), stage.assembly.session.current
    if shown is not None:
        dialog(stage, shoot, "answer-editor", lambda: shown.act(Act.REWRITE))
    dialog(stage, shoot, "export", lambda: stage.window.sidebar.export(chat, "pdf"))


def kinds_of_text(stage: Stage, shoot: Shoot) -> None:
    """Thoughts, maths, lists, quotes."""
    new_chat(stage)
    stage.assembly.session.send("Show me everything you can write.")
    stage.stream(_KINDS[:70])
    catch_up()
    shoot("thinking")
    stage.tell(TextDelta(perf_counter(), stage.request_id, _KINDS[70:], ()))
    stage.finish(_KINDS)
    catch_up()
    shoot("kinds-of-text")


def scripts(stage: Stage, shoot: Shoot) -> None:
    """Show right to left, Chinese and Japanese, emoji."""
    new_chat(stage)
    answer(stage, "اكتب بثلاث لغات", _SCRIPTS)
    shoot("scripts")


def tinted(stage: Stage, shoot: Shoot) -> None:
    """Show an answer with its drafted tokens marked."""
    new_chat(stage)
    stage.assembly.settings.change(token_tint=True)
    answer(stage, "What did the draft guess here?", _ANSWER)
    shoot("token-tint")
    stage.assembly.settings.change(token_tint=False)

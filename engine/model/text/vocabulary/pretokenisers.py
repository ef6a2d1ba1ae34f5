r"""The ways in which byte-level BPE cuts a text into words, by the names GGUF files give them.

The expressions are those of the models' own tokenizer.json files; which name stands for which is
llama.cpp's table (see NOTICE). An unknown name is an error: words cut in another place give other
tokens than the model was trained on, which nobody would notice but by worse answers.

As in llama.cpp the text is taken as it is: where a tokenizer.json composes characters first (NFC),
such as Qwen's, a GGUF file says nothing of it.
"""

from __future__ import annotations

from dataclasses import dataclass

from engine.errors import UserFixable
from engine.language import tr


@dataclass(frozen=True, slots=True)
class Pretokeniser:
    r"""`patterns` cut one after the other, each at both ends of what it matches.

    `whole_words`: a word that is a token needs no merges.
    """

    patterns: tuple[str, ...]
    whole_words: bool = False


_SUFFIX = "(?i:'s|'t|'re|'ve|'m|'ll|'d)"
_MARKS = r" ?[^\s\p{L}\p{N}]+[\r\n]*"
_BLANKS = r"\s*[\r\n]+|\s+(?!\S)|\s+"
_HAN_KANA = "[\u4e00-\u9fa5\u3040-\u309f\u30a0-\u30ff]+"
_CJK = "[\u4e00-\u9fa5\u0800-\u4e00\uac00-\ud7ff]+"
_DIGIT = r"\p{N}"
_GPT2 = r"'s|'t|'re|'ve|'m|'ll|'d| ?\p{L}+| ?\p{N}+| ?[^\s\p{L}\p{N}]+|\s+(?!\S)|\s+"
_LLAMA3 = rf"{_SUFFIX}|[^\r\n\p{{L}}\p{{N}}]?\p{{L}}+|\p{{N}}{{1,3}}|{_MARKS}|{_BLANKS}"
_QWEN2 = rf"{_SUFFIX}|[^\r\n\p{{L}}\p{{N}}]?\p{{L}}+|\p{{N}}|{_MARKS}|{_BLANKS}"
_QWEN35 = (
    rf"{_SUFFIX}|[^\r\n\p{{L}}\p{{N}}]?[\p{{L}}\p{{M}}]+|\p{{N}}"
    rf"| ?[^\s\p{{L}}\p{{M}}\p{{N}}]+[\r\n]*|{_BLANKS}"
)
_SEED = (
    rf"{_SUFFIX}|[^\r\n\p{{L}}\p{{N}}]?\p{{L}}+|\p{{N}}"
    rf"| ?[^\s\p{{L}}\p{{N}}\r\n]+|{_BLANKS}"
)
_BAILING = (
    r"'(?i:[sdmt]|ll|ve|re)|[^\r\n\p{L}\p{N}]?+\p{L}+|\p{N}| ?[^\s\p{L}\p{N}]++[\r\n]*"
    r"|\s*[\r\n]|\s+(?!\S)|\s+"
)
_JAIS2 = (
    rf"{_SUFFIX}|[^\r\n\p{{L}}\p{{N}}]?\p{{L}}+|\p{{N}}{{1,3}}|{_MARKS}|\s*[\r\n]+|"
    + "|".join(rf"\s{{{run}}}(?!\S)" for run in (512, 256, 128, 64, 32, 16, 8, 4))
    + r"|\s{1,2}(?!\S)|\s{1}"
)
_EXAONE_MOE = (
    rf"{_SUFFIX}|[^\r\n\p{{L}}\p{{N}}]?(?:\p{{L}}\p{{M}}*(?: \p{{L}}\p{{M}}*)*)+|\p{{N}}"
    r"| ?[^\s\p{L}\p{N}]+[\r\n/]?|\s*[\r\n]|\s+(?!\S)|\s+"
)
_DEEPSEEK3 = (
    r"[!\"#$%&'()*+,\-./:;<=>?@\[\\\]^_`{|}~][A-Za-z]+|[^\r\n\p{L}\p{P}\p{S}]?[\p{L}\p{M}]+"
    rf"| ?[\p{{P}}\p{{S}}]+[\r\n]*|{_BLANKS}"
)
_BLOOM = " ?[^(\\s|.,!?\u2026\u3002\uff0c\u3001\u0964\u06d4\u060c)]+"
_FALCON_MARKS = r"[\p{P}\$\+<=>\^~\|`]+"
_DEFAULT_MARKS = r"[\p{P}\$\+<=>\^~\|]+"
_HUNDREDS = "[0-9][0-9][0-9]"
_LONG_NUMBERS = r"\d{1,3}(?=(?:\d{3})*\b)"

# Letters with upper and lower case, in the Unicode version that DeepSeek's first models know.
_CASED = (
    "\u00b5\u00c0-\u00d6\u00d8-\u00f6\u00f8-\u01ba\u01bc-\u01bf\u01c4-\u0293\u0295-\u02af"
    "\u0370-\u0373\u0376\u0377\u037b-\u037d\u037f\u0386\u0388-\u038a\u038c\u038e-\u03a1"
    "\u03a3-\u03f5\u03f7-\u0481\u048a-\u052f\u0531-\u0556\u10a0-\u10c5\u13a0-\u13f5"
    "\u13f8-\u13fd\u1c90-\u1cba\u1cbd-\u1cbf\u1d00-\u1d2b\u1d6b-\u1d77\u1d79-\u1d9a"
    "\u1e00-\u1f15\u1f18-\u1f1d\u1f20-\u1f45\u1f48-\u1f4d\u1f50-\u1f57\u1f59\u1f5b\u1f5d"
    "\u1f5f-\u1f7d\u1f80-\u1fb4\u1fb6-\u1fbc\u1fbe\u1fc2-\u1fc4\u1fc6-\u1fcc\u1fd0-\u1fd3"
    "\u1fd6-\u1fdb\u1fe0-\u1fec\u1ff2-\u1ff4\u1ff6-\u1ffc\u2102\u2107\u210a-\u2113\u2115"
    "\u2119-\u211d\u2124\u2126\u2128\u212a-\u212d\u212f-\u2134\u2139\u213c-\u213f"
    "\u2145-\u2149\u214e\u2183\u2184\u2c00-\u2c7b\u2c7e-\u2ce4\u2ceb-\u2cee\u2cf2\u2cf3"
    "\ua640-\ua66d\ua680-\ua69b\ua722-\ua76f\ua771-\ua787\ua78b-\ua78e\uab70-\uabbf"
    "\ufb00-\ufb06\ufb13-\ufb17\uff21-\uff3a\uff41-\uff5a\U00010400-\U0001044f"
    "\U000104b0-\U000104d3\U000104d8-\U000104fb\U00010c80-\U00010cb2\U00010cc0-\U00010cf2"
    "\U000118a0-\U000118df\U0001e900-\U0001e943"
)


def _by_case(suffix: str, digits: str) -> str:
    r"""Words that end where a lower-case letter is followed by an upper-case one."""
    before, upper, lower = (
        r"[^\r\n\p{L}\p{N}]?",
        r"[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]",
        r"[\p{Ll}\p{Lm}\p{Lo}\p{M}]",
    )
    return (
        f"{before}{upper}*{lower}+{suffix}|{before}{upper}+{lower}*{suffix}|{digits}"
        rf"| ?[^\s\p{{L}}\p{{N}}]+[\r\n/]*|{_BLANKS}"
    )


_GPT4O = _by_case(f"{_SUFFIX}?", r"\p{N}{1,3}")
_gpt2 = Pretokeniser((_GPT2,))
_digits_apart = Pretokeniser((_DIGIT, _GPT2))
_llama3 = Pretokeniser((_LLAMA3,), whole_words=True)
_cl100k = Pretokeniser((_LLAMA3,))
_qwen2 = Pretokeniser((_QWEN2,))
_gpt4o = Pretokeniser((_GPT4O,))
_deepseek3 = Pretokeniser((r"\p{N}{1,3}", _HAN_KANA, _DEEPSEEK3))
_bloom = Pretokeniser((_BLOOM,))
_bailing = Pretokeniser((_BAILING,))
_default = Pretokeniser((_DEFAULT_MARKS, _GPT2, r"\p{N}+", _HUNDREDS))

_BY_NAME = {
    "default": _default,
    **dict.fromkeys(
        ("gpt-2", "phi-2", "gigachat", "a.x-4.0", "mellum", "exaone4", "jais", "trillion"), _gpt2
    ),
    **dict.fromkeys(("mpt", "olmo", "granite-docling", "roberta-bpe"), _gpt2),
    **dict.fromkeys(
        ("starcoder", "refact", "smollm", "codeshell", "exaone", "minerva-7b", "mellum2"),
        _digits_apart,
    ),
    "command-r": _digits_apart,
    **dict.fromkeys(
        ("llama-bpe", "llama3", "llama-v3", "falcon3", "falcon-h1", "pixtral", "midm-2.0", "lfm2"),
        _llama3,
    ),
    **dict.fromkeys(("glm4", "glm5"), _llama3),
    **dict.fromkeys(("dbrx", "smaug-bpe", "chatglm-bpe"), _cl100k),
    "minicpm5": Pretokeniser(
        (r"\p{N}{1,3}", _LLAMA3.replace(r"\p{N}{1,3}", r"\p{N}+")), whole_words=True
    ),
    **dict.fromkeys(
        ("qwen2", "deepseek-r1-qwen", "megrez", "stablelm2", "hunyuan", "solar-open", "grok-2"),
        _qwen2,
    ),
    **dict.fromkeys(("kormo", "f2llmv2"), _qwen2),
    "qwen35": Pretokeniser((_QWEN35,)),
    "ufakzeka": Pretokeniser((_QWEN2.removeprefix(f"{_SUFFIX}|"),)),
    "laguna": Pretokeniser((r"[^\n]+|[\n]+", _QWEN2)),
    "seed-coder": Pretokeniser((_SEED,)),
    **dict.fromkeys(("bailingmoe", "bailingmoe2", "llada-moe"), _bailing),
    "jais-2": Pretokeniser((_JAIS2,)),
    "exaone-moe": Pretokeniser((_EXAONE_MOE,)),
    "tekken": Pretokeniser((_by_case("", _DIGIT),), whole_words=True),
    **dict.fromkeys(("gpt-4o", "llama4", "kanana2", "talkie", "minimax-m2"), _gpt4o),
    **dict.fromkeys(("tiny_aya", "cohere2moe"), Pretokeniser((_LONG_NUMBERS, _GPT4O))),
    "deepseek-llm": Pretokeniser(
        (
            r"[\r\n]",
            rf"\s?[A-Za-z{_CASED}]+",
            "\\s?[!-/:-~\uff01-\uff0f\uff1a-\uff5e\u2018-\u201f\u3000-\u3002]+",
            r"\s+$",
            _CJK,
            r"\p{N}+",
        )
    ),
    "deepseek-coder": Pretokeniser((r"[\r\n]", r"\s?\p{L}+", r"\s?\p{P}+", _CJK, _DIGIT)),
    **dict.fromkeys(("deepseek-v3", "hunyuan-dense", "joyai-llm", "hy_v4"), _deepseek3),
    "falcon": Pretokeniser((_FALCON_MARKS, _GPT2, _HUNDREDS)),
    **dict.fromkeys(("poro-chat", "bloom", "gpt3-finnish"), _bloom),
    "viking": Pretokeniser((_BLOOM, _DIGIT)),
}


def pretokeniser(name: str) -> Pretokeniser:
    """The pre-tokeniser of a name; `UserFixable` for one that this version does not know."""
    found = _BY_NAME.get(name)
    if found is None:
        raise UserFixable(
            tr("Duotail does not know this model's pre-tokenizer."),
            tr("Choose another model, or a newer version of Duotail."),
            f"tokenizer.ggml.pre: {name!r}"[:500],
        )
    return found

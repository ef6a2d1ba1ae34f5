"""The LaTeX commands that stand for one sign, and the letters there are in other shapes."""

from __future__ import annotations

from enum import Enum, auto


class MathClass(Enum):
    """Class of a sign, which decides its distance from its neighbours."""

    ORDINARY = auto()
    BINARY = auto()
    RELATION = auto()
    OPERATOR = auto()
    OPENING = auto()
    CLOSING = auto()
    PUNCTUATION = auto()
    FRACTION = auto()
    SPACE = auto()


_ORDINARY = """
alpha α beta β gamma γ delta δ epsilon ϵ varepsilon ε zeta ζ eta η theta θ vartheta ϑ iota ι
kappa κ varkappa ϰ lambda λ mu μ nu ν xi ξ omicron ο pi π varpi ϖ rho ρ varrho ϱ sigma σ
varsigma ς tau τ upsilon υ phi ϕ varphi φ chi χ psi ψ omega ω digamma ϝ
Gamma Γ Delta Δ Theta Θ Lambda Λ Xi Ξ Pi Π Sigma Σ Upsilon Υ Phi Φ Psi Ψ Omega Ω
infty ∞ partial ∂ nabla ∇ hbar ℏ hslash ℏ ell ℓ Re ℜ Im ℑ wp ℘ aleph ℵ beth ℶ imath ı jmath ȷ
emptyset ∅ varnothing ∅ forall ∀ exists ∃ nexists ∄ neg ¬ lnot ¬ top ⊤ bot ⊥ angle ∠
measuredangle ∡ triangle △ square □ Box □ blacksquare ■ qed ∎ diamond ⋄ Diamond ◇ star ⋆ bigstar ★
prime ′ backprime ‵ dagger † ddagger ‡ degree ° ldots … dots … dotsc … dotsb ⋯ cdots ⋯ vdots ⋮
ddots ⋱ checkmark ✓ clubsuit ♣ diamondsuit ♢ heartsuit ♡ spadesuit ♠ flat ♭ natural ♮ sharp ♯
AA Å pounds £ euro € S § P ¶ copyright © surd √ complement ∁ eth ð mho ℧ therefore ∴ because ∵
"""
_BINARY = """
pm ± mp ∓ times × div ÷ cdot · ast ∗ circ ∘ bullet • oplus ⊕ ominus ⊖ otimes ⊗ oslash ⊘ odot ⊙
cap ∩ cup ∪ sqcap ⊓ sqcup ⊔ uplus ⊎ wedge ∧ land ∧ vee ∨ lor ∨ setminus ∖ smallsetminus ∖ wr ≀
amalg ⨿ bmod mod ltimes ⋉ rtimes ⋊ boxplus ⊞ boxtimes ⊠ divideontimes ⋇
"""
_RELATIONS = """
leq ≤ le ≤ geq ≥ ge ≥ neq ≠ ne ≠ equiv ≡ approx ≈ sim ∼ simeq ≃ cong ≅ propto ∝ asymp ≍ doteq ≐
ll ≪ gg ≫ leqslant ⩽ geqslant ⩾ prec ≺ succ ≻ preceq ⪯ succeq ⪰ subset ⊂ supset ⊃ subseteq ⊆
supseteq ⊇ subsetneq ⊊ supsetneq ⊋ nsubseteq ⊈ sqsubseteq ⊑ sqsupseteq ⊒ in ∈ ni ∋ notin ∉ mid ∣
nmid ∤ parallel ∥ nparallel ∦ perp ⊥ vdash ⊢ dashv ⊣ models ⊨ vDash ⊨ Vdash ⊩ bowtie ⋈
smile ⌣ frown ⌢ coloneqq ≔ triangleq ≜ lesssim ≲ gtrsim ≳ approxeq ≊ nleq ≰ ngeq ≱ nless ≮ ngtr ≯
to → rightarrow → leftarrow ← gets ← leftrightarrow ↔ Rightarrow ⇒ Leftarrow ⇐ Leftrightarrow ⇔
implies ⟹ impliedby ⟸ iff ⟺ mapsto ↦ longmapsto ⟼ longrightarrow ⟶ longleftarrow ⟵
longleftrightarrow ⟷ Longrightarrow ⟹ Longleftarrow ⟸ Longleftrightarrow ⟺ uparrow ↑ downarrow ↓
updownarrow ↕ Uparrow ⇑ Downarrow ⇓ nearrow ↗ searrow ↘ swarrow ↙ nwarrow ↖ hookrightarrow ↪
hookleftarrow ↩ rightharpoonup ⇀ leftharpoonup ↼ rightleftharpoons ⇌ leadsto ⇝ twoheadrightarrow ↠
rightsquigarrow ⇝ nrightarrow ↛ nRightarrow ⇏ colon :
"""
_OPERATORS = """
sum ∑ prod ∏ coprod ∐ int ∫ iint ∬ iiint ∭ oint ∮ oiint ∯ bigcup ⋃ bigcap ⋂ bigsqcup ⨆ bigvee ⋁
bigwedge ⋀ bigoplus ⨁ bigotimes ⨂ bigodot ⨀ biguplus ⨄
"""
_OPENING = """
langle ⟨ lfloor ⌊ lceil ⌈ lbrace { lbrack [ lvert | lVert ‖ lgroup ⟮ ulcorner ⌜ llbracket ⟦
"""
_CLOSING = """
rangle ⟩ rfloor ⌋ rceil ⌉ rbrace } rbrack ] rvert | rVert ‖ rgroup ⟯ urcorner ⌝ rrbracket ⟧
"""


def _words(text: str) -> frozenset[str]:
    return frozenset(text.split())


NAMES = _words("""
arccos arcsin arctan arccot arg cos cosh cot coth csc deg det dim exp gcd hom inf ker lcm lg lim
liminf limsup ln log max min Pr sec sin sinh sup tan tanh argmax argmin sgn tr rank softmax
""")
"""Functions that are written as words."""
UPRIGHT = _words("""
text mathrm textrm textbf textit mathbf operatorname operatorname* mathsf mathtt texttt mbox textsf
mathit
""")
"""Commands whose argument is words rather than variables."""
ALPHABETS = _words("mathbb mathcal mathscr mathfrak")
FRACTION_NAMES = _words("frac dfrac tfrac cfrac")
IGNORED = _words("""
displaystyle textstyle scriptstyle limits nolimits nonumber notag left right middle big Big bigg
Bigg bigl bigr Bigl Bigr biggl biggr Biggl Biggr hline
""")
"""Commands that only change how a formula is set."""
TRANSPARENT = _words("""
boxed mathop mathbin mathrel mathord boldsymbol bm underbrace overbrace smash vphantom cancel pmb
""")
"""Commands whose argument is shown as it is."""

_SIGNS = {
    "=": ("=", MathClass.RELATION),
    "<": ("<", MathClass.RELATION),
    ">": (">", MathClass.RELATION),
    ":": (":", MathClass.RELATION),
    "+": ("+", MathClass.BINARY),
    "-": ("\u2212", MathClass.BINARY),
    "*": ("\u2217", MathClass.BINARY),
    "(": ("(", MathClass.OPENING),
    "[": ("[", MathClass.OPENING),
    ")": (")", MathClass.CLOSING),
    "]": ("]", MathClass.CLOSING),
    ",": (",", MathClass.PUNCTUATION),
    ";": (";", MathClass.PUNCTUATION),
    "~": (" ", MathClass.SPACE),
    "!": ("!", MathClass.CLOSING),
}
_ESCAPES = {
    "\\{": ("{", MathClass.OPENING),
    "\\}": ("}", MathClass.CLOSING),
    "\\|": ("\u2016", MathClass.ORDINARY),
    "\\%": ("%", MathClass.ORDINARY),
    "\\$": ("$", MathClass.ORDINARY),
    "\\&": ("&", MathClass.ORDINARY),
    "\\#": ("#", MathClass.ORDINARY),
    "\\_": ("_", MathClass.ORDINARY),
    "\\,": (" ", MathClass.SPACE),
    "\\:": (" ", MathClass.SPACE),
    "\\;": (" ", MathClass.SPACE),
    "\\>": (" ", MathClass.SPACE),
    "\\ ": (" ", MathClass.SPACE),
    "\\!": ("", MathClass.SPACE),
    "\\quad": ("  ", MathClass.SPACE),
    "\\qquad": ("    ", MathClass.SPACE),
    "\\space": (" ", MathClass.SPACE),
}


def _table(words: str, kind: MathClass) -> dict[str, tuple[str, MathClass]]:
    pairs = words.split()
    names = zip(pairs[::2], pairs[1::2], strict=True)
    return {f"\\{name}": (sign, kind) for name, sign in names}


SYMBOLS: dict[str, tuple[str, MathClass]] = (
    _SIGNS
    | _ESCAPES
    | _table(_ORDINARY, MathClass.ORDINARY)
    | _table(_BINARY, MathClass.BINARY)
    | _table(_RELATIONS, MathClass.RELATION)
    | _table(_OPERATORS, MathClass.OPERATOR)
    | _table(_OPENING, MathClass.OPENING)
    | _table(_CLOSING, MathClass.CLOSING)
)
"""The text shown for a character or a command, and its class for spacing."""

SUPERSCRIPTS = dict(
    zip(
        "0123456789+\u2212-=()nabcdefghijklmoprstuvwxyzABDEGHIJKLMNOPRTUVWαβγδεθφχ′*∗, ",
        "⁰¹²³⁴⁵⁶⁷⁸⁹⁺⁻⁻⁼⁽⁾ⁿᵃᵇᶜᵈᵉᶠᵍʰⁱʲᵏˡᵐᵒᵖʳˢᵗᵘᵛʷˣʸᶻᴬᴮᴰᴱᴳᴴᴵᴶᴷᴸᴹᴺᴼᴾᴿᵀᵁⱽᵂᵅᵝᵞᵟᵋᶿᵠᵡ′*∗, ",
        strict=True,
    )
)
SUBSCRIPTS = dict(
    zip(
        "0123456789+\u2212-=()aehijklmnoprstuvxβγρφχ, ",
        "₀₁₂₃₄₅₆₇₈₉₊₋₋₌₍₎ₐₑₕᵢⱼₖₗₘₙₒₚᵣₛₜᵤᵥₓᵦᵧᵨᵩᵪ, ",
        strict=True,
    )
)
FRACTIONS = {
    ("1", "2"): "½",
    ("1", "3"): "⅓",
    ("2", "3"): "⅔",
    ("1", "4"): "¼",
    ("3", "4"): "¾",
    ("1", "5"): "⅕",
    ("1", "6"): "⅙",
    ("1", "8"): "⅛",
}
NEGATED = {
    "=": "\u2260",
    "\u2208": "\u2209",
    "\u2261": "\u2262",
    "\u2282": "\u2284",
    "\u2286": "\u2288",
    "\u223c": "\u2241",
    "\u2248": "\u2249",
    "<": "\u226e",
    ">": "\u226f",
    "\u2264": "\u2270",
    "\u2265": "\u2271",
    "\u2203": "\u2204",
    "\u2223": "\u2224",
    "\u2225": "\u2226",
    "\u2192": "\u219b",
}
ACCENTS = {
    "hat": "\u0302",
    "widehat": "\u0302",
    "bar": "\u0304",
    "vec": "\u20d7",
    "dot": "\u0307",
    "ddot": "\u0308",
    "tilde": "\u0303",
    "widetilde": "\u0303",
    "check": "\u030c",
    "breve": "\u0306",
    "acute": "\u0301",
    "grave": "\u0300",
    "mathring": "\u030a",
    "overline": "\u0305",
    "underline": "\u0332",
}
PLAIN = {0x1D434 + index: 65 + index for index in range(26)}
PLAIN |= {0x1D44E + index: 97 + index for index in range(26)} | {0x210E: ord("h")}
"""Map from slanted letters to common ones."""
_DOUBLE = dict(zip("CHNPQRZ", "ℂℍℕℙℚℝℤ", strict=True))
_SCRIPT = dict(zip("BEFHILMRego", "ℬℰℱℋℐℒℳℛℯℊℴ", strict=True))
_FRAKTUR = dict(zip("CHIRZ", "ℭℌℑℜℨ", strict=True))


def lettered(text: str, alphabet: str) -> str:
    """`text` in another alphabet: mathbb, mathcal, mathscr or mathfrak."""
    taken, upper, lower = {
        "mathbb": (_DOUBLE, 0x1D538, 0x1D552),
        "mathfrak": (_FRAKTUR, 0x1D504, 0x1D51E),
    }.get(alphabet, (_SCRIPT, 0x1D49C, 0x1D4B6))
    return "".join(_lettered(character, taken, upper, lower) for character in text)


def _lettered(character: str, taken: dict[str, str], upper: int, lower: int) -> str:
    if character in taken:
        return taken[character]
    if "A" <= character <= "Z":
        return chr(upper + ord(character) - ord("A"))
    if "a" <= character <= "z":
        return chr(lower + ord(character) - ord("a"))
    return character

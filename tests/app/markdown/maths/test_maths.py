from __future__ import annotations

import time
from unicodedata import normalize

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from stopwatch import least

from app.chat.text.block_stream import split
from app.markdown.dialect import parser
from app.markdown.maths.formula import render, runs
from app.markdown.maths.scripts import plain

CASES = [
    ("x^2 + y^2 = z^2", "x² + y² = z²"),
    ("a_1, a_2, \\ldots, a_n", "a₁, a₂, …, aₙ"),
    ("x_{i,j}^{k+1}", "xᵢ,ⱼᵏ⁺¹"),
    ("2^{10}", "2¹⁰"),
    ("A^{-1}A^T", "A⁻¹Aᵀ"),
    ("e^{i\\pi} + 1 = 0", "e^(iπ) + 1 = 0"),
    ("x^{2^n}", "x^(2ⁿ)"),
    ("x_{max}", "xₘₐₓ"),
    ("x_{\\text{good}}", "x_good"),
    ("\\frac{1}{2}", "½"),
    ("\\frac12 mv^2", "½mv²"),
    ("\\frac{3}{7}", "3/7"),
    ("\\frac{a+b}{c}", "(a + b)/c"),
    ("\\frac{a}{b+c}", "a/(b + c)"),
    ("\\frac{ab}{cd}", "ab/(cd)"),
    ("\\frac{dy}{dx}", "dy/dx"),
    ("\\frac{\\partial f}{\\partial x}", "∂f/∂x"),
    ("\\frac{n(n+1)}{2}", "n(n + 1)/2"),
    ("\\frac{\\frac{a}{b}}{c}", "(a/b)/c"),
    ("x \\frac{a}{b} y", "x(a/b)y"),
    ("\\left(\\frac{a}{b}\\right)^2", "(a/b)²"),
    ("\\frac{-b \\pm \\sqrt{b^2-4ac}}{2a}", "(−b ± √(b² − 4ac))/(2a)"),
    ("\\dfrac{P(B \\mid A) P(A)}{P(B)}", "P(B ∣ A)P(A)/P(B)"),
    ("\\sqrt{2}", "√2"),
    ("\\sqrt{x+1}", "√(x + 1)"),
    ("\\sqrt[3]{x}", "∛x"),
    ("\\sqrt[n]{x}", "ⁿ√x"),
    ("\\sum_{i=1}^{n} i^2", "∑ᵢ₌₁ⁿ i²"),
    ("\\prod_{k=0}^\\infty a_k", "∏ₖ₌₀^∞ aₖ"),
    ("\\int_0^1 f(x)\\,dx", "∫₀¹ f(x) dx"),
    ("\\lim_{x \\to 0} \\frac{\\sin x}{x} = 1", "lim_(x→0) (sin x)/x = 1"),
    ("\\log_2 n", "log₂ n"),
    ("\\sin^2 x + \\cos^2 x = 1", "sin² x + cos² x = 1"),
    ("O(n \\log n)", "O(n log n)"),
    ("\\alpha\\beta\\Gamma", "αβΓ"),
    ("\\forall \\varepsilon > 0", "∀ε > 0"),
    ("a \\leq b \\neq c \\approx d", "a ≤ b ≠ c ≈ d"),
    ("A \\cup B \\cap C \\subseteq D", "A ∪ B ∩ C ⊆ D"),
    ("x \\in \\mathbb{R}^n", "x ∈ ℝⁿ"),
    ("\\mathbb{E}[X]", "𝔼[X]"),
    ("\\mathcal{L}", "ℒ"),
    ("\\mathbf{E} = -\\nabla\\phi", "E = −∇ϕ"),
    ("f: A \\to B", "f : A → B"),
    ("p \\implies q \\iff r", "p ⟹ q ⟺ r"),
    ("a \\times b \\cdot c \\div d", "a × b · c ÷ d"),
    ("-x", "−x"),
    ("(-x)", "(−x)"),
    ("a = -b", "a = −b"),
    ("a-b", "a − b"),
    ("x' + x''", "x′ + x′′"),
    ("\\hat{x} \\bar{y} \\vec{v}", "x̂ȳv⃗"),
    ("\\overline{AB}", "A̅B̅"),
    ("90^\\circ", "90°"),
    ("|x| \\le \\|y\\|", "|x| ≤ ‖y‖"),
    ("\\left| x \\right|", "|x|"),
    ("\\left. f \\right|_0", "f|₀"),
    ("\\{1, 2\\}", "{1, 2}"),
    ("\\lfloor x \\rfloor", "⌊x⌋"),
    ("\\langle u, v \\rangle", "⟨u, v⟩"),
    ("\\text{if } x < 0", "if x < 0"),
    ("5\\,\\text{km}", "5 km"),
    ("50\\%", "50%"),
    ("\\binom{n}{k}", "(n choose k)"),
    ("a \\not= b", "a ≠ b"),
    ("a \\equiv b \\pmod{n}", "a ≡ b (mod n)"),
    ("\\boxed{42}", "42"),
    ("a \\quad b", "a b"),
    ("\\operatorname{rank} A", "rank A"),
    ("\\xrightarrow{f}", "—f→"),
    ("\\unknown{x} + y", "\\unknown{x} + y"),
    ("\\foo", "\\foo"),
    ("\\begin{pmatrix} 1 & 2 \\\\ 3 & 4 \\end{pmatrix}", "(1 2; 3 4)"),
    ("\\begin{bmatrix} a \\end{bmatrix}", "[a]"),
    ("a}b", "a}b"),
    ("{a", "a"),
    ("^2", "²"),
    ("\\frac{a}", "a/"),
    ("\\frac{a}{b}^2", "(a/b)²"),
    ("x = y \\tag{3}", "x = y (3)"),
    ("x \\label{eq:one} \\color{red} y", "xy"),
    ("", ""),
]


@pytest.mark.parametrize(
    ("latex", "text"), CASES, ids=[latex[:24] or "empty" for latex, _ in CASES]
)
def test_what_is_shown(latex: str, text: str) -> None:
    assert normalize("NFC", plain(render(latex))) == normalize("NFC", text)


def test_variables_are_told_from_words() -> None:
    parts = [(run.text, run.variable, run.shift) for run in runs(render("x + \\sin e^{i\\pi}"))]
    assert parts == [
        ("x", True, 0),
        (" + sin ", False, 0),
        ("e", True, 0),
        ("i", True, 1),
        ("π", False, 1),
    ]


PIECES = [
    *("\\frac", "\\sqrt", "\\sum", "\\left", "\\text", "\\hat", "\\not", "\\binom", "\\overset"),
    *("\\begin{cases}", "\\end{cases}", "\\begin{array}", "\\mathbb", "\\foo", "\\\\", "\\,", "&"),
    *("(", ")", "[", "]", "{", "}", "^", "_", "x", "2", "'", "+", "=", " ", "\ue000", "\ue002"),
]


@settings(max_examples=300, deadline=None)
@given(
    st.lists(
        st.sampled_from(PIECES),
        max_size=40,
    ).map("".join)
    | st.text(max_size=60)
)
def test_any_formula_is_taken(latex: str) -> None:
    text = render(latex)
    assert "".join(run.text for run in runs(text)) is not None
    assert plain(text) == plain(plain(text))


@pytest.mark.parametrize(
    "unit", ["{", "\\frac{", "x^{", "\\begin{cases}", "\\sqrt[", "\\left(", "x^", "a+", "\\not"]
)
@pytest.mark.release(reason="a stopwatch")
def test_the_time_grows_with_the_length_only(unit: str) -> None:
    def once(count: int) -> float:
        started = time.thread_time()
        render(unit * count)
        return time.thread_time() - started

    bound = 8 * max(min(once(2_000) for _ in range(3)), 0.01)
    assert least(lambda: once(8_000), bound) < bound  # sixteen times, if it were squared


@pytest.mark.parametrize(
    ("text", "formulas"),
    [
        ("It costs $5 and $10.", []),
        ("From $5-$10, or $5, $6 and $7.", []),
        ("US$5 or C$6", []),
        ("PATH=$HOME/bin:$PATH", []),
        ("between $20 million and 30$ or so", []),
        ("Let $x$ be $n+1$.", ["x", "n+1"]),
        ("$a_1$,$b$", ["a_1", "b"]),
        ("the price $p = 5$ and $7", ["p = 5"]),
        ("\\(x\\) and \\[y\\] and $$z$$", ["x", "y", "z"]),
        ("`$x$` and \\$x\\$", []),
        ("an open \\(x", []),
        ("$ x $", []),
    ],
)
def test_what_is_a_formula_in_a_sentence(text: str, formulas: list[str]) -> None:
    dialect = parser()
    tokens = dialect.inline.parse(text, dialect, {}, [])
    assert [token.content for token in tokens if token.type == "math_inline"] == formulas


@pytest.mark.parametrize(
    ("text", "blocks"),
    [
        ("a\n$$\nx\n$$\nb", ["a", "$$\nx\n$$", "b"]),
        ("\\[ x \\]", ["\\[ x \\]"]),
        ("$$x$$ is in a sentence", ["$$x$$ is in a sentence"]),
        (
            "\\begin{align}\na &= b\n\\end{align}\nend",
            ["\\begin{align}\na &= b\n\\end{align}", "end"],
        ),
        ("$$\nnever closed\n\nnext", ["$$\nnever closed", "next"]),
    ],
)
def test_formulas_on_lines_of_their_own(text: str, blocks: list[str]) -> None:
    assert [block.source for block in split(text)] == blocks


def test_neither_two_formulas_nor_a_giant_one_make_a_block() -> None:
    for lines, formula in (("x\n", True), ("x$$ and $$y", False), ("x\n" * 2_500, False)):
        kinds = {token.type for token in parser().parse(f"$${lines}$$")}
        assert ("math_block" in kinds) is formula

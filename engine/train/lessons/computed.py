"""Conversations that are computed: sums with their working, units, dates, lists, small programs."""

from __future__ import annotations

import random
from collections.abc import Callable
from dataclasses import dataclass
from datetime import date, timedelta

from engine.request import Message, Role
from engine.train.conversations import Example

Turns = list[str]
"""Question, answer, question, ..."""


def lesson(rng: random.Random) -> Example:
    """Any of them."""
    turns = rng.choices(_KINDS, _WEIGHTS)[0](rng)
    roles = (Role.USER, Role.ASSISTANT)
    return Example(
        tuple(Message(roles[place % 2], text) for place, text in enumerate(turns)),
        source="computed",
    )


def _said(rng: random.Random, *ways: str) -> str:
    return rng.choice(ways)


def _plus(rng: random.Random) -> Turns:
    most = rng.choice((10, 20, 100, 100, 1000))
    a, b = rng.randint(1, most), rng.randint(1, most)
    ask = _said(
        rng, "What is {a} + {b}?", "{a} + {b}", "What is {a} plus {b}?", "Add {a} and {b}.",
        "How much is {a} and {b} together?", "Can you add {a} and {b}?", "{a}+{b}=?",
    )  # fmt: skip
    turns = [ask.format(a=a, b=b), _sum_words(a, b)]
    if rng.random() < 0.25:
        c = rng.randint(1, 20)
        follow = _said(rng, "And plus {c}?", "Now add {c}.", "Add {c} more, please.")
        turns += [follow.format(c=c), _sum_words(a + b, c)]
    return turns


def _sum_words(a: int, b: int) -> str:
    if max(a, b) < 10 or min(a, b) < 1:
        return f"{a} + {b} = {a + b}."
    if b >= 10 and b % 10:
        return f"{a} + {b - b % 10} = {a + b - b % 10}, and {b % 10} more makes {a + b}."
    return f"{a} + {b} = {a + b}."


def _minus(rng: random.Random) -> Turns:
    most = rng.choice((10, 20, 100))
    a = rng.randint(1, most)
    b = rng.randint(0, a)
    ask = _said(
        rng, "What is {a} - {b}?", "{a} - {b}", "What is {a} minus {b}?",
        "Take {b} away from {a}.", "I had {a} apples and ate {b}. How many are left?",
    )  # fmt: skip
    if b >= 10 and b % 10:
        answer = f"{a} - {b - b % 10} = {a - b + b % 10}, and minus {b % 10} that is {a - b}."
    else:
        answer = f"{a} - {b} = {a - b}."
    return [ask.format(a=a, b=b), answer]


def _times(rng: random.Random) -> Turns:
    a, b = rng.randint(1, 12), rng.choice((rng.randint(1, 12), rng.randint(11, 30)))
    ask = _said(
        rng, "What is {a} x {b}?", "{a} times {b}", "What is {a} times {b}?", "{a} * {b} = ?",
        "Multiply {a} by {b}.", "What do you get when you multiply {a} and {b}?",
    )  # fmt: skip
    if b > 12 and b % 10:
        tens = b - b % 10
        answer = (
            f"{a} x {tens} = {a * tens} and {a} x {b % 10} = {a * (b % 10)}. "
            f"Together that is {a * b}."
        )
    else:
        answer = f"{a} x {b} = {a * b}."
    return [ask.format(a=a, b=b), answer]


def _divided(rng: random.Random) -> Turns:
    b, result = rng.randint(2, 12), rng.randint(1, 12)
    a = b * result
    ask = _said(
        rng, "What is {a} / {b}?", "What is {a} divided by {b}?", "Divide {a} by {b}.",
        "How often does {b} go into {a}?", "Share {a} sweets among {b} children.",
    )  # fmt: skip
    return [ask.format(a=a, b=b), f"{a} / {b} = {result}, because {b} x {result} = {a}."]


def _compared(rng: random.Random) -> Turns:
    a, b = rng.sample(range(1, 1000), 2)
    word, found = rng.choice((("larger", max(a, b)), ("smaller", min(a, b))))
    other = a + b - found
    ask = _said(rng, "Which is {w}, {a} or {b}?", "Which number is {w}: {a} or {b}?")
    return [ask.format(w=word, a=a, b=b), f"{found} is {word} than {other}."]


def _even(rng: random.Random) -> Turns:
    n = rng.randint(1, 200)
    word, other = rng.choice((("even", "odd"), ("odd", "even")))
    right = (n % 2 == 0) == (word == "even")
    end = f"it ends in {n % 10}"
    answer = f"Yes, {n} is {word}: {end}." if right else f"No, {n} is {other}: {end}."
    return [f"Is {n} {word}?", answer]


def _percent(rng: random.Random) -> Turns:
    share = rng.choice((5, 10, 20, 25, 50, 75))
    whole = rng.choice((20, 40, 60, 80, 100, 120, 200, 300, 400, 500, 800))
    ask = _said(rng, "What is {p}% of {n}?", "How much is {p} percent of {n}?")
    one = whole / 100
    return [
        ask.format(p=share, n=whole),
        f"1% of {whole} is {one:g}, so {share}% is {share} x {one:g} = {share * one:g}.",
    ]


@dataclass(frozen=True, slots=True)
class _Unit:
    large: str
    small: str
    count: int


_UNITS = (
    _Unit("metre", "centimetre", 100), _Unit("kilometre", "metre", 1000),
    _Unit("centimetre", "millimetre", 10), _Unit("kilogram", "gram", 1000),
    _Unit("litre", "millilitre", 1000), _Unit("hour", "minute", 60), _Unit("minute", "second", 60),
    _Unit("day", "hour", 24), _Unit("week", "day", 7), _Unit("year", "month", 12),
    _Unit("foot", "inch", 12), _Unit("pound", "ounce", 16), _Unit("dozen", "piece", 12),
    _Unit("byte", "bit", 8), _Unit("gibibyte", "mebibyte", 1024),
)  # fmt: skip
_PLURALS = {"foot": "feet", "inch": "inches", "dozen": "dozen"}


def _many(count: int, word: str) -> str:
    return f"{count} {word if count == 1 else _PLURALS.get(word, word + 's')}"


def _units(rng: random.Random) -> Turns:
    unit, count = rng.choice(_UNITS), rng.randint(1, 12)
    small = _PLURALS.get(unit.small, unit.small + "s")
    large = _PLURALS.get(unit.large, unit.large + "s")
    total = count * unit.count
    if rng.random() < 0.6:
        ask = _said(
            rng, "How many {s} are in {n}?", "How many {s} does {n} have?", "Convert {n} to {s}.",
            "What is {n} in {s}?",
        )  # fmt: skip
        said = ask.format(s=small, n=_many(count, unit.large))
        if count == 1:
            return [said, f"There are {unit.count} {small} in one {unit.large}."]
        return [
            said,
            (
                f"One {unit.large} has {unit.count} {small}, so {_many(count, unit.large)} "
                f"{'are' if count > 1 else 'is'} {count} x {unit.count} = {total} {small}."
            ),
        ]
    ask = _said(rng, "How many {b} are {n}?", "Convert {n} to {b}.", "What is {n} in {b}?")
    return [
        ask.format(b=large, n=_many(total, unit.small)),
        (
            f"{unit.count} {small} are one {unit.large}, so {_many(total, unit.small)} are "
            f"{total} / {unit.count} = {_many(count, unit.large)}."
        ),
    ]


def _temperature(rng: random.Random) -> Turns:
    celsius = rng.choice((-10, 0, 5, 10, 15, 20, 25, 30, 35, 40, 100))
    fahrenheit = round(celsius * 9 / 5 + 32)
    if rng.random() < 0.5:
        return [
            _said(rng, f"What is {celsius} degrees Celsius in Fahrenheit?",
                  f"Convert {celsius} C to F."),
            (f"{celsius} x 9 / 5 = {celsius * 9 // 5}, plus 32 is {fahrenheit}. So it is "
            f"{fahrenheit} degrees Fahrenheit."),
        ]  # fmt: skip
    return [
        _said(rng, f"What is {fahrenheit} degrees Fahrenheit in Celsius?",
              f"Convert {fahrenheit} F to C."),
        (f"{fahrenheit} - 32 = {fahrenheit - 32}, times 5 / 9 is {celsius}. So it is {celsius} "
        "degrees Celsius."),
    ]  # fmt: skip


_DAYS = ("Monday", "Tuesday", "Wednesday", "Thursday", "Friday", "Saturday", "Sunday")
_MONTHS = (
    "January", "February", "March", "April", "May", "June", "July", "August", "September",
    "October", "November", "December",
)  # fmt: skip
_LENGTHS = (31, 28, 31, 30, 31, 30, 31, 31, 30, 31, 30, 31)


def _calendar(rng: random.Random) -> Turns:
    day, month = rng.randrange(7), rng.randrange(12)
    match rng.randrange(5):
        case 0:
            step, word = rng.choice(((1, "after"), (-1, "before")))
            found = _DAYS[(day + step) % 7]
            return [f"What day comes {word} {_DAYS[day]}?", f"{found} comes {word} {_DAYS[day]}."]
        case 1:
            step, word = rng.choice(((1, "after"), (-1, "before")))
            found = _MONTHS[(month + step) % 12]
            return [
                f"Which month comes {word} {_MONTHS[month]}?",
                f"{found} comes {word} {_MONTHS[month]}.",
            ]
        case 2:
            count = rng.randint(2, 10)
            found = _DAYS[(day + count) % 7]
            return [
                f"Today is {_DAYS[day]}. What day is it in {count} days?",
                f"In {count} days it is {found}.",
            ]
        case 3:
            extra = ", and 29 in a leap year" if month == 1 else ""
            return [
                f"How many days does {_MONTHS[month]} have?",
                f"{_MONTHS[month]} has {_LENGTHS[month]} days{extra}.",
            ]
        case _:
            start = date(2025, 1, 1) + timedelta(rng.randrange(365))
            end = start + timedelta(rng.randint(1, 20))
            first = f"{start.day} {_MONTHS[start.month - 1]}"
            last = f"{end.day} {_MONTHS[end.month - 1]}"
            days = (end - start).days
            there = "there is" if days == 1 else "there are"
            return [
                f"How many days are there from {first} to {last}?",
                f"From {first} to {last} {there} {_many(days, 'day')}.",
            ]


_KINDS_OF_THINGS: dict[str, tuple[str, ...]] = {
    "fruits": ("apples", "pears", "plums", "cherries", "bananas", "grapes", "oranges", "peaches"),
    "vegetables": ("carrots", "peas", "beans", "onions", "potatoes", "leeks", "tomatoes"),
    "animals": ("dogs", "cats", "horses", "cows", "foxes", "owls", "bears", "rabbits", "whales"),
    "birds": ("sparrows", "robins", "owls", "eagles", "crows", "ducks", "penguins", "swans"),
    "colours": ("red", "blue", "green", "yellow", "orange", "purple", "white", "black", "brown"),
    "planets": ("Mercury", "Venus", "Earth", "Mars", "Jupiter", "Saturn", "Uranus", "Neptune"),
    "instruments": ("the piano", "the violin", "the flute", "the drums", "the guitar", "the harp"),
    "sports": ("football", "tennis", "swimming", "running", "rowing", "cycling", "climbing"),
    "trees": ("oaks", "beeches", "pines", "birches", "maples", "willows", "firs"),
    "tools": ("a hammer", "a saw", "a screwdriver", "pliers", "a file", "a drill"),
    "drinks": ("water", "tea", "coffee", "milk", "apple juice", "lemonade", "cocoa"),
    "clothes": ("a shirt", "trousers", "a coat", "socks", "a hat", "gloves", "a scarf", "shoes"),
    "furniture": ("a table", "a chair", "a bed", "a shelf", "a desk", "a sofa", "a wardrobe"),
    "jobs": ("a baker", "a teacher", "a nurse", "a farmer", "a carpenter", "a pilot", "a cook"),
    "flowers": ("roses", "tulips", "daisies", "lilies", "sunflowers", "violets", "poppies"),
    "European countries": ("France", "Italy", "Spain", "Poland", "Greece", "Norway", "Portugal"),
}  # fmt: skip
_WORDS = {2: "two", 3: "three", 4: "four", 5: "five", 6: "six"}


def _list(rng: random.Random) -> Turns:
    kind, things = rng.choice(list(_KINDS_OF_THINGS.items()))
    count = rng.randint(2, min(6, len(things) - 1))
    chosen = rng.sample(things, count)
    number = rng.choice((str(count), _WORDS[count]))
    ask = _said(
        rng, "Name {n} {k}.", "Can you name {n} {k}?", "List {n} {k}.", "Tell me {n} {k}.",
        "Give me a list of {n} {k}.", "I need {n} {k}.",
    )  # fmt: skip
    answer = "\n".join(
        f"{at}. {thing[:1].upper()}{thing[1:]}" for at, thing in enumerate(chosen, start=1)
    )
    turns = [ask.format(n=number, k=kind), answer]
    rest = [thing for thing in things if thing not in chosen]
    if rest and rng.random() < 0.4:
        more = rng.choice(rest)
        turns += [_said(rng, "One more, please.", "And another one?", "Name one more."),
                  f"Another one: {more}."]  # fmt: skip
    return turns


def _sorting(rng: random.Random) -> Turns:
    if rng.random() < 0.5:
        numbers = rng.sample(range(1, 100), rng.randint(3, 6))
        given, found = ", ".join(map(str, numbers)), ", ".join(map(str, sorted(numbers)))
        return [f"Sort these numbers: {given}", f"In order: {found}."]
    words = rng.sample(
        [thing for things in _KINDS_OF_THINGS.values() for thing in things if " " not in thing], 4
    )
    found = ", ".join(sorted(words, key=str.lower))
    return [f"Put these words in alphabetical order: {', '.join(words)}", f"In order: {found}."]


_PLAIN_WORDS = (
    "cat", "house", "river", "garden", "winter", "letter", "bridge", "candle", "music", "planet",
    "orange", "window", "friend", "summer", "ticket", "forest", "kitchen", "pencil", "silver",
)  # fmt: skip


def _spelling(rng: random.Random) -> Turns:
    word = rng.choice(_PLAIN_WORDS)
    match rng.randrange(4):
        case 0:
            return [f"How do you spell {word}?", f"{word.capitalize()} is spelled "
                    + "-".join(word) + "."]  # fmt: skip
        case 1:
            return [f"How many letters does the word {word} have?",
                    f"The word {word} has {len(word)} letters: {', '.join(word)}."]  # fmt: skip
        case 2:
            return [f"What is the first letter of {word}?",
                    f"The first letter of {word} is {word[0].upper()}."]  # fmt: skip
        case _:
            return [f"Write {word} in capital letters.", word.upper()]


def _counting(rng: random.Random) -> Turns:
    start = rng.choice((1, 1, 1, rng.randint(2, 30)))
    end, step = start + rng.randint(4, 15), rng.choice((1, 1, 1, 2))
    numbers = list(range(start, end + 1, step))
    if rng.random() < 0.25:
        return [f"Count down from {end} to {start}.",
                ", ".join(str(n) for n in range(end, start - 1, -1)) + "."]  # fmt: skip
    by = f" in steps of {step}" if step > 1 else ""
    return [f"Count from {start} to {end}{by}.", ", ".join(map(str, numbers)) + "."]


_PROGRAMS: tuple[tuple[str, str, str], ...] = (
    ("prints the numbers from 1 to {n}", "for i in range(1, {m}):\n    print(i)",
     "`range(1, {m})` stops before {m}."),
    ("adds up a list of numbers", "def total(numbers):\n    return sum(numbers)",
     "`sum` adds up everything in the list."),
    ("tells whether a number is even", "def is_even(n):\n    return n % 2 == 0",
     "`n % 2` is what is left when n is divided by 2."),
    ("reverses a text", "def reverse(text):\n    return text[::-1]",
     "The slice `[::-1]` goes through the text backwards."),
    ("finds the largest number in a list", "def largest(numbers):\n    return max(numbers)",
     "`max` returns the largest item."),
    ("counts the words in a text", "def count_words(text):\n    return len(text.split())",
     "`split` cuts the text at its spaces."),
    ("squares every number in a list",
     "def squares(numbers):\n    return [n * n for n in numbers]",
     "This is a list comprehension: one new item for every old one."),
    ("prints hello {n} times", 'for _ in range({n}):\n    print("Hello")',
     "`range({n})` makes the loop run {n} times."),
    ("reads a file", 'with open("notes.txt") as file:\n    text = file.read()',
     "The `with` statement closes the file when it is done."),
    ("computes a factorial",
     "def factorial(n):\n    if n <= 1:\n        return 1\n    return n * factorial(n - 1)",
     "The function calls itself with a smaller number until it reaches 1."),
    ("converts Celsius to Fahrenheit", "def fahrenheit(celsius):\n    return celsius * 9 / 5 + 32",
     "Multiply by 9, divide by 5, add 32."),
    ("counts the vowels in a word",
     'def vowels(word):\n    return sum(letter in "aeiou" for letter in word.lower())',
     "Each comparison counts as 1 where it is true."),
    ("sorts a list of names", 'names = ["Zoe", "Ada", "Ben"]\nprint(sorted(names))',
     "`sorted` returns a new list in alphabetical order."),
)  # fmt: skip


def _program(rng: random.Random) -> Turns:
    what, code, why = rng.choice(_PROGRAMS)
    n = rng.randint(3, 20)
    ask = _said(
        rng, "Write Python code that {w}.", "Write a Python program that {w}.",
        "How do I write Python code that {w}?", "Give me a short Python script that {w}.",
    )  # fmt: skip
    fill = {"n": n, "m": n + 1}
    shown = code.replace("{n}", str(n)).replace("{m}", str(n + 1))
    told = why.replace("{n}", str(n)).replace("{m}", str(n + 1))
    turns = [ask.format(w=what.format(**fill)), f"```python\n{shown}\n```\n\n{told}"]
    if rng.random() < 0.2:
        turns += [_said(rng, "Thanks!", "Thank you."), "You are welcome!"]
    return turns


_KINDS: tuple[Callable[[random.Random], Turns], ...] = (
    _plus, _minus, _times, _divided, _compared, _even, _percent, _units, _temperature, _calendar,
    _list, _sorting, _spelling, _counting, _program,
)  # fmt: skip
_WEIGHTS = (10, 7, 8, 5, 3, 2, 4, 9, 2, 7, 14, 4, 5, 4, 10)

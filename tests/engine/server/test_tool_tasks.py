"""Thirty tasks with six tools: does a real model call the right one with the right arguments?"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from dialect_bodies import CHAT, at_home
from engine_session import PATIENCE
from household import Household

RIGHT = 24
"""So many of the thirty at least."""

_TEXT, _NUMBER = {"type": "string"}, {"type": "number"}


def _tool(name: str, description: str, **properties: Any) -> dict[str, Any]:
    parameters = {"type": "object", "properties": properties, "required": list(properties)}
    function = {"name": name, "description": description, "parameters": parameters}
    return {"type": "function", "function": function}


TOOLS = [
    _tool("get_weather", "The weather in a city today.", city=_TEXT),
    _tool("get_time", "The time in a city now.", city=_TEXT),
    _tool("convert_money", "Convert an amount of money.", amount=_NUMBER, source=_TEXT, to=_TEXT),
    _tool("set_timer", "Start a timer.", minutes=_NUMBER),
    _tool("send_message", "Send a message to a person.", person=_TEXT, text=_TEXT),
    _tool("search_files", "Find files by a word in their names.", word=_TEXT),
]
TASKS: list[tuple[str, str, dict[str, Any]]] = [
    ("What is the weather in Paris?", "get_weather", {"city": "paris"}),
    ("Do I need an umbrella in London today?", "get_weather", {"city": "london"}),
    ("How warm is it in Madrid?", "get_weather", {"city": "madrid"}),
    ("Is it raining in Oslo?", "get_weather", {"city": "oslo"}),
    ("Tell me the weather for Tokyo.", "get_weather", {"city": "tokyo"}),
    ("What time is it in Sydney?", "get_time", {"city": "sydney"}),
    ("Tell me the current time in Berlin.", "get_time", {"city": "berlin"}),
    ("How late is it now in Toronto?", "get_time", {"city": "toronto"}),
    ("What is the local time in Cairo right now?", "get_time", {"city": "cairo"}),
    ("Which time do the clocks show in Lima?", "get_time", {"city": "lima"}),
    ("Convert 100 USD to EUR.", "convert_money", {"amount": 100, "source": "usd", "to": "eur"}),
    ("How much is 20 EUR in GBP?", "convert_money", {"amount": 20, "source": "eur", "to": "gbp"}),
    ("Change 5000 JPY into USD.", "convert_money", {"amount": 5000, "source": "jpy", "to": "usd"}),
    ("What are 75 CHF in EUR?", "convert_money", {"amount": 75, "source": "chf", "to": "eur"}),
    ("I have 12.5 GBP. How many SEK?", "convert_money", {"amount": 12.5, "source": "gbp"}),
    ("Set a timer for 10 minutes.", "set_timer", {"minutes": 10}),
    ("Wake me in 25 minutes.", "set_timer", {"minutes": 25}),
    ("The eggs need 6 minutes. Start the timer.", "set_timer", {"minutes": 6}),
    ("Timer: half an hour, please.", "set_timer", {"minutes": 30}),
    ("Remind me in an hour with a timer.", "set_timer", {"minutes": 60}),
    ("Send Anna the message: I am late.", "send_message", {"person": "anna"}),
    ("Write to Bob that dinner is ready.", "send_message", {"person": "bob"}),
    ("Tell Carol by message: see you at eight.", "send_message", {"person": "carol"}),
    ("Message Dave: the meeting is moved.", "send_message", {"person": "dave"}),
    ("Let Eve know by message that I have arrived.", "send_message", {"person": "eve"}),
    ("Find all files with invoice in their names.", "search_files", {"word": "invoice"}),
    ("Search my files for budget.", "search_files", {"word": "budget"}),
    ("Where are the files called holiday?", "search_files", {"word": "holiday"}),
    ("Look for files named report.", "search_files", {"word": "report"}),
    ("Which files have recipe in the name?", "search_files", {"word": "recipe"}),
]


def _right(call: dict[str, Any], name: str, wanted: dict[str, Any]) -> bool:
    given = json.loads(call["arguments"])
    plain = {
        key: str(value).lower() if isinstance(value, str) else value for key, value in given.items()
    }
    return call["name"] == name and all(plain.get(key) == value for key, value in wanted.items())


@pytest.mark.release(reason="a real model of 1.1 GB answers thirty times")
def test_a_real_model_calls_the_right_tool(bench_models: Path) -> None:
    file = bench_models / "qwen2.5-coder-1.5b-instruct-q4_k_m.gguf"
    if not file.exists():
        pytest.skip(f"{file.name} is not here: packaging/bench_models.py fetches it")
    household = Household()
    wrong: list[str] = []
    try:
        household.load(file)
        for question, name, wanted in TASKS:
            messages = [{"role": "user", "content": question}]
            body = {"messages": messages, "tools": TOOLS, "max_tokens": 96, "temperature": 0}
            (choice,) = at_home(household, CHAT, body)["choices"]
            calls = [call["function"] for call in choice["message"].get("tool_calls") or ()]
            if len(calls) != 1 or not _right(calls[0], name, wanted):
                wrong.append(f"{question} -> {calls or choice['message']['content']}")
    finally:
        household.engine.close(PATIENCE)
    assert len(TASKS) - len(wrong) >= RIGHT, "\n".join(wrong)

"""Every day without PyTorch: nothing imports it, and where it is not here, all goes on."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
from folder_models import FOLDER_TARGET
from safetensors.numpy import save_file

ROOT = Path(__file__).parents[2]
WITHOUT = """
import importlib.abc, importlib.metadata, sys

class Hidden(importlib.abc.MetaPathFinder):
    def find_spec(self, name, path=None, target=None):
        if name.partition(".")[0] in ("torch", "transformers", "triton"):
            raise ModuleNotFoundError(f"No module named {name!r}", name=name)

sys.meta_path.insert(0, Hidden())
found = importlib.metadata.distribution

def distribution(name):
    if name in ("torch", "transformers"):
        raise importlib.metadata.PackageNotFoundError(name)
    return found(name)

importlib.metadata.distribution = distribution
"""
"""A Python that has neither of them, as after `make run`."""


def without_torch(code: str, *arguments: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-c", WITHOUT + code, *arguments],
        cwd=ROOT,
        env={**os.environ, "QT_QPA_PLATFORM": "offscreen", "DUOTAIL_THREADS": "1"},
        capture_output=True,
        text=True,
        timeout=600,
    )


WINDOW = """
import sys
from pathlib import Path
from PySide6.QtCore import QTimer
from app.application import run
from app.data_folder.paths import Paths
from app.engine_link.status import Phase
from engine.events import Finished

def drive(assembly):
    assembly.bridge.subscribe(Finished, done.append)
    def look():
        if assembly.bridge.status.phase is Phase.READY and not sent:
            sent.append(True)
            assembly.window.chat.composer.field.setPlainText("Hello")
            assembly.window.chat.composer.send_button.click()
        if done:
            assembly.window.close()
    timer = QTimer(assembly.window, interval=20)
    timer.timeout.connect(look)
    timer.start()

sent, done, folder = [], [], Path(sys.argv[1])
run(Paths(folder / "data", folder / "config"), painted=drive, model=Path(sys.argv[2]))
print(done[0].reason)
"""
SERVE = """
import json, sys, threading, urllib.request
from app.launch import main
write = sys.stdout.write

def ask(line):
    told = json.loads(line)
    body = json.dumps({"messages": [{"role": "user", "content": "Hello"}], "max_tokens": 3})
    request = urllib.request.Request(told["url"] + "/chat/completions", body.encode(), {
        "content-type": "application/json", "authorization": "Bearer " + told["token"]})
    with urllib.request.urlopen(request) as answer:
        sys.stderr.write("usage: " + str(json.load(answer)["usage"]["completion_tokens"]))
    import os, signal
    os.kill(os.getpid(), signal.SIGTERM)

def heard(text):
    if text.strip():
        threading.Thread(target=ask, args=(text,), daemon=True).start()
    return write(text)

sys.stdout.write = heard
sys.exit(main())
"""


def other_model(folder: Path) -> Path:
    """A model of a family that only transformers runs; its weights do not matter."""
    config = {
        "model_type": "bloom",
        "architectures": ["BloomForCausalLM"],
        "vocab_size": 512,
        "hidden_size": 16,
        "n_layer": 1,
        "n_head": 1,
    }
    (folder / "config.json").write_text(json.dumps(config))
    save_file({"w": np.zeros((16, 16), np.float32)}, folder / "model.safetensors")
    shutil.copy(FOLDER_TARGET / "tokenizer.json", folder)
    return folder


def duotail(*arguments: str) -> subprocess.CompletedProcess[str]:
    return without_torch("from app.launch import main; sys.exit(main())", *arguments)


def test_it_is_really_without() -> None:
    done = without_torch(
        "from engine.pytorch import is_installed; print(is_installed()); import torch"
    )
    assert done.stdout == "False\n"
    assert "ModuleNotFoundError" in done.stderr


@pytest.mark.parametrize("mode", ["plain", "cpu", "duo", "dovetail"])
def test_chats_in_every_mode(mode: str) -> None:
    simulated = ["--simulate-gpu", "1"] if mode in ("duo", "dovetail") else []
    done = duotail(
        "chat", "--prompt", "Hello", "--max-tokens", "8", "--mode", mode, "--json", *simulated
    )
    assert done.returncode == 0, done.stderr
    assert json.loads(done.stdout)["committed"] > 0


@pytest.mark.parametrize(
    "command",
    [
        ("plan", "--json"),
        ("hardware", "--json"),
        ("models", "--json"),
        ("bench", "decode", "--json", "--threads", "1"),
    ],
)
def test_the_other_commands(command: tuple[str, ...]) -> None:
    done = duotail(*command)
    assert done.returncode == 0, done.stderr
    assert json.loads(done.stdout)


def test_opens_its_window_and_answers(tmp_path: Path) -> None:
    done = without_torch(WINDOW, str(tmp_path), str(FOLDER_TARGET))
    assert done.returncode == 0, done.stderr
    assert done.stdout.strip() in ("stop", "length", "context"), done.stderr


def test_serves() -> None:
    done = without_torch(SERVE, "serve", "--model", str(FOLDER_TARGET), "--json")
    assert "usage: 3" in done.stderr, done.stderr


def test_training_says_what_it_needs_and_how_large_that_is(tmp_path: Path) -> None:
    data = tmp_path / "data.jsonl"
    data.write_text('{"messages": []}\n')
    done = duotail("train-draft", "--data", str(data), "--out", str(tmp_path / "out"))
    assert done.returncode == 3, done.stderr
    assert "Training needs PyTorch" in done.stderr
    assert "duotail pytorch" in done.stderr
    assert "220" in done.stderr
    assert "Traceback" not in done.stderr


def test_a_family_of_others_says_so_too(tmp_path: Path) -> None:
    folder = other_model(tmp_path)
    done = duotail("chat", "--model", str(folder), "--prompt", "Hello", "--json")
    assert done.returncode == 3, done.stderr
    told = json.loads(done.stdout)
    assert "“bloom” model needs PyTorch" in told["error"]
    planned = duotail("plan", "--model", str(folder), "--json")
    assert planned.returncode == 0, planned.stderr


def test_floats_in_full_say_so() -> None:
    done = without_torch(
        "from engine.backend.cpu import CpuDevice\\n"
        "from engine.commands import WeightFormat\\n"
        "from engine.pytorch import PyTorchAbsent\\n"
        'try:\\n    CpuDevice().backend(WeightFormat.F32, "target")\\n'
        "except PyTorchAbsent as error:\\n    print(error.cause)".replace("\\n", "\n")
    )
    assert "Computing in f32 needs PyTorch" in done.stdout, done.stderr


CHAT = """
import sys
from engine.cli import main
code = main(["chat", "--prompt", "Hello", "--max-tokens", "8", "--mode", "cpu", "--json"])
heavy = {"torch", "transformers"} & set(sys.modules)
sys.exit(code or (f"imported {heavy}" if heavy else 0))
"""


def test_a_speculative_answer_needs_no_torch() -> None:
    hidden = dict.fromkeys(("CUDA_VISIBLE_DEVICES", "ZE_AFFINITY_MASK"), "-1")
    done = subprocess.run(
        [sys.executable, "-c", CHAT],
        capture_output=True,
        text=True,
        timeout=300,
        env={**os.environ, **hidden},  # as on a machine without an accelerator
    )
    assert done.returncode == 0, done.stderr
    assert '"signature": "cpu:q8' in done.stdout

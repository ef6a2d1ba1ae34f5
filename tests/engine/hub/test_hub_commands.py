"""`duotail models search`, `show`, `list` and `download`."""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from dataclasses import dataclass, replace
from pathlib import Path

import pytest
from command_line import Duotail, Outcome
from folder_models import FOLDER_DRAFT
from local_hub import LocalHub

from engine.cli.hub import chosen
from engine.cli.hub_report import write_found, write_repository
from engine.cli.models_command import completed
from engine.errors import UserFixable
from engine.hub.messages import FoundRepository, Packaging, RemoteFile, Repository, Variant
from engine.hub.remote.addresses import Address

REPO = "duotail/tiny"
GGUF = "someone/some-gguf"


@dataclass(frozen=True)
class Command:
    """`duotail models`, at a hub of its own."""

    duotail: Duotail
    hub: LocalHub
    folder: Path

    def __call__(self, action: str, *arguments: str, json_: bool = True) -> Outcome:
        asks = () if action == "list" else ("--endpoint", self.hub.url)
        return self.duotail("models", action, *arguments, *asks, *(("--json",) if json_ else ()))


@pytest.fixture
def models(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> Iterator[Command]:
    monkeypatch.setattr("huggingface_hub.constants.HF_HUB_OFFLINE", False)
    monkeypatch.setenv("HF_HUB_OFFLINE", "0")
    monkeypatch.setenv("HF_HOME", str(tmp_path / "hf"))
    monkeypatch.setenv("DUOTAIL_DATA_DIR", str(tmp_path / "data"))
    monkeypatch.setenv("PYTHON_KEYRING_BACKEND", "keyring.backends.fail.Keyring")
    with LocalHub() as hub:
        facts = {"tags": ["gguf", "license:mit"], "downloads": 12_345}
        files = {"m-Q4_K_M.gguf": b"small", "m-Q8_0.gguf": b"larger", "x.bin": b"old"}
        hub.publish(GGUF, files, facts=facts)
        yield Command(Duotail(capsys, monkeypatch), hub, tmp_path)


def test_search_lists_models(models: Command) -> None:
    found = models("search", "some", "--packaging", "gguf", "--limit", "5")
    assert (found.code, found.err) == (0, "")
    (row,) = found.json["models"]
    assert (row["repo"], row["packagings"], row["downloads"]) == (GGUF, ["gguf"], 12_345)
    table = models("search", GGUF, json_=False)
    assert table.code == 0
    assert "12.3k" in table.out
    assert "mit" in table.out


def test_a_hub_has_an_address(models: Command) -> None:
    done = models.duotail("models", "search", "some", "--endpoint", "no address")
    assert done.code == 2
    assert "no address" in done.err


def test_show_tells_what_can_be_had_and_what_not(models: Command) -> None:
    shown = models("show", f"{models.hub.url}/{GGUF}/blob/main/m-Q8_0.gguf").json
    assert [each["name"] for each in shown["variants"]] == ["Q4_K_M", "Q8_0"]
    assert shown["variants"][0]["files"][0]["path"] == "m-Q4_K_M.gguf"
    assert "hidden code" in shown["unusable"][0]
    refused = models("show", "someone/else")
    assert refused.code == 2
    assert "someone/else" in refused.json["error"]


def test_a_model_is_downloaded_listed_and_not_fetched_again(models: Command) -> None:
    folder = models.folder / FOLDER_DRAFT.name
    shutil.copytree(FOLDER_DRAFT, folder)
    models.hub.publish(REPO, folder, facts={"tags": ["safetensors", "license:apache-2.0"]})
    done = models("download", REPO)
    assert done.code == 0, done.err
    path = Path(done.json["path"])
    assert (path / "model.safetensors").read_bytes() == (folder / "model.safetensors").read_bytes()
    kept = [each for each in models("list").json["models"] if each["repo"] == REPO]
    assert [(each["path"], each["origin"], each["problem"]) for each in kept] == [
        (str(path), "downloaded", "")
    ]
    served = models.hub.served.copy()
    assert str(path) in models("list", json_=False).out
    again = models("download", REPO, json_=False)
    assert (again.code, again.out) == (0, f"{path}\n")
    new = models.hub.served - served
    assert f"{REPO}/model.safetensors" not in new, "what is here is not fetched again"


def repository(*names: str) -> Repository:
    """With a variant of each name, of one file."""
    variants = [
        Variant(name, Packaging.GGUF, (RemoteFile(f"{name}.gguf", 1, "0" * 64),), 1)
        for name in names
    ]
    return Repository(FoundRepository(GGUF), "0" * 40, tuple(variants), ("x.bin: old",))


def test_which_variant_is_meant() -> None:
    two, named = repository("Q4_K_M", "Q8_0"), Address(GGUF)
    assert chosen(two, named, "q8_0").name == "Q8_0"
    assert chosen(two, Address(GGUF, variant="Q4_K_M"), None).name == "Q4_K_M"
    assert chosen(two, Address(GGUF, file="Q8_0.gguf"), None).name == "Q8_0"
    assert chosen(repository("Q8_0"), named, None).name == "Q8_0"


@pytest.mark.parametrize(
    ("names", "wanted", "cause", "remedy"),
    [
        (("Q4_K_M", "Q8_0"), None, "several variants", "Q4_K_M, Q8_0"),
        (("Q4_K_M", "Q8_0"), "Q2_K", "no variant “Q2_K”", "Q4_K_M, Q8_0"),
        (("Q8_0",), "Q2_K", "no variant “Q2_K”", "Q8_0"),
        ((), None, "no model that Duotail can run", "another model"),
    ],
)
def test_a_variant_has_to_be_named(
    names: tuple[str, ...], wanted: str | None, cause: str, remedy: str
) -> None:
    with pytest.raises(UserFixable) as error:
        chosen(repository(*names), Address(GGUF), wanted)
    assert cause in error.value.cause
    assert remedy in error.value.remedy


def test_lists_for_people(capsys: pytest.CaptureFixture[str]) -> None:
    one = repository("Q8_0")
    found = replace(one.found, parameters=600_000_000, gated=True)
    write_repository(replace(one, found=found, context=4096), "https://hub/page", as_json=False)
    told = capsys.readouterr().out
    assert "600M parameters" in told
    assert "4,096 tokens of context" in told
    assert "Accept its terms first, at https://hub/page." in told
    assert "Q8_0" in told
    assert "x.bin: old" in told
    write_repository(repository(), "https://hub/page", as_json=False)
    assert "Duotail can use none of its variants." in capsys.readouterr().out
    write_found((), as_json=False)
    assert "No model" in capsys.readouterr().out
    write_found(
        (FoundRepository("a/b", parameters=600_000_000, gated=True, licence="\x1b[2J"),),
        as_json=False,
    )
    told = capsys.readouterr().out
    assert "600M" in told
    assert "\ufffd[2J" in told
    assert "(terms)" in told
    assert "\x1b" not in told, "a stranger's text commands no terminal"


def test_sizes_keep_the_blank_before_their_unit(capsys: pytest.CaptureFixture[str]) -> None:
    file = RemoteFile("m.gguf", 1_500_000, "0" * 64)
    large = Variant("Q8_0", Packaging.GGUF, (file,), file.nbytes)
    write_repository(Repository(FoundRepository(GGUF), "0" * 40, (large,)), "", as_json=False)
    assert "1.5\N{NO-BREAK SPACE}MB" in capsys.readouterr().out


def test_actions_are_told_from_paths() -> None:
    assert completed(["models", "search", "x"]) == ["models", "search", "x"]
    assert completed(["models", "./search"]) == ["models", "here", "./search"]
    assert completed(["models"]) == ["models", "here"]
    assert completed(["models", "--json"]) == ["models", "here", "--json"]
    assert completed(["models", "--help"]) == ["models", "--help"]
    assert completed(["chat", "search"]) == ["chat", "search"]

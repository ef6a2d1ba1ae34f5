"""Models on this computer: the bundled ones, and any folder that a user names."""

from __future__ import annotations

from dataclasses import dataclass
from importlib.resources import files
from pathlib import Path

from engine.errors import UserFixable
from engine.language import listed, tr
from engine.model.config import ModelConfig
from engine.model.json_object import JsonObject
from engine.model.model_weights import ModelWeights

BUNDLED_TARGET = "duotail-7m"
SIDECAR = "duotail.json"


@dataclass(frozen=True, slots=True)
class ModelFolder:
    """A usable model folder. `draft` is the folder of the draft model that belongs to it."""

    path: Path
    name: str
    config: ModelConfig
    draft: Path | None
    weight_bytes: int

    @classmethod
    def inspect(cls, path: Path) -> ModelFolder:
        """Check config and weights (headers only) and read the optional sidecar `duotail.json`.

        Raises `UserFixable` for whatever would keep the model from loading.
        """
        if not path.is_dir():
            raise UserFixable(
                tr("There is no folder {path}.").format(path=path),
                tr("Choose the folder that holds the model."),
                str(path),
            )
        config = ModelConfig.open(path)
        weights = ModelWeights.of_folder(config, path)
        sidecar = JsonObject.read_optional(path / SIDECAR)
        return cls(
            path=path,
            name=(sidecar.text("name") or path.resolve().name)[:200],
            config=config,
            draft=_draft(path, sidecar),
            weight_bytes=weights.nbytes,
        )


def bundled_models_root() -> Path:
    """The folder of the models that come with Duotail."""
    root = files("resources") / "models"
    if not isinstance(root, Path):
        raise UserFixable(
            tr("Duotail was installed as a packed archive, which its models cannot be read from."),
            tr("Install it again with pipx, uv tool or one of the installers."),
            str(root),
        )
    return root


def bundled_target() -> Path:
    """The folder of the bundled chat model."""
    return bundled_models_root() / BUNDLED_TARGET


def bundled_names() -> tuple[str, ...]:
    """Names of the bundled models, as `resolve_model` takes them."""
    root = bundled_models_root()
    folders = root.iterdir() if root.is_dir() else ()
    return tuple(sorted(entry.name for entry in folders if (entry / "config.json").exists()))


def resolve_model(name_or_path: str | None) -> Path:
    """The folder of a bundled name or a path; None stands for the bundled model.

    A folder wins over a bundled model of the same name only when written as a path (`./name`).
    Raises `UserFixable` when there is no such model.
    """
    if name_or_path is None:
        return bundled_target()
    if name_or_path in bundled_names():
        return bundled_models_root() / name_or_path
    try:
        path = Path(name_or_path).expanduser()
        if name_or_path and path.is_dir():
            return path.resolve()
        is_file = path.is_file()
    except (OSError, ValueError, RuntimeError) as error:
        raise _no_such_model(name_or_path) from error
    if is_file:
        raise UserFixable(
            tr("{path} is a file, not a model folder.").format(path=path.name),
            tr("Choose the folder that holds config.json, tokenizer.json and the weights."),
            str(path),
        )
    raise _no_such_model(name_or_path)


def _no_such_model(name: str) -> UserFixable:
    return UserFixable(
        tr("There is no model “{name}”.").format(name=name[:200]),
        tr("Name a folder, or one of the bundled models: {names}.").format(
            names=listed(bundled_names())
        ),
    )


def _draft(path: Path, sidecar: JsonObject) -> Path | None:
    """The sidecar's draft, relative to the model's own folder; None when it is not there."""
    relative = sidecar.text("draft")
    if relative is None or "\0" in relative:
        return None
    draft = (path / relative).resolve()
    return draft if (draft / "config.json").is_file() else None

"""Every setting, declared once: its default, what it can hold, where and how the page shows it."""

from __future__ import annotations

from dataclasses import dataclass, field, fields, replace
from enum import StrEnum
from pathlib import Path

from app.history.records import ChatSetup
from app.settings.hub_access import (
    usable_endpoint,
    usable_hosts,
    usable_origins,
    usable_path,
    usable_proxy,
)
from app.settings.kinds import (
    Browse,
    Choice,
    Number,
    Prose,
    SettingKind,
    Switch,
    Whole,
    Word,
    Words,
)
from app.settings.presets import (
    BALANCED,
    BUILT_IN,
    STARTER,
    Preset,
    Presets,
    recommended_preset,
)
from app.settings.profiles import ModelProfile, ProfiledModel, Profiles
from app.settings.prompts import BUILT_IN_PROMPTS, Prompts, SavedPrompt
from app.theme.theme import ThemeChoice
from engine.hub.remote.addresses import USUAL_ENDPOINT
from engine.language import LANGUAGES, PSEUDO, later
from engine.request import SamplingParams

SYSTEM = "system"
"""The language of the system."""
BY_MODEL = ""
"""The starter model's own preset for it; what other models recommend, or the balanced preset."""
SMALLEST_FONT, LARGEST_FONT, FONT_STEP = 0.8, 1.6, 0.1
_MOST = 2**63 - 1


class SettingsSection(StrEnum):
    """The parts of the settings page, in order; the values are texts for `tr`."""

    GENERAL = later("General")
    APPEARANCE = later("Appearance")
    CHAT = later("Chat")
    MODELS = later("Models")
    TOOLS = later("Tools")
    SERVER = later("Server")
    PRIVACY = later("Data and privacy")


@dataclass(frozen=True, slots=True)
class Spec:
    """Properties of a setting. Without a section it is kept, but not shown as a row."""

    kind: SettingKind
    section: SettingsSection | None = None
    label: str = ""
    """Texts for `tr`."""
    about: str = ""
    restart: bool = False
    """True if a change is seen only after the next start."""
    key: str = ""
    """Name in the file, where that is not the field's own."""


def _kept(kind: SettingKind, key: str = "") -> dict[str, Spec]:
    """Metadata of a setting that has no row."""
    return {"spec": Spec(kind, key=key)}


def _row(
    kind: SettingKind,
    section: SettingsSection,
    label: str,
    about: str,
    *,
    restart: bool = False,
    key: str = "",
) -> dict[str, Spec]:
    """Metadata of a setting that the page shows."""
    return {"spec": Spec(kind, section, label, about, restart, key)}


@dataclass(frozen=True, slots=True)
class Settings:
    """All settings that the user can choose."""

    language: str = field(
        default=SYSTEM,
        metadata=_row(
            Word(lambda text: text in {SYSTEM, PSEUDO, *LANGUAGES}),
            SettingsSection.GENERAL,
            later("Language"),
            later("The language of menus, buttons and messages."),
            restart=True,
        ),
    )
    reopen_last: bool = field(
        default=True,
        metadata=_row(
            Switch(),
            SettingsSection.GENERAL,
            later("Open the last conversation at start"),
            later("Otherwise Duotail starts with a new chat."),
        ),
    )
    theme: ThemeChoice = field(
        default=ThemeChoice.SYSTEM,
        metadata=_row(
            Choice(ThemeChoice, (later("Same as system"), later("Light"), later("Dark"))),
            SettingsSection.APPEARANCE,
            later("Theme"),
            later("“Same as system” follows your desktop and changes with it."),
        ),
    )
    font_scale: float = field(
        default=1.0,
        metadata=_row(
            Number(SMALLEST_FONT, LARGEST_FONT, FONT_STEP, percent=True),
            SettingsSection.APPEARANCE,
            later("Text size"),
            later("Relative to your system's text size."),
        ),
    )
    reduced_motion: bool = field(
        default=False,
        metadata=_row(
            Switch(),
            SettingsSection.APPEARANCE,
            later("Reduce motion"),
            later("No animations; changes appear at once."),
        ),
    )
    default_preset: str = field(
        default=BY_MODEL,
        metadata=_row(
            Word(),
            SettingsSection.CHAT,
            later("New conversations start with"),
            later("A preset holds sampling settings and a system prompt."),
        ),
    )
    presets: tuple[Preset, ...] = field(
        default=BUILT_IN,
        metadata=_row(
            Presets(),
            SettingsSection.CHAT,
            later("Presets"),
            later("Named sampling settings, with a system prompt if you like."),
            key="preset",
        ),
    )
    prompts: tuple[SavedPrompt, ...] = field(
        default=BUILT_IN_PROMPTS,
        metadata=_row(
            Prompts(),
            SettingsSection.CHAT,
            later("Prompts"),
            later("Texts that you use again and again. Type / in the message field to get one."),
            key="prompt",
        ),
    )
    instructions: str = field(
        default="",
        metadata=_row(
            Prose(20_000, later("I teach biology. Answer briefly, with one example.")),
            SettingsSection.CHAT,
            later("Custom instructions"),
            later(
                "About you, and how answers should be. Every conversation's system prompt begins"
                " with this text; each conversation can leave it out, next to its own prompt."
            ),
        ),
    )
    token_tint: bool = field(
        default=False,
        metadata=_row(
            Switch(),
            SettingsSection.CHAT,
            later("Underline drafted words"),
            later("Shows in every answer which words the draft proposed and the target accepted."),
        ),
    )
    show_thinking: bool = field(
        default=False,
        metadata=_row(
            Switch(),
            SettingsSection.CHAT,
            later("Show the model's thinking"),
            later("Otherwise it is folded; a click opens it."),
        ),
    )
    stop_repetition: bool = field(
        default=True,
        metadata=_row(
            Switch(),
            SettingsSection.CHAT,
            later("Stop answers that repeat themselves"),
            later("Small models can get stuck in a loop. You can always let an answer go on."),
        ),
    )
    hub_endpoint: str = field(
        default="",
        metadata=_row(
            Word(
                usable_endpoint,
                300,
                USUAL_ENDPOINT,
                later(
                    "Enter an address that begins with https://, without a user name or password."
                ),
            ),
            SettingsSection.MODELS,
            later("Model hub"),
            later("Address of a hub or a mirror. Empty: Hugging Face."),
        ),
    )
    hub_proxy: str = field(
        default="",
        metadata=_row(
            Word(
                usable_proxy,
                300,
                later("Same as system"),
                later("Enter an address like http://proxy:8080, without a password."),
            ),
            SettingsSection.MODELS,
            later("Proxy"),
            later(
                "Only for searching and downloading models. Set up a proxy with a password in "
                "your system."
            ),
        ),
    )
    hub_cache: str = field(
        default="",
        metadata=_row(
            Word(
                usable_path,
                4096,
                later("Default"),
                later("Enter the full path of a folder."),
                browse=Browse.FOLDER,
            ),
            SettingsSection.MODELS,
            later("Download folder"),
            later(
                "Default: the Hugging Face cache, which other programs share. Models in the "
                "previous folder stay there."
            ),
        ),
    )
    hub_other_login: bool = field(
        default=False,
        metadata=_row(
            Switch(),
            SettingsSection.MODELS,
            later("Use the sign-in of the “hf” command"),
            later("Uses the access token stored by “hf auth login” if none is entered here."),
        ),
    )
    serve: bool = field(
        default=False,
        metadata=_row(
            Switch(),
            SettingsSection.SERVER,
            later("Serve models to other programs"),
            later(
                "Programs on this computer can use the loaded model through an OpenAI-compatible "
                "server. Your own chats go first."
            ),
        ),
    )
    serve_network: bool = field(
        default=False,
        metadata=_row(
            Switch(),
            SettingsSection.SERVER,
            later("Allow other devices in your network"),
            later(
                "Everyone in your network who has the access token can use the model. Otherwise "
                "only programs on this computer can."
            ),
        ),
    )
    serve_load: bool = field(
        default=False,
        metadata=_row(
            Switch(),
            SettingsSection.SERVER,
            later("Load models on request"),
            later(
                "A request can name any model on the Models page, which then takes the place of "
                "the loaded one, in this window too."
            ),
        ),
    )
    serve_port: int = field(
        default=8484,
        metadata=_row(
            Whole(1024, 2**16 - 1),
            SettingsSection.SERVER,
            later("Port"),
            later("The number at the end of the server's address, from 1024 to 65535."),
        ),
    )
    serve_hosts: str = field(
        default="",
        metadata=_row(
            Word(
                usable_hosts,
                1000,
                later("Names of your network only"),
                later("Enter names like mypc.example.net, separated by blanks."),
            ),
            SettingsSection.SERVER,
            later("Host names"),
            later(
                "Further names by which programs may call the server. Names that end in .local, "
                ".lan, .internal, .home.arpa or .ts.net always work."
            ),
        ),
    )
    serve_origins: str = field(
        default="",
        metadata=_row(
            Word(
                usable_origins,
                2000,
                later("None"),
                later("Enter origins like https://chat.example:8080, separated by blanks."),
            ),
            SettingsSection.SERVER,
            later("Web pages"),
            later(
                "Origins of web pages that may use the server from a browser; they need the access "
                "token, too. All others are refused."
            ),
        ),
    )
    serve_embedding: str = field(
        default="",
        metadata=_row(
            Word(
                usable_path,
                4096,
                later("The loaded model"),
                later("Enter the full path of a file or folder."),
                browse=Browse.FILE,
            ),
            SettingsSection.SERVER,
            later("Embedding model"),
            later(
                "A model of the BERT family, as a GGUF file or a folder, that answers requests for "
                "embeddings in place of the loaded one."
            ),
        ),
    )
    serve_certificate: str = field(
        default="",
        metadata=_row(
            Word(
                usable_path,
                4096,
                later("None"),
                later("Enter the full path of a file."),
                browse=Browse.FILE,
            ),
            SettingsSection.SERVER,
            later("TLS certificate"),
            later("A PEM file. With it, what programs and the server exchange is encrypted."),
        ),
    )
    serve_key: str = field(
        default="",
        metadata=_row(
            Word(
                usable_path,
                4096,
                later("In the same file"),
                later("Enter the full path of a file."),
                browse=Browse.FILE,
            ),
            SettingsSection.SERVER,
            later("TLS private key"),
            later("The PEM file of the certificate's private key."),
        ),
    )
    model: str = field(default="", metadata=_kept(Word(longest=4096), key="last_model"))
    """The model used last; empty for the starter model."""
    start_model: str = field(default="", metadata=_kept(Word(longest=4096)))
    """The model that every start begins with; empty for the one used last."""
    contexts: tuple[str, ...] = field(default=(), metadata=_kept(Words(100)))
    """Tokens that the context of a model last had by itself, before its path: "8192=/models/a"."""
    folders: tuple[str, ...] = field(default=(), metadata=_kept(Words(8)))
    """Folders that file dialogs were left in, each behind what it was for: "files=/home/ada"."""
    profiles: tuple[ProfiledModel, ...] = field(default=(), metadata=_kept(Profiles(), key="model"))
    """How models run, the last used first."""
    recent_models: tuple[str, ...] = field(default=(), metadata=_kept(Words(8)))
    """Folders of models used before, the latest first."""
    sidebar_visible: bool = field(default=True, metadata=_kept(Switch()))
    performance_visible: bool = field(default=True, metadata=_kept(Switch()))
    performance_details: bool = field(default=False, metadata=_kept(Switch()))
    """True if all of the performance panel is on show, also below its fold."""
    last_conversation: int | None = field(default=None, metadata=_kept(Whole(0, _MOST)))
    window_width: int = field(default=1280, metadata=_kept(Whole(400, 20_000)))
    window_height: int = field(default=800, metadata=_kept(Whole(300, 20_000)))
    window_maximised: bool = field(default=False, metadata=_kept(Switch()))

    def profiled(self, model: Path) -> ProfiledModel:
        """Return how a model runs; as the planner thinks best where nothing is kept."""
        names = (str(model),) if self.model else (str(model), "")
        kept = {each.model: each for each in self.profiles}
        found = next((kept[name] for name in names if name in kept), ProfiledModel(str(model)))
        return replace(found, model=str(model))

    def with_profile(self, model: Path, profile: ModelProfile) -> tuple[ProfiledModel, ...]:
        """Return the kept profiles with another one for this model."""
        others = (each for each in self.profiles if each.model != str(model))
        return (self.profiled(model).with_profile(profile), *others)

    def with_name(self, model: Path, name: str) -> tuple[ProfiledModel, ...]:
        """Return the kept profiles with another name for this model."""
        others = (each for each in self.profiles if each.model != str(model))
        return (*others, replace(self.profiled(model), name=name))

    def font_scale_after(self, steps: int) -> float:
        """The text size so many steps up or down; none is the system's."""
        if not steps:
            return 1.0
        scale = round(self.font_scale + steps * FONT_STEP, 1)
        return min(max(scale, SMALLEST_FONT), LARGEST_FONT)

    def preset(self, name: str) -> Preset | None:
        """The preset of this name."""
        return next((preset for preset in self.presets if preset.name == name), None)

    def new_setup(
        self, *, starter: bool = False, recommended: SamplingParams | None = None
    ) -> ChatSetup:
        """Return the setup of a new conversation.

        Args:
            starter: whether the starter model answers, which has a preset of its own.
            recommended: the sampling that the model's own files recommend.
        """
        if self.default_preset:
            chosen = self.preset(self.default_preset)
            return ChatSetup() if chosen is None else chosen.in_use()
        own = self.preset(STARTER.name) if starter else None
        if own is None and recommended is not None:
            own = recommended_preset(recommended)
        own = own or self.preset(BALANCED.name)
        return BALANCED.setup if own is None else own.in_use()


SPECS: dict[str, Spec] = {each.name: each.metadata["spec"] for each in fields(Settings)}
"""Properties of each field of `Settings`, in order."""
DEFAULTS = Settings()

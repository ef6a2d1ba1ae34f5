"""Puts the window together from its services, and takes it apart again."""

from __future__ import annotations

import logging
import math
import signal
import sys
import time
from collections.abc import Callable, Sequence
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, cast

from PySide6.QtCore import QEvent, QMimeData, QObject, Qt, QTimer, Signal
from PySide6.QtGui import QClipboard, QGuiApplication
from PySide6.QtWidgets import QApplication, QWidget
from shiboken6 import createdByPython

from app.data_folder.instance import SingleInstance
from app.data_folder.paths import Paths
from app.diagnostics.logs import start_logging
from app.diagnostics.restart import start_again
from app.diagnostics.safe_mode import ASKED_FOR, CRASHED, LoadMark, enter_safe_mode, safe_mode_asked
from app.engine_link.background import numpy_whole
from app.engine_link.bridge import EngineBridge, EngineFactory, real_engine
from app.engine_link.measured import Measured, MeasuredSpeeds
from app.engine_link.measured_file import MeasuredFile
from app.engine_link.running import Running
from app.engine_link.status import Phase
from app.engine_link.window_loop import WindowLoop
from app.garbage import collect_here
from app.models.choice import ModelChoice
from app.models.manager import ModelManager
from app.models.server_book import ServerBook
from app.models.starter_offer import StarterDownload
from app.notices import report, tell
from app.performance.baseline import WithoutDraft
from app.performance.verdicts import Verdicts
from app.serving.model_server import ModelServer
from app.session.session import ChatSession
from app.settings import Settings, SettingsStore
from app.settings.hub_access import access_of
from app.settings.language import speak
from app.shell.data_move import settle_data
from app.shell.housekeeping import Housekeeping
from app.shell.main_window import MainWindow, Services
from app.shell.open_history import OpenHistory
from app.shell.page_names import PageName
from app.shell.replays import Replays
from app.shell.round_highlight import RoundHighlight
from app.shell.shown_answer import ShownAnswer
from app.shell.warm_up import warm_up
from app.signals import TypedSignal
from app.theme.theme import Theme
from app.tools.access import ToolAccess
from app.tuning.first_calibration import measure_once
from app.tuning.pressure import Pressure
from app.tuning.pressure_notice import PressureNotice
from app.tuning.run_choice import RunChoice
from app.widgets import file_dialog
from engine.events import Connected, Failed, LoadProgress, PlanReady, Unloaded
from engine.language import tr
from engine.model.bundled import is_starter
from engine.remote.servers import ServerKeys
from engine.remote.switchboard import Switchboard

if TYPE_CHECKING:
    from app.models.hub import Hub, HubMaker, Listener
    from app.performance.feed import Feed
    from app.performance.panel import PerformancePanel
    from app.serving.announcement import WindowAnnouncement
    from app.shell.page_stack import PageMakers
    from app.widgets.page_frame import PageFrame
    from engine.server.models import Catalogue

_log = logging.getLogger(__name__)

_ALIVE_S = 30.0
"""A load that made progress so lately hangs as little as it has crashed."""

_STARTING = {Phase.PREPARING, Phase.LOADING}
_UNSEEN_MS = 2000
"""A window that was not painted by then is hidden or minimised, and starts its engine as well."""


class _Errors(QObject):
    """Carries unexpected errors from any thread to the window."""

    arrived = TypedSignal[BaseException]()


class _FirstPaint(QObject):
    """Tells once when a window has been drawn for the first time, or nobody sees it."""

    painted = Signal()

    def __init__(self, window: QWidget) -> None:
        super().__init__(window)
        window.installEventFilter(self)
        self._unseen = QTimer(self, singleShot=True, interval=_UNSEEN_MS)
        self._unseen.timeout.connect(self.painted)
        self._unseen.start()

    def eventFilter(self, watched: QObject, event: QEvent) -> bool:  # noqa: N802
        """Emit `painted` after the first paint, so that what is queued runs behind the picture."""
        if event.type() is QEvent.Type.Paint:
            watched.removeEventFilter(self)
            if self._unseen.isActive():
                self._unseen.start(0)
        return False


class Assembly:
    """Window and services of one run. `close` saves and frees everything, in the right order.

    `simulate_gpu`: bytes of a simulated accelerator that takes the place of real ones.
    `device`: name of the only accelerator to use, as in "webgpu:0"; None: whichever is of use.
    `hub`: makes what the Models page works with; None: the real one.
    """

    def __init__(
        self,
        paths: Paths,
        theme: Theme,
        factory: EngineFactory = real_engine,
        settings: SettingsStore | None = None,
        simulate_gpu: int | None = None,
        hub: HubMaker | None = None,
        device: str | None = None,
    ) -> None:
        self.paths, self._simulate_gpu, self._device = paths, simulate_gpu, device
        self.settings = settings or SettingsStore(paths.settings)
        self._theme = theme
        self._look(self.settings.value)
        folders = file_dialog.FolderMemory(self.settings.folder, self.settings.keep_folder)
        file_dialog.memory = folders
        self.settings.changed.connect(self._look)
        self.history = OpenHistory(paths.history)
        self.store = self.history.store
        self.model_server = ModelServer(self.settings, self._served)
        self.loop, keys = WindowLoop(), ServerKeys()
        here = self.model_server.between(factory)
        self.bridge = EngineBridge(lambda emit: Switchboard(emit, here, self.loop.get, keys.key))
        self.session = ChatSession(self.store, self.bridge, self.settings)
        self.tools = ToolAccess(self.session, self.store, self.bridge, paths.tools, self.session)
        feed = performance_feed(self.bridge, self.session)
        kept = MeasuredFile(paths.measured)

        def keep_measured(revision: int, measured: Sequence[Measured]) -> None:
            if paths.data.is_dir():  # one that was taken away would seem to be there again
                kept.keep(revision, measured)

        self.measured = MeasuredSpeeds(self.bridge, kept.read, keep_measured)
        without = WithoutDraft(self.bridge, self.session, parent=self.bridge)
        self.verdicts = Verdicts(
            self.bridge, self.session, feed.model.verdicts, self._keep_verdict, parent=self.bridge
        )
        self.verdicts.changed.connect(without.changed)
        panel = performance_panel(feed, without, self.settings)
        running = Running(self.bridge, self.settings, simulate_gpu, device=device)
        self.models = ModelChoice(running, self.settings, self._on_disk)
        self.servers = ServerBook(paths.servers, keys, self.loop, self.bridge)
        choosing = RunChoice(running, self.bridge)
        self.model_manager = ModelManager(hub or self._real_hub, self.models, self.settings)
        pages = page_makers(
            self.model_manager, choosing, feed, without, self.session, self.measured, paths
        )
        services = Services(
            self.bridge,
            self.session,
            self.settings,
            theme,
            self.models,
            self.servers,
            choosing,
            panel,
            pages,
            self.model_server,
            self.tools,
        )
        self.window = MainWindow(services)
        self._attend(running, feed, without, panel)
        self.window.open_last()
        self.history.tell(lambda: self.house.start_anew(safe=False))

    def _attend(
        self, running: Running, feed: Feed, without: WithoutDraft, panel: PerformancePanel
    ) -> None:
        """Make what looks after the window once it is there."""
        paths = self.paths
        self._announced: WindowAnnouncement | None = None
        self._mark = LoadMark(paths.load_mark)
        self._heard = -math.inf
        """When a load last made progress."""
        self._asks = False
        """True if the user is asked before the model is loaded that the last start died with."""
        self._starter: Callable[[], Path | None] = self._starter_here
        self._offering = StarterDownload(
            self.window.starter_offer, self.models, self.model_manager, self._find_starter
        )
        self.pressure = Pressure(running, self.bridge)
        PressureNotice(self.pressure)
        self.house = Housekeeping(
            *(paths, self.settings, self._theme, self.session, self.model_server),
            *(self.tools, self.window),
        )
        self.window.settings_asked.connect(self.house.show_settings)
        self.window.comparison_asked.connect(partial(_compare, without, self.window))
        self.window.update_asked.connect(self.house.look_for_update)
        self.window.server_indicator.clicked.connect(self.house.show_requests)
        self.model_server.failed.connect(self.house.tell_of_server)
        self.window.chat.tools_managed.connect(self.house.show_tools)
        self.window.chat.prompt_menu.manage_asked.connect(self.house.show_prompts)
        self.house.forget_measured_asked.connect(self.measured.clear)
        highlight = RoundHighlight(self.session, self.window.chat.transcript, panel, self.window)
        ShownAnswer(self.store, self.session, feed, highlight, self.window)
        self.replays = Replays(self.store, self.session, self.window.pages, without, self.window)
        self.window.chat.transcript.requests.show_rounds.connect(self.replays.show)

    def start(
        self,
        starter: Callable[[], Path | None] | None = None,
        *,
        model: Path | None = None,
        measure: bool = False,
    ) -> None:
        """Start the engine and load a model.

        Args:
            model: this one; None: the one used last, else the starter model if it is here. After
                a start that never got ready with the one used last, the user is asked first.
            starter: finds the starter model, in any thread; None: as usual.
            measure: have a machine measured that never was; in safe mode it is not.
        """
        mark, chosen = self._mark, self.settings.value.model
        died, last = mark.left_behind, Path(chosen)
        self._asks = asks = (
            died and model is None and chosen != "" and last.exists() and not is_starter(last)
        )
        if died or safe_mode_asked():
            enter_safe_mode()
            if not asks:
                tell(tr(CRASHED if died else ASKED_FOR))
        elif measure:
            measure_once(self.bridge)
        from app.serving.announcement import WindowAnnouncement  # not for the first picture

        self._announced = WindowAnnouncement(self.paths.data, self.bridge, self.model_server)
        self.bridge.subscribe(LoadProgress, lambda _event: self._hear())
        for answer in (PlanReady, Connected, Unloaded, Failed):
            self.bridge.subscribe(answer, lambda _event: mark.clear())
        # Not while the engine is imported: the window's thread would wait for the others.
        self.bridge.imported.connect(self._engine_there, Qt.ConnectionType.SingleShotConnection)
        self._starter = starter or self._starter
        if asks:
            from app.models.crash_offer import offer_starter  # only after a start that died

            self.bridge.start()
            offer_starter(self.models, last, self._starter(), mark.set)
        else:
            mark.set()
            self._load_first(model)
        self.model_server.start()

    def _engine_there(self) -> None:
        """Do what need not be done at once, beside the load."""
        warm_up(self.window, self.models.refresh)
        if self.settings.value.look_for_updates:
            self.house.updates.ask_if_allowed()
        if self.paths.downloads.exists():
            self.model_manager.go_on()

    def welcome(self) -> None:
        """Greet whoever starts Duotail for the first time."""
        from app.shell.first_start import FirstStart

        FirstStart(self.window, self.settings, self.bridge, self.session, self.house, self.paths)

    def _hear(self) -> None:
        """The load that is under way makes progress."""
        self._heard = time.monotonic()

    def _load_first(self, model: Path | None) -> None:
        elsewhere = self.servers.last() if model is None else None
        if model is None:
            self.bridge.start(lambda: elsewhere or self.models.first_load(self._starter))
        else:
            self.bridge.start()
            self.models.load_path(model)

    def started_again(self, file: Path | None) -> None:
        """Show the window, with a model that was opened from outside."""
        self.window.come_forward()
        if file is not None:
            self.window.pages.show_chat()
            self.models.load_path(file)

    def close(self) -> None:
        """Stop the engine, save what it still had to say, close the files."""
        if self._announced is not None:
            self._announced.close()
        self.model_server.close()
        self.session.stop()
        self.model_manager.close()
        self.tools.close()
        self.loop.close()
        ended = self.bridge.close() or time.monotonic() - self._heard < _ALIVE_S
        if ended and not self._asks:
            self._mark.clear()  # a start without a model, or one that was quit, is no crash
        self.session.shut_down()
        self.settings.flush()
        self.measured.flush()
        self.history.close()
        _hand_over_clipboard()

    def _real_hub(self, listener: Listener) -> Hub:
        from app.models.hub import HubContext
        from app.models.real_hub import real_hub

        around = HubContext(
            self.paths.data,
            self._simulate_gpu,
            self._device,
            self._in_use,
            lambda: tuple(Path(path) for path in self.settings.value.recent_models),
            self._cache,
            lambda: self.settings.value.hub_other_login,
        )
        return real_hub(around, listener)

    def _served(self) -> Catalogue:
        """Return what finds the models that requests may load, each by its profile."""
        numpy_whole()
        from engine.hub.shelf.shelf import ModelShelf
        from engine.server.catalogue import shelf_catalogue

        shelf = ModelShelf(self.paths.data, self._cache())

        def more() -> list[Path]:
            used = [Path(path) for path in self.settings.value.recent_models]
            starter = self._starter()
            return used if starter is None else [*used, starter]

        return shelf_catalogue(shelf, self.models.running.kept_load, more)

    def _keep_verdict(self, message_id: int, packed: str) -> None:
        """Keep it once the answer's words are kept, which are more important."""
        self.session.writer.saving.write(
            -message_id, partial(self.store.answers.keep_verdict, message_id, packed)
        )

    def _on_disk(self) -> list[Path]:
        """Return the models that are kept, for answers; reads the disk."""
        numpy_whole()
        from engine.hub.shelf.shelf import ModelShelf

        kept = ModelShelf(self.paths.data, self._cache()).models(elsewhere=False)
        return [each.path for each in kept if not each.head and not each.problem]

    def _find_starter(self) -> Path | None:
        return self._starter()

    def _starter_here(self) -> Path | None:
        from engine.hub.local import find_default

        return find_default(self.paths.data, self._cache())

    def _cache(self) -> Path | None:
        """The cache of the hub, where the settings name another one than the usual."""
        named = access_of(self.settings.value).cache
        return None if named is None else Path(named)

    def _in_use(self) -> tuple[Path, ...]:
        """Return the models that are loaded, or about to be."""
        last = self.bridge.status.wanted
        if last is None:
            return ()
        return (last.model, *([last.draft] if isinstance(last.draft, Path) else []))

    def _look(self, settings: Settings) -> None:
        self._theme.apply(
            settings.theme,
            font_scale=settings.font_scale,
            reduced_motion=settings.reduced_motion,
        )


def performance_feed(bridge: EngineBridge, session: ChatSession) -> Feed:
    """Return the feed of performance panel and page, with every question and every event."""
    from app.performance.feed import Feed

    feed = Feed(bridge)
    session.asked.connect(feed.asked)
    bridge.frame.connect(feed.handle_all)
    return feed


def performance_panel(
    feed: Feed, without: WithoutDraft, settings: SettingsStore
) -> PerformancePanel:
    """The performance panel, with its details open or closed as they were."""
    from app.performance.panel import PerformancePanel

    panel = PerformancePanel(feed, without)
    fold = panel.board.fold
    fold.set_open(opened=settings.value.performance_details)
    fold.toggled.connect(lambda opened: settings.change(performance_details=opened))
    return panel


def _compare(without: WithoutDraft, window: QWidget) -> None:
    from app.performance.side_by_side import compare

    compare(without, window)


def page_makers(
    manager: ModelManager,
    choosing: RunChoice,
    feed: Feed,
    without: WithoutDraft,
    session: ChatSession,
    measured: MeasuredSpeeds,
    paths: Paths,
) -> PageMakers:
    """Return the makers of the pages; none of them is imported before it is asked for."""

    def tuning() -> PageFrame:
        from app.tuning.tuning_page import TuningPage

        return TuningPage(choosing, session, measured)

    def performance() -> PageFrame:
        from app.performance.known_speeds import KnownSpeeds
        from app.performance.performance_page import PerformancePage

        bridge = choosing.running.bridge
        return PerformancePage(feed, without, KnownSpeeds(bridge, bridge))

    def benchmark() -> PageFrame:
        from app.benchmark.benchmark import Benchmark
        from app.benchmark.benchmark_page import BenchmarkPage
        from app.benchmark.kept import KeptReports

        kept = KeptReports(paths.benchmarks)
        return BenchmarkPage(Benchmark(choosing.running, kept, parent=choosing.running.bridge))

    return {
        PageName.MODELS: manager.page,
        PageName.TUNING: tuning,
        PageName.PERFORMANCE: performance,
        PageName.BENCHMARK: benchmark,
    }


def _hand_over_clipboard() -> None:
    """Leave copied text in an object of Qt's own.

    A selection is copied as one of Python's, and Qt lets go of it when Python is gone already:
    the process would end with a crash.
    """
    clipboard = QGuiApplication.clipboard()
    modes = [QClipboard.Mode.Clipboard]
    if clipboard.supportsSelection():
        modes.append(QClipboard.Mode.Selection)
    for mode in modes:
        held = cast("QMimeData | None", clipboard.mimeData(mode))  # nothing was ever copied
        if held is not None and createdByPython(held):
            clipboard.setText(held.text(), mode)


def make_application() -> QApplication:
    """The Qt application with its name, for desktop files and folders."""
    existing = QApplication.instance()
    application = existing if isinstance(existing, QApplication) else QApplication(sys.argv[:1])
    application.setApplicationName("duotail")
    application.setApplicationDisplayName("Duotail")
    application.setDesktopFileName("duotail")
    collect_here(application)
    return application


def run(
    paths: Paths,
    factory: EngineFactory = real_engine,
    painted: Callable[[Assembly], None] | None = None,
    language: str = "",
    *,
    model: Path | None = None,
    measure: bool = False,
    simulate_gpu: int | None = None,
    device: str | None = None,
) -> int:
    """Open the window and stay until it is closed; the exit code.

    `painted` is called once the window is on the screen and its engine has been told to start.
    `language` is spoken instead of the one in the settings. `model` and `measure`: see
    `Assembly.start`, `simulate_gpu` and `device`: see `Assembly`.
    """
    application = make_application()
    settings = SettingsStore(paths.settings)
    speak(application, language or settings.value.language)
    paths, trouble = settle_data(paths)
    errors = _Errors()
    crash_log = start_logging(paths, errors.arrived.emit)
    instance = SingleInstance(paths.lock)
    if not instance.claim():
        if instance.hand_over(model):
            return 0
        sys.stderr.write(tr("Duotail is already running but does not answer; end it first.") + "\n")
        return 1
    theme = Theme(application)
    assembly = Assembly(paths, theme, factory, settings, simulate_gpu, device=device)
    errors.arrived.connect(assembly.house.tell_of_error)
    assembly.house.tell_of_last_crash()
    if trouble is not None:
        report(trouble)
    instance.started_again.connect(assembly.started_again)
    instance.other_started.connect(assembly.house.tell_of_other)
    if settings.is_new:
        settings.change(first_start=True)
    if settings.value.first_start:
        assembly.welcome()
    signal.signal(signal.SIGINT, lambda _number, _frame: application.quit())
    assembly.window.show_fitted()
    collector = collect_here(application)
    collector.begin_start()
    assembly.bridge.status_changed.connect(
        lambda status: None if status.phase in _STARTING else collector.end_start()
    )
    first = _FirstPaint(assembly.window)
    # Only now, with the first picture on the screen: what the engine imports takes a while.
    first.painted.connect(lambda: assembly.start(model=model, measure=measure))
    if painted is not None:
        first.painted.connect(lambda: painted(assembly))
    code = application.exec()
    assembly.close()
    instance.release()
    if crash_log is not None:
        crash_log.flush()
    if assembly.house.restart is not None:
        start_again(safe=assembly.house.restart)
    return code

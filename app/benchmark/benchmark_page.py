"""The benchmark page: this model on this computer in every mode that fits."""

from __future__ import annotations

from pathlib import Path

from PySide6.QtCore import Qt
from PySide6.QtGui import QGuiApplication, QShowEvent
from PySide6.QtWidgets import QProgressBar, QPushButton, QWidget

from app.benchmark.bars_view import BarsView
from app.benchmark.benchmark import Benchmark, BenchmarkStage
from app.benchmark.wording import notes, outcome_words, plan_words, stage_words
from app.data_folder.exported_file import write
from app.engine_link.background import in_background
from app.engine_link.plan_texts import is_simulated, mode_name
from app.notices import report_failure, tell, tell_saved
from app.widgets.boxes import fill, hbox
from app.widgets.card import Card
from app.widgets.file_dialog import ask_where_to_save
from app.widgets.labels import plain_label, say
from app.widgets.page_frame import PageFrame
from app.widgets.table_dialog import TableDialog
from engine.bench.modes.report import facts, markdown
from engine.commands import Mode
from engine.language import sentences, tr

_STEPS = 1000
_WIDEST = 900
_FILE_NAME = "duotail-benchmark.md"


class BenchmarkPage(PageFrame):
    """One click measures; bars, a text to share, and the winner kept for this model."""

    def __init__(self, benchmark: Benchmark, parent: QWidget | None = None) -> None:
        super().__init__(tr("Benchmark"), parent, widest=_WIDEST)
        self.benchmark = benchmark
        self.measure_button = QPushButton(tr("Measure this model"), self)
        self.measure_button.setProperty("look", "primary")
        self.cancel_button = QPushButton(tr("Cancel"), self)
        self.progress = QProgressBar(self, textVisible=False)
        self.progress.setRange(0, _STEPS)
        self.progress.setAccessibleName(tr("How much to measure"))
        self.stage = plain_label("", self, "muted")
        self.stale = plain_label("", self, "warning")
        self.stale.setMargin(8)
        self.simulated = plain_label("", self)
        self.bars = BarsView(self)
        self.outcome = plain_label("", self)
        self.use_button = QPushButton(self)
        self.auto_button = QPushButton(tr("Choose automatically again"), self)
        self.notes = plain_label("", self, "small")
        self.facts = plain_label("", self, "small")
        self.copy_button = QPushButton(tr("Copy as text"), self)
        self.save_button = QPushButton(tr("Save as a file\N{HORIZONTAL ELLIPSIS}"), self)
        self._build()
        self._connect()
        self.refresh()

    def take_keyboard(self) -> None:
        """The button that measures is what one comes for."""
        button = self.measure_button if self.measure_button.isVisible() else self.cancel_button
        (button if button.isEnabled() else self.back).setFocus(Qt.FocusReason.OtherFocusReason)

    def showEvent(self, event: QShowEvent) -> None:  # noqa: N802
        """Find out what would be measured now."""
        super().showEvent(event)
        self.refresh()
        self.benchmark.look_ahead()

    def refresh(self) -> None:
        """Show what is known now."""
        if not self.isVisible():
            return
        benchmark = self.benchmark
        idle, status = benchmark.stage is BenchmarkStage.IDLE, benchmark.status
        self._show_button(idle=idle)
        self.progress.setVisible(not idle)
        done = benchmark.progress.fraction if benchmark.progress is not None else 0.0
        self.progress.setValue(round(done * _STEPS))
        self._task.say(self._about())
        say(self.stage, stage_words(benchmark) or self._before_words())
        stale = benchmark.stale
        say(self.stale, tr(stale.value) if stale is not None else "")
        say(self.simulated, self._simulated_words())
        self._show_results(idle=idle)
        self._results.title.setText(
            tr("Last result: {model}").format(model=benchmark.report.model)
            if idle and benchmark.report is not None
            else status.model_name or tr("Results")
        )

    def _about(self) -> str:
        name = self.benchmark.status.model_name
        if not name:
            return tr("Load a model first: then one click finds its fastest mode on this computer.")
        return tr(
            "{model} answers the same questions in every mode that fits on this computer, the "
            "modes in turns. The fastest is used for this model from then on."
        ).format(model=name)

    def _before_words(self) -> str:
        benchmark = self.benchmark
        ahead = plan_words(benchmark.preview, benchmark.wish)
        if benchmark.possible and benchmark.status.busy:
            return sentences(ahead, tr("An answer is being written; measuring starts after it."))
        return ahead if benchmark.possible else ""

    def _simulated_words(self) -> str:
        last = self.benchmark.report
        there = is_simulated(self.benchmark.status.machine)
        if there or (last is not None and last.hardware.simulated):
            return tr(
                "The GPU is simulated: its speeds are declared and say nothing about a real GPU."
            )
        return ""

    def _show_results(self, *, idle: bool) -> None:
        benchmark, rows = self.benchmark, self.benchmark.rows
        last = benchmark.report if idle else None
        told = last is not None and last.complete and not last.noisy
        winner = last.winner if last is not None and told else None
        under_way = benchmark.progress.mode if benchmark.progress is not None else None
        self.bars.show_rows(rows, winner, None if idle else under_way)
        self.bars.setVisible(bool(self.bars.rows))
        say(self.notes, "\n".join(notes(rows, over=idle)))
        say(self.outcome, outcome_words(benchmark))
        say(self.facts, "\n".join(self._facts()))
        for button in (self.copy_button, self.save_button):
            button.setVisible(last is not None)
        wish = benchmark.running.profile.mode
        other = last is not None and winner is not None and wish is not winner
        if winner is not None:
            words = tr("Use {mode} from now on").format(mode=mode_name(winner))
            self.use_button.setText(words)
        self.use_button.setVisible(other)
        self.auto_button.setVisible(last is not None and wish is not Mode.AUTO and other is False)
        self._results.setVisible(bool(rows) or last is not None or bool(self.outcome.text()))

    def _facts(self) -> list[str]:
        last = self.benchmark.report
        if last is None or self.benchmark.stage is not BenchmarkStage.IDLE:
            return []
        return facts(last)

    def copy(self) -> None:
        """Put the text to share on the clipboard."""
        if self.benchmark.report is not None:
            QGuiApplication.clipboard().setText(markdown(self.benchmark.report))
            tell(tr("Copied. It contains nothing that identifies you."))

    def choose_file(self) -> None:
        """Ask where the text goes."""
        kind = tr("Text (*.md *.txt)")
        ask_where_to_save(self, tr("Save the benchmark"), self.save, _FILE_NAME, kind)

    def save(self, path: Path) -> None:
        """Write the text into a file."""
        if self.benchmark.report is None:
            return
        text = markdown(self.benchmark.report).encode()
        in_background(
            self, lambda: write(path, lambda: text), lambda _: tell_saved(path), report_failure
        )

    def _show_button(self, *, idle: bool) -> None:
        """Show one of the two buttons; the keyboard goes from one to the other."""
        shown, hidden = self.measure_button, self.cancel_button
        if not idle:
            shown, hidden = hidden, shown
        had = hidden.hasFocus()
        shown.setEnabled(not idle or self.benchmark.possible)
        shown.setVisible(True)
        if had:
            shown.setFocus(Qt.FocusReason.OtherFocusReason)
        hidden.setVisible(False)

    def _build(self) -> None:
        self._task = Card(tr("Which mode is best here?"), parent=self)
        # Aligned, or the button would fill the row while no words stand beside it.
        measure = (self.measure_button, 0, Qt.AlignmentFlag.AlignLeft)
        buttons = hbox(measure, self.cancel_button, (self.stage, 1), spacing=12)
        fill(self._task.column, self.simulated, buttons, self.progress)
        self._results = Card(tr("Results"), parent=self)
        chosen = hbox(self.use_button, self.auto_button, 1)
        sharing = hbox(self.copy_button, self.save_button, 1)
        told = (self.stale, self.bars, self.outcome, chosen, self.notes, self.facts, sharing)
        fill(self._results.column, *told)
        fill(self.column, self._task, self._results, 1)

    def _connect(self) -> None:
        benchmark = self.benchmark
        benchmark.changed.connect(self.refresh)
        benchmark.running.changed.connect(self.refresh)
        self.measure_button.clicked.connect(benchmark.start)
        self.cancel_button.clicked.connect(benchmark.cancel)
        self.auto_button.clicked.connect(lambda: benchmark.use(Mode.AUTO))
        self.use_button.clicked.connect(self._use_winner)
        self.copy_button.clicked.connect(self.copy)
        self.save_button.clicked.connect(self.choose_file)
        self.bars.table_asked.connect(lambda: TableDialog(self.bars.table(), self).open())

    def _use_winner(self) -> None:
        last = self.benchmark.report
        if last is not None and last.winner is not None:
            self.benchmark.use(last.winner)

"""The window at the next start: as large as before, never larger than the screen."""

from __future__ import annotations

from collections.abc import Callable

from desk import Desk
from fake_engine import Script

from app.shell.page_names import PageName
from app.widgets.fold import Fold


def test_all_of_the_window_is_on_the_screen(open_desk: Callable[[Script | None], Desk]) -> None:
    window = open_desk(None).assembly.window
    room = window.screen().availableGeometry()
    window.hide()
    window.resize(room.width(), room.height())  # as large as the screen, without its title
    window.show_fitted()
    for page in (None, *PageName):
        if page is not None:
            window.pages.open(page)
        assert window.memory.mapToGlobal(window.memory.rect().bottomLeft()).y() < room.bottom(), (
            page
        )
        assert window.height() < room.height(), "there is room for the title"


def test_the_performance_panel_comes_back_as_it_was(
    open_desk: Callable[[Script | None], Desk],
) -> None:
    first = open_desk(None)
    fold = first.assembly.window.performance.findChild(Fold)
    assert not fold.opened
    fold.button.click()
    first.assembly.window.close()
    first.assembly.close()
    assert open_desk(None).assembly.window.performance.findChild(Fold).opened


def test_the_panel_of_a_wide_window_is_as_wide_at_the_next_start(
    open_desk: Callable[[Script | None], Desk],
) -> None:
    first = open_desk(None)
    before = first.assembly.window.performance.width()
    first.assembly.window.resize(1900, 700)
    first.assembly.window.close()
    first.assembly.close()
    assert open_desk(None).assembly.window.performance.width() > before + 100


def test_a_maximised_window_comes_back_maximised(
    open_desk: Callable[[Script | None], Desk],
) -> None:
    first = open_desk(None)
    first.assembly.window.resize(700, 600)
    first.assembly.window.showMaximized()
    first.assembly.window.close()
    first.assembly.close()
    second = open_desk(None).assembly.window
    second.hide()
    second.show_fitted()
    assert second.isMaximized()
    second.showNormal()
    assert (second.width(), second.height()) == (700, 600)

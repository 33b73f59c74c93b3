"""A real Chromium, and pages that must not complain: no error, no refusal by the policy."""

import asyncio
import os
import shutil
from collections.abc import Iterator
from pathlib import Path

import pytest
from playwright.sync_api import (
    Browser,
    BrowserContext,
    ConsoleMessage,
    Page,
    expect,
    sync_playwright,
)

from holdfast.embedded import EmbeddedPostgres
from tests.browser.stage import Stage
from tests.databases import give_back_database, take_database

FLAGS = [
    "--no-sandbox",
    "--disable-gpu",
    "--disable-quic",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
    "--no-first-run",
]
NAMES = ("chromium", "chromium-browser", "google-chrome", "google-chrome-stable")
# A fact that does not come is a failure; how soon it comes is nobody's business here.
PATIENCE_MS = 30_000
MISSING = (
    "There is no Chromium. Install one (Debian: apt-get install chromium; elsewhere: "
    ".venv/bin/playwright install chromium), or name it in HOLDFAST_CHROMIUM."
)


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Keep what needs the browser together, so that there is one."""
    for item in items:
        if "tests/browser/" in item.nodeid:
            item.add_marker(pytest.mark.xdist_group("browser"))


@pytest.fixture(scope="module")
def stage(postgres: EmbeddedPostgres, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Stage]:
    """A server for the tests of a module, on a database of their own."""
    name = asyncio.run(take_database(postgres))
    stage = Stage(postgres.url(name), tmp_path_factory.mktemp("stage"))
    try:
        yield stage
    finally:
        stage.close()
        asyncio.run(give_back_database(postgres, name))


@pytest.fixture(scope="module")
def browser(stage: Stage) -> Iterator[Browser]:
    """A Chromium for the tests of a module.

    After the stage, and gone before it: as long as it is there, nothing else may use asyncio.
    """
    with sync_playwright() as playwright:
        found = os.environ.get("HOLDFAST_CHROMIUM") or next(
            filter(None, map(shutil.which, NAMES)), None
        )
        own = playwright.chromium.executable_path
        assert found or Path(own).exists(), MISSING
        expect.set_options(timeout=PATIENCE_MS)
        browser = playwright.chromium.launch(executable_path=found, args=FLAGS)
        yield browser
        browser.close()


class Complaints:
    """What a page's console said that it should not have."""

    def __init__(self) -> None:
        self.said: list[str] = []
        # A server that is away, or a refusal that the test asked for.
        self.expected: tuple[str, ...] = ()

    def listen(self, page: Page) -> None:
        """Note errors of a page."""
        page.on("pageerror", lambda error: self.said.append(f"uncaught: {error}"))
        page.on("console", self._hear)

    def _hear(self, message: ConsoleMessage) -> None:
        if message.type in ("error", "warning"):
            self.said.append(f"{message.type}: {message.text}")

    def check(self) -> None:
        """Fail if there was anything that is not expected."""
        found = [said for said in self.said if not any(part in said for part in self.expected)]
        assert not found, found


@pytest.fixture
def complaints() -> Complaints:
    """What the test's pages complain about."""
    return Complaints()


@pytest.fixture
def context(browser: Browser, stage: Stage, complaints: Complaints) -> Iterator[BrowserContext]:
    """A browser as new, at home on the stage's server; its pages must not complain."""
    context = browser.new_context(
        base_url=stage.url,
        viewport={"width": 1280, "height": 800},
        timezone_id="Europe/Berlin",
        locale="en-US",
        reduced_motion="reduce",
    )
    context.set_default_timeout(PATIENCE_MS)
    context.on("page", complaints.listen)
    yield context
    context.close()
    complaints.check()


@pytest.fixture
def page(context: BrowserContext) -> Page:
    """An empty tab."""
    return context.new_page()

"""Every page: nothing in the console, nothing serious for axe, no scrolling sideways on a phone."""

import re
from collections.abc import Callable
from typing import Literal

import pytest
from playwright.sync_api import Page, expect

from tests.browser.axe import serious_findings
from tests.browser.conftest import Complaints
from tests.browser.stage import HandWorker, Stage, eventually
from tests.browser.tasks import greet, refuse

PAGES = {
    "/": "Overview",
    "/jobs": "Jobs",
    "/jobs/{job}": "Job:",
    "/jobs/{job}?tab=timeline": "Job:",
    "/jobs/{job}?tab=events": "Job:",
    "/jobs/{job}?tab=logs": "Job:",
    "/jobs/{job}?tab=spec": "Job:",
    "/jobs/{after}?tab=dependencies": "Job:",
    "/tasks/{job}.0": "Task:",
    "/tasks/{job}.0?tab=logs": "Task:",
    "/tasks/{job}.0?tab=events": "Task:",
    "/tasks/{job}.0?tab=explain": "Task:",
    "/workers": "Workers",
    "/queues": "Queues",
    "/dead-letters": "Dead letters",
    "/datasets": "Datasets",
    "/datasets/places": "places",
    "/nowhere/at/all": "",
}
THEMES: tuple[Literal["light", "dark"], ...] = ("light", "dark")
SIDEWAYS = "document.scrollingElement.scrollWidth - document.scrollingElement.clientWidth"


@pytest.fixture(scope="module")
def address(stage: Stage) -> Callable[[str], str]:
    """Fill the ledger with one of each, and name their pages."""
    stage.start_worker("browser")
    with stage.client() as client:
        job = greet.map(["ada", "grace", "a name that is rather long " * 8])
        lost = refuse.map(["x", "y"])
        for known in (job, lost):
            known.wait(timeout=60)
        client.create_dataset("places").open_version()
    after = stage.submit(name="after", depends_on=[{"job": job.id, "condition": "ended"}])
    waits = stage.submit(name="waits", depends_on=[after])
    HandWorker(stage, "w-pages")
    eventually(lambda: stage.call("GET", f"/api/jobs/{waits}")["unmet_dependencies"] == 1)
    return lambda page: page.format(job=job.id, after=after)


@pytest.mark.parametrize("path", [path for path in PAGES if path != "/nowhere/at/all"])
def test_a_page_is_fit_to_be_seen(page: Page, address: Callable[[str], str], path: str) -> None:
    page.set_viewport_size({"width": 390, "height": 844})
    page.goto(address(path))
    expect(page.get_by_role("heading", level=1)).to_contain_text(PAGES[path])
    expect(page.get_by_text(re.compile("^Reading ")).first).not_to_be_visible()
    expect(page.get_by_role("alert")).to_have_count(0)
    assert page.evaluate(SIDEWAYS) <= 0
    for theme in THEMES:
        page.emulate_media(color_scheme=theme)
        assert serious_findings(page) == [], theme


def test_a_page_that_is_not_there_says_so(
    page: Page, address: Callable[[str], str], complaints: Complaints
) -> None:
    complaints.expected = ("404 (Not Found)",)
    page.goto(address("/jobs/999999999"))
    expect(page.get_by_role("alert")).to_contain_text("999999999")
    page.goto("/jobs")
    expect(page.get_by_role("heading", level=1)).to_have_text("Jobs")

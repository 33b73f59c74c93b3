"""From a schedule that did not run to its cause, and to what makes up for it, by clicks."""

import re
import time

import pytest
from playwright.sync_api import Page, expect

from tests.browser.conftest import Complaints
from tests.browser.stage import Stage, eventually

SPEC = {"entrypoint": {"function": "tests.browser.tasks:work"}, "queue": "by-hand"}


@pytest.fixture(scope="module")
def nightly(stage: Stage) -> str:
    """A schedule of a messy name, set from some hours ago on."""
    began = int(time.time() * 1000) - 4 * 3_600_000
    stage.call(
        "PUT",
        "/api/schedules/nightly:report",
        {"spec": SPEC, "every": 3600, "start_at_ms": began, "overlap": "allow"},
    )
    return "nightly:report"


def test_a_schedule_is_run_paused_and_resumed(page: Page, stage: Stage, nightly: str) -> None:
    page.goto("/schedules")
    row = page.get_by_role("row").filter(has_text=nightly)
    expect(row).to_contain_text("every 1 h")
    row.get_by_role("link", name=nightly).click()
    expect(page.get_by_role("heading", level=1)).to_have_text(f"Schedule {nightly}")
    expect(
        page.get_by_role("list", name="Next firings").get_by_role("listitem").first
    ).to_be_visible()
    page.get_by_role("button", name="Run now").click()
    page.get_by_role("dialog").get_by_role("button", name="Run now").click()
    expect(page.get_by_role("link", name=re.compile(r"^job \d+$"))).to_be_visible()
    expect(page.get_by_role("table", name="Firings")).to_contain_text("by hand")
    page.get_by_role("button", name="Pause", exact=True).click()
    page.get_by_role("dialog").get_by_role("button", name="Pause").click()
    expect(page.get_by_text("paused by dashboard")).to_be_visible()
    expect(page.get_by_role("main")).to_contain_text("There are none: it is paused.")
    page.get_by_role("button", name="Resume", exact=True).click()
    page.get_by_role("dialog").get_by_role("button", name="Resume").click()
    expect(page.get_by_text("paused by dashboard")).not_to_be_visible()
    eventually(lambda: stage.call("GET", "/api/schedules")["schedules"][0]["state"] == "active")


def test_what_passed_is_made_up_for_after_it_was_counted(
    page: Page, stage: Stage, nightly: str
) -> None:
    page.goto(f"/schedules/{nightly}")
    page.get_by_role("button", name="Backfill …").click()
    dialog = page.get_by_role("dialog")
    dialog.get_by_role("button", name="Count").click()
    expect(dialog.get_by_role("status")).to_contain_text("in this range")
    dialog.get_by_role("button", name=re.compile("^Submit .* job")).click()
    expect(dialog.get_by_role("status")).to_contain_text("submitted")
    dialog.get_by_role("button", name="Close").click()
    expect(page.get_by_role("table", name="Firings")).to_contain_text("backfill")
    fired = stage.rows("select count(*) from holdfast.jobs")[0][0]
    assert fired >= 4


def test_a_job_tells_its_terms_and_leads_to_its_schedule(
    page: Page, stage: Stage, nightly: str
) -> None:
    fired = stage.call("POST", f"/api/schedules/{nightly}:run-now", {})
    page.goto(f"/jobs/{fired['job_id']}")
    page.get_by_role("link", name=nightly, exact=True).click()
    expect(page.get_by_role("heading", level=1)).to_have_text(f"Schedule {nightly}")
    alone = stage.call("POST", "/api/jobs", SPEC | {"unique": {}, "expires": 3600})
    page.goto(f"/jobs/{alone['job_id']}")
    words = "by all that it is called with, while pending or running"
    expect(page.get_by_text(words)).to_be_visible()
    expect(page.get_by_text("Expires, if not started")).to_be_visible()


def test_a_schedule_is_deleted_and_its_jobs_stay(
    page: Page, stage: Stage, nightly: str, complaints: Complaints
) -> None:
    # The page that is left may read once more what is just being deleted.
    complaints.expected = ("404 (Not Found)",)
    stage.call("POST", f"/api/schedules/{nightly}:run-now", {})
    page.goto(f"/schedules/{nightly}")
    page.get_by_role("button", name="Delete …").click()
    page.get_by_role("dialog").get_by_role("button", name="Delete", exact=True).click()
    expect(page.get_by_text("There are no schedules.")).to_be_visible()
    assert stage.rows("select count(*) from holdfast.jobs")[0][0] > 0

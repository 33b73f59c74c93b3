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
    "/actions": "Actions",
    "/datasets": "Datasets",
    "/datasets/places": "places",
    "/functions": "Functions",
    "/schedules": "Schedules",
    "/schedules/nightly": "Schedule nightly",
    "/limits": "Limits",
    "/limits/two": "Limit two",
    "/nowhere/at/all": "",
}
THEMES: tuple[Literal["light", "dark"], ...] = ("light", "dark")
SIDEWAYS = "document.scrollingElement.scrollWidth - document.scrollingElement.clientWidth"
# What stands in a column that one has to scroll to is not seen; other tables have many columns.
WHOLE = {"/jobs", "/workers", "/queues", "/dead-letters", "/functions", "/limits", "/schedules"}
CUT = """[...document.querySelectorAll("table")]
  .filter((table) => table.offsetWidth > table.parentElement.clientWidth)
  .map((table) => table.ariaLabel)"""


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
    stage.call("POST", f"/api/jobs/{stage.submit()}:cancel", {"mode": "soft", "reason": "dear"})
    HandWorker(stage, "w-pages-" + "long" * 20)
    spec = {"entrypoint": {"function": "tests.browser.tasks:work"}, "queue": "by-hand"}
    stage.call("PUT", "/api/schedules/nightly", {"spec": spec, "cron": "0 3 * * *"})
    stage.call("POST", "/api/schedules/nightly:run-now", {})
    stage.call("PUT", "/api/limits/two", {"scope": "owner", "most": 2})
    stage.call("PUT", "/api/shares/queues/by-hand", {"by": "owner"})
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
    assert path not in WHOLE or page.evaluate(CUT) == []
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


def test_what_people_did_leads_to_what_they_did_it_to(
    page: Page, address: Callable[[str], str], stage: Stage
) -> None:
    page.goto(address("/actions?action=cancel"))
    row = page.get_by_role("row").filter(has_text="dear").first
    expect(row).to_contain_text("cancelled job")
    row.get_by_role("link", name=re.compile(r"^\d+$")).click()
    expect(page.get_by_role("heading", level=1)).to_contain_text("Job:")
    page.goto(address("/actions?actor=nobody"))
    expect(page.get_by_text("Nobody did that.")).to_be_visible()


def test_a_half_typed_name_is_not_looked_for(page: Page) -> None:
    page.goto("/actions")
    who = page.get_by_role("searchbox", name="Who")
    who.press_sequentially("nobod")
    expect(page).to_have_url(re.compile("/actions$"))
    who.press_sequentially("y")
    who.press("Enter")
    expect(page).to_have_url(re.compile("actor=nobody"))
    expect(page.get_by_text("Nobody did that.")).to_be_visible()


@pytest.mark.usefixtures("address")
def test_enter_runs_a_function_without_parameters(page: Page) -> None:
    page.goto("/functions")
    page.get_by_role("button", name="Run tests.browser.tasks:stay …").click()
    expect(page.get_by_role("dialog").get_by_role("button", name="Run")).to_be_focused()


@pytest.mark.usefixtures("address")
def test_a_function_is_run_with_what_was_typed(
    page: Page, stage: Stage, complaints: Complaints
) -> None:
    complaints.expected = ("413 (Request Entity Too Large)",)
    page.goto("/functions")
    button = page.get_by_role("button", name="Run tests.browser.tasks:label …")
    button.click()
    dialog = page.get_by_role("dialog")
    expect(dialog).to_contain_text("Repeat a <b>text</b>")
    text, times = dialog.get_by_label("text (required)"), dialog.get_by_label("times")
    expect(text).to_be_focused()
    expect(times).to_have_attribute("placeholder", "2")
    page.keyboard.press("Escape")
    # Gone, not only hidden: the page hears of the end of its dialog a moment after the browser.
    expect(page.locator("dialog[aria-labelledby=run]")).to_have_count(0)
    expect(button).to_be_focused()
    page.keyboard.press("Enter")
    # What is wrong stands at its field, and nothing is sent.
    times.fill("[3]")
    page.keyboard.press("Enter")
    expect(text).to_be_focused()
    expect(text).to_have_accessible_description('Give a value; an empty text is written "".')
    expect(times).to_have_accessible_description("This is a list; wanted is int.")
    messy = 'he said "é\u202e"\n<b>it\'s 5</b>'
    text.fill(messy)
    times.fill("1")
    dialog.get_by_label("tags").fill('["a", "b\\"c"]')
    # What the server refuses stands at its field, and keeps what was typed.
    dialog.get_by_text("Queue, priority, owner").click()
    owner = dialog.get_by_label("owner")
    expect(owner).to_have_value("<b>mail</b> team")
    owner.fill("o" * 2000)
    page.keyboard.press("Enter")
    expect(owner).to_have_accessible_description(re.compile("owner"))
    expect(text).to_have_value(messy)
    before = stage.rows("select max(job_id)::text from holdfast.jobs")
    owner.fill("ann")
    page.keyboard.press("Enter")
    link = dialog.get_by_role("link", name=re.compile(r"^job \d+$"))
    expect(link).to_be_focused()
    [(job_id, queue, priority, owned_by)] = stage.rows(
        "select job_id::text, queue, priority, owner from holdfast.jobs"
        " order by jobs.job_id desc limit 1"
    )
    assert [(job_id,)] != before
    assert (queue, priority, owned_by) == ("browser", 3, "ann")
    link.click()
    expect(page).to_have_url(re.compile(rf"/jobs/{job_id}$"))
    expect(page.locator(".badge").first).to_have_text("succeeded")
    assert stage.call("GET", f"/api/tasks/{job_id}.0/result")["result"] == (
        f"{messy} ['a', 'b\"c']"
    )

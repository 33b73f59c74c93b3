"""The frame around the pages: keys, search, themes, links, and a proxy in front of it all."""

import re
from datetime import UTC, datetime

import pytest
from playwright.sync_api import BrowserContext, Page, expect

from tests.browser.conftest import Complaints
from tests.browser.proxy import proxy_to
from tests.browser.stage import Stage


@pytest.fixture(scope="module")
def jobs(stage: Stage) -> list[str]:
    """Three jobs to go through, the newest first."""
    return [stage.submit(name=f"frame-{number}") for number in range(3)][::-1]


def test_keys_lead_everywhere(page: Page, jobs: list[str]) -> None:
    page.goto("/")
    expect(page.get_by_role("heading", level=1)).to_have_text("Overview")
    for keys, heading in {
        "j": "Jobs",
        "w": "Workers",
        "q": "Queues",
        "d": "Dead letters",
        "v": "Datasets",
        "f": "Functions",
        "s": "Schedules",
        "l": "Limits",
        "o": "Overview",
    }.items():
        page.keyboard.press("g")
        page.keyboard.press(keys)
        expect(page.get_by_role("heading", level=1)).to_have_text(heading)
    page.keyboard.press("?")
    help_text = page.get_by_role("dialog", name="Keys")
    expect(help_text).to_be_visible()
    page.keyboard.press("Escape")
    expect(help_text).not_to_be_visible()


def test_rows_are_walked_and_opened_by_keys(page: Page, jobs: list[str]) -> None:
    page.goto("/jobs?name=frame-")
    expect(page.get_by_role("link", name=jobs[0], exact=True)).to_be_visible()
    for key in ("j", "j", "k", "j"):
        page.keyboard.press(key)
    page.keyboard.press("Enter")
    expect(page).to_have_url(re.compile(rf"/jobs/{jobs[1]}$"))


def test_what_follows_a_g_is_no_key_of_the_table(page: Page, jobs: list[str]) -> None:
    page.goto("/jobs")
    expect(page.get_by_role("link", name=jobs[0], exact=True)).to_be_visible()
    for key in ("j", "g", "j", "x"):
        page.keyboard.press(key)
    expect(page.get_by_role("checkbox", checked=True)).to_have_accessible_name(f"Select {jobs[0]}")


def test_a_page_whose_files_are_gone_leaves_the_others(
    page: Page, jobs: list[str], complaints: Complaints
) -> None:
    complaints.expected = ("ERR_FAILED", "Failed to fetch dynamically")
    page.goto("/jobs")
    expect(page.get_by_role("link", name=jobs[0], exact=True)).to_be_visible()
    # As after an upgrade of the server that this tab has slept through.
    page.route("**/assets/*", lambda route: route.abort())
    page.get_by_role("link", name="Datasets").click()
    expect(page.get_by_role("button", name="Reload the dashboard")).to_be_visible()
    page.get_by_role("link", name="Queues").click()
    expect(page.get_by_role("heading", level=1)).to_have_text("Queues")


def test_a_page_that_was_opened_while_the_server_was_away_comes_when_it_is_back(
    page: Page, stage: Stage, jobs: list[str], complaints: Complaints
) -> None:
    complaints.expected = ("ERR_", "503 (Service", "Failed to fetch dynamically", "EventSource")
    page.goto("/jobs")
    expect(page.get_by_role("link", name=jobs[0], exact=True)).to_be_visible()
    stage.stop_server()
    page.get_by_role("link", name="Datasets").click()
    expect(page.get_by_role("heading", level=1)).to_have_text("This page cannot be shown")
    stage.start_server()
    expect(page.get_by_role("heading", level=1)).to_have_text("Datasets")


def test_tasks_are_opened_by_enter_and_unfolded_by_o(page: Page, jobs: list[str]) -> None:
    page.goto(f"/jobs/{jobs[0]}")
    expect(page.get_by_role("link", name=f"{jobs[0]}.0", exact=True)).to_be_visible()
    page.keyboard.press("j")
    page.keyboard.press("o")
    expect(page.get_by_role("button", name=f"Close {jobs[0]}.0")).to_be_visible()
    page.keyboard.press("Enter")
    expect(page).to_have_url(re.compile(rf"/tasks/{jobs[0]}\.0$"))


def test_what_a_task_waits_for_is_told_in_local_time(page: Page, stage: Stage) -> None:
    at = datetime(2031, 7, 1, 22, 30, tzinfo=UTC)
    job_id = stage.submit(name="later", not_before=at.timestamp())
    # The browser is in Berlin.
    for path in (f"/jobs/{job_id}", f"/tasks/{job_id}.0", f"/tasks/{job_id}.0?tab=explain"):
        page.goto(path)
        expect(page.get_by_text("not before 2031-07-02 00:30:00").first).to_be_visible()


WIDER_THAN_ITS_PLACE = """(elements) => elements.filter(
  (element) => element.scrollWidth > element.clientWidth).map((element) => element.innerText)"""


def test_long_names_and_large_counts_stay_in_their_place(page: Page, stage: Stage) -> None:
    owner = "svc-data-platform-ingestion-europe-west-4@a-very-long-name-of-a-company.example.com"
    job_id = stage.submit(name="wide", owner=owner, replicas=10_001)
    stage.call("POST", f"/api/jobs/{job_id}:cancel", {"mode": "hard"})
    for width, height in ((390, 844), (1280, 800)):
        page.set_viewport_size({"width": width, "height": height})
        page.goto("/jobs?name=wide")
        count = page.locator("td").filter(has_text="10,001/10,001")
        expect(count).to_be_visible()
        assert count.locator("*").evaluate_all(WIDER_THAN_ITS_PLACE) == []
        page.goto(f"/jobs/{job_id}")
        facts = page.locator("main dl").first
        expect(facts).to_contain_text(owner)
        assert facts.locator("dd").evaluate_all(WIDER_THAN_ITS_PLACE) == []
    # The tasks are what a job is opened for: on a desktop they begin in the upper half.
    page.goto(f"/jobs/{stage.submit(name='tall', owner=owner, replicas=2)}")
    tabs = page.get_by_role("tab", name="Tasks").bounding_box()
    assert tabs is not None
    assert tabs["y"] < height / 2


def test_the_search_takes_ids_and_names(page: Page, jobs: list[str]) -> None:
    page.goto("/workers")
    for text, address in {
        jobs[0]: f"/jobs/{jobs[0]}",
        f"{jobs[0]}.0": f"/tasks/{jobs[0]}.0",
        "frame-": "/jobs?name=frame-",
    }.items():
        expect(page.get_by_role("heading", level=1)).to_be_visible()
        page.keyboard.press("/")
        expect(page.get_by_role("searchbox")).to_be_focused()
        page.keyboard.type(text)
        page.keyboard.press("Enter")
        expect(page).to_have_url(re.compile(re.escape(address) + "$"))
    expect(page.get_by_role("row").filter(has_text="frame-")).to_have_count(3)


def test_a_filter_is_part_of_the_address(
    page: Page, context: BrowserContext, jobs: list[str]
) -> None:
    page.goto("/jobs")
    page.get_by_label("Name begins with", exact=True).fill("frame-1")
    page.keyboard.press("Enter")
    expect(page.get_by_role("row").filter(has_text="frame-")).to_have_count(1)
    expect(page).to_have_url(re.compile("name=frame-1"))
    other = context.new_page()
    other.goto(page.url)
    expect(other.get_by_label("Name begins with", exact=True)).to_have_value("frame-1")
    expect(other.get_by_role("row").filter(has_text="frame-")).to_have_count(1)


def test_the_theme_follows_the_system_until_one_is_chosen(page: Page) -> None:
    page.emulate_media(color_scheme="dark")
    page.goto("/jobs")
    html = page.locator("html")
    expect(html).to_have_class("dark")
    page.keyboard.press("t")
    expect(html).not_to_have_class("dark")
    page.reload()
    expect(page.get_by_role("heading", level=1)).to_be_visible()
    expect(html).not_to_have_class("dark")


def test_it_works_under_a_sub_path(
    page: Page, stage: Stage, jobs: list[str], complaints: Complaints
) -> None:
    with proxy_to(stage.url) as address:
        page.goto(f"{address}/jobs/{jobs[0]}?tab=events")
        expect(page.get_by_role("heading", level=1)).to_contain_text("frame-2")
        expect(page.get_by_text("live", exact=True)).to_be_visible()
        page.get_by_role("navigation").get_by_role("link", name="Jobs").click()
        expect(page).to_have_url(f"{address}/jobs")
        page.get_by_role("link", name=jobs[0], exact=True).first.click()
        expect(page).to_have_url(f"{address}/jobs/{jobs[0]}")
        # The stream comes through as well.
        stage.call("POST", f"/api/jobs/{jobs[0]}:cancel", {"mode": "hard"})
        expect(page.locator(".badge.status-killed").first).to_be_visible()
        page.goto("about:blank")

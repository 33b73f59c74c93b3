"""What changes in the ledger appears without a reload, also after the server was away."""

import re

from playwright.sync_api import APIResponse, Page, Route, expect

from tests.browser.conftest import Complaints
from tests.browser.stage import HandWorker, Stage, eventually

# What a browser does when another tab is looked at.
SEEN = """isSeen => {
  Object.defineProperty(document, "hidden", { value: !isSeen, configurable: true });
  document.dispatchEvent(new Event("visibilitychange"));
}"""


def test_a_state_change_appears_without_reload(page: Page, stage: Stage) -> None:
    job_id = stage.submit(name="watched")
    page.goto(f"/jobs/{job_id}")
    state = page.locator(".badge").first
    expect(state).to_have_class(re.compile(r"\bstatus-pending\b"))
    page.evaluate("window.notReloaded = true")

    worker = HandWorker(stage, "w-live")
    claim = worker.claim(f"{job_id}.0")
    expect(state).to_have_class(re.compile(r"\bstatus-running\b"))
    worker.beat(claim, progress={"fraction": 0.9, "message": "nearly"})
    task = page.context.new_page()
    task.goto(f"/tasks/{job_id}.0")
    expect(task.get_by_text("90 %")).to_be_visible()
    worker.end(claim)
    expect(state).to_have_class(re.compile(r"\bstatus-succeeded\b"))
    assert page.evaluate("window.notReloaded") is True
    # What has ended is done, whatever it said last.
    expect(task.locator(".badge").first).to_have_class(re.compile(r"\bstatus-succeeded\b"))
    expect(task.get_by_role("progressbar")).to_have_count(0)
    expect(task.get_by_text("90 %")).to_have_count(0)


def test_a_new_job_appears_in_the_list(page: Page, stage: Stage) -> None:
    page.goto("/jobs")
    expect(page.get_by_text("live", exact=True)).to_be_visible()
    job_id = stage.submit(name="appears-by-itself")
    row = page.get_by_role("row").filter(has_text="appears-by-itself")
    expect(row.get_by_role("link", name=job_id, exact=True)).to_be_visible()


def test_a_list_that_is_being_read_is_not_pushed_away(page: Page, stage: Stage) -> None:
    job_id = stage.submit(name="held-first")
    page.goto("/jobs?name=held-")
    page.get_by_role("checkbox", name=f"Select {job_id}", exact=True).check()
    page_full = 50
    for number in range(page_full + 1):
        stage.submit(name=f"held-{number}")
    expect(page.get_by_role("button", name="Show newer jobs")).to_be_visible()
    expect(page.get_by_role("checkbox", name=f"Select {job_id}", exact=True)).to_be_checked()
    page.get_by_role("button", name="Show newer jobs").click()
    expect(page.get_by_role("checkbox", name=f"Select {job_id}", exact=True)).to_have_count(0)
    bar = page.get_by_role("region", name="Selected jobs")
    expect(bar).to_contain_text("1 selected, none of them in this list")


def test_a_tab_that_nobody_sees_lets_go_of_the_stream(page: Page, stage: Stage) -> None:
    page.clock.install()
    page.goto("/jobs?name=unseen")
    expect(page.get_by_text("live", exact=True)).to_be_visible()
    page.evaluate(SEEN, False)
    page.clock.fast_forward("00:30")
    expect(page.get_by_text("connecting")).to_be_visible()
    stage.submit(name="unseen")
    page.evaluate(SEEN, True)
    expect(page.get_by_text("live", exact=True)).to_be_visible()
    expect(page.get_by_role("link", name="unseen", exact=True)).to_be_visible()


def test_news_that_comes_during_a_read_is_read_as_well(page: Page, stage: Stage) -> None:
    job_id = stage.submit(name="late-news")
    page.goto("/jobs?name=late-news")
    state = page.get_by_role("row").filter(has_text="late-news").locator(".badge")
    expect(state).to_have_text("pending")
    held: list[tuple[Route, APIResponse]] = []

    def hold_one(route: Route) -> None:
        if held:
            route.continue_()
        else:
            held.append((route, route.fetch()))

    page.route("**/api/jobs?*", hold_one)

    worker = HandWorker(stage, "w-late")
    claim = worker.claim(f"{job_id}.0")

    def is_held() -> bool:
        page.wait_for_timeout(50)
        return bool(held)

    eventually(is_held)
    with page.expect_request("**/api/jobs?*") as again:
        worker.end(claim)
        page.wait_for_timeout(2000)  # the news arrives, while the answer is still on its way
        route, answer = held[0]
        route.fulfill(response=answer)
    again.value.response()
    expect(state).to_have_text("succeeded")


def test_after_a_restart_of_the_server_no_event_is_missed(
    page: Page, stage: Stage, complaints: Complaints
) -> None:
    complaints.expected = ("net::ERR", "Failed to load resource")
    job_id = stage.submit(name="restarted", inputs=list(range(5)))
    page.goto(f"/jobs/{job_id}?tab=events")
    expect(page.get_by_text("live", exact=True)).to_be_visible()
    events = page.get_by_role("table", name="Events")
    expect(events.get_by_text("submitted", exact=True)).to_be_visible()

    stage.stop_server(kill=True)
    expect(page.get_by_text("connecting …")).to_be_visible()
    stage.start_server()
    # All of it happens before the page has found its way back, or while it does.
    worker = HandWorker(stage, "w-restart")
    for index in range(5):
        worker.end(worker.claim(f"{job_id}.{index}"))
    expect(page.get_by_text("live", exact=True)).to_be_visible()

    kinds = "select type::text, count(*) from holdfast.events where job_id = %s group by 1"
    written = dict(stage.rows(kinds, int(job_id)))
    assert written["succeeded"] == 6

    def shown() -> bool:
        told = events.locator("tbody[data-index]").all_inner_texts()
        return len(told) == sum(written.values())

    eventually(shown)
    expect(page.locator(".badge.status-succeeded").first).to_be_visible()

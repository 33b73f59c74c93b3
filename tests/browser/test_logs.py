"""Logs as one reads them: the end in sight while it is followed, the rest when it is asked for."""

import re
from typing import Any
from urllib.parse import parse_qs, urlsplit

import pytest
from playwright.sync_api import Locator, Page, Request, expect

from tests.browser.stage import HandWorker, Stage, eventually

LINES = 30_000
PHONE = {"width": 390, "height": 844}
DESKTOP = {"width": 1280, "height": 800}


@pytest.fixture(scope="module")
def worker(stage: Stage) -> HandWorker:
    """Somebody who writes logs."""
    return HandWorker(stage, "w-logs")


@pytest.fixture(scope="module")
def long_log(stage: Stage, worker: HandWorker) -> str:
    """A finished task with a long log, which came in many small pieces; gives its id."""
    task_id = f"{stage.submit(name='long', lease=120)}.0"
    claim = worker.claim(task_id)
    lines = [f"line {number:>5}: {'x' * 90}\n".encode() for number in range(1, LINES + 1)]
    lines[9] = b"ERROR the needle\n"
    text, offset = b"".join(lines), 0
    for piece in (text[:2_000_000], text[2_000_000:]):
        for begin in range(0, len(piece), 900_000):
            worker.log(claim, piece[begin : begin + 900_000], offset=offset)
            offset += len(piece[begin : begin + 900_000])
    # Small stretches, as a worker sends them about three times a second.
    stage.run_sql(
        "insert into holdfast.logs (job_id, task_index, attempt, start_offset, content)"
        " select %s, 0, 0, %s + 10 * n, convert_to(to_char(n, 'FM000000000') || chr(10), 'UTF8')"
        " from generate_series(0, 2999) as n",
        int(task_id.partition(".")[0]),
        offset,
    )
    worker.end(claim)
    # What was stored just now comes after the last page of a job's log, piece by piece.
    logs = f"/api/jobs/{task_id.partition('.')[0]}/logs?tail=true"
    eventually(lambda: stage.call("GET", logs)["is_complete"])
    return task_id


class LogView:
    """A log on a page, and the requests that it took."""

    def __init__(self, page: Page) -> None:
        self.page = page
        self.box = page.get_by_role("region", name=re.compile("Lines of the log"))
        self.asked: list[dict[str, list[str]]] = []
        page.on("request", self._note)

    def _note(self, request: Request) -> None:
        address = urlsplit(request.url)
        if address.path.endswith("/logs") and "/api/" in address.path:
            self.asked.append(parse_qs(address.query))

    def line(self, text: str) -> Locator:
        """Find a line that is drawn, by what it says."""
        return self.box.locator("[data-index]").filter(has_text=text)

    def status(self, text: str) -> None:
        """See what the line below the log says."""
        expect(self.page.get_by_text(text)).to_be_visible()


@pytest.fixture
def view(page: Page) -> LogView:
    """A tab for a log."""
    return LogView(page)


def expect_in_sight(place: Locator) -> None:
    """Wait until the whole of something is within the window, and within its box."""
    eventually(
        lambda: place.evaluate(
            """element => {
              const inner = element.getBoundingClientRect();
              const box = element.closest('[role=region]').getBoundingClientRect();
              return inner.top >= box.top - 1 && inner.bottom <= box.bottom + 1
                && inner.top >= 0 && inner.bottom <= window.innerHeight;
            }"""
        )
    )


def test_a_long_log_opens_at_its_end_with_one_request(view: LogView, long_log: str) -> None:
    view.page.goto(f"/tasks/{long_log}?tab=logs")
    last = view.line("000002999")
    expect(last).to_be_visible()
    view.status("lines 31,001 to 33,000; the log is complete")
    expect_in_sight(last)
    assert len(view.asked) == 1
    expect(view.page.get_by_text("31,000 earlier lines")).to_be_visible()
    # Whoever scrolls up reads on, page by page, and what is in sight stays where it is.
    view.box.evaluate("box => { box.scrollTop = 300 }")
    view.status("; the log is complete")
    expect(view.page.get_by_text(re.compile(r"lines 19,\d{3} to 33,000"))).to_be_visible()
    assert [set(asked) >= {"offset", "bytes_max"} for asked in view.asked] == [False, True]
    top = view.line("000001015")
    expect(top).to_be_visible()
    expect_in_sight(top)
    # A search looks through all of it.
    view.page.get_by_role("searchbox", name="Find in the log").fill("the needle")
    expect(view.page.get_by_text("1 line", exact=True)).to_be_visible()
    view.status("33,000 lines; the log is complete")
    assert len(view.asked) <= 6
    view.page.keyboard.press("Enter")
    expect(view.line("ERROR the needle")).to_be_visible()
    expect(view.page.get_by_role("link", name="Line 10", exact=True)).to_be_visible()


def test_the_long_log_of_a_job_opens_at_its_end_within_a_few_requests(
    view: LogView, long_log: str
) -> None:
    view.page.goto(f"/jobs/{long_log.partition('.')[0]}?tab=logs")
    last = view.line("000002999")
    expect(last).to_be_visible()
    view.status("the last 1,000 lines; the log is complete")
    expect_in_sight(last)
    assert len(view.asked) == 1
    # How many lines there are before nobody has counted, so that these have no numbers yet.
    expect(view.page.get_by_role("link", name=re.compile("^Line "))).to_have_count(0)
    view.page.get_by_role("button", name="Show earlier lines").click()
    view.status("the last 2,000 lines; the log is complete")
    view.page.get_by_role("searchbox", name="Find in the log").fill("the needle")
    expect(view.page.get_by_text("1 line", exact=True)).to_be_visible()
    view.status("33,000 lines; the log is complete")
    expect(view.page.get_by_role("button", name="Show earlier lines")).to_have_count(0)
    assert len(view.asked) <= 9
    view.page.keyboard.press("Enter")
    expect(view.line("ERROR the needle")).to_be_visible()


def test_the_log_of_many_tasks_is_followed_from_its_end(
    view: LogView, stage: Stage, worker: HandWorker
) -> None:
    job_id = stage.submit(name="many", replicas=2, lease=120)
    claims = [worker.claim(f"{job_id}.{index}") for index in range(2)]
    for claim in claims:
        worker.log(claim, b"its first line\n")
    filling = b"".join(b"filling %04d %s\n" % (n, b"x" * 1000) for n in range(1100))
    for begin in range(0, len(filling), 1_000_000):
        worker.log(claims[0], filling[begin : begin + 1_000_000], 15 + begin)
    # As if it had been written a while ago, in this order.
    stage.run_sql(
        "update holdfast.logs set stored_at = stored_at - interval '1 min'"
        " + interval '1 us' * start_offset where job_id = %s",
        int(job_id),
    )
    view.page.goto(f"/jobs/{job_id}?tab=logs")
    expect(view.line("filling 1099")).to_be_visible()
    # One that has long been silent goes on, and what it wrote before is not said to be missing.
    worker.log(claims[1], b"its last line\n", 15)
    expect(view.line("its last line")).to_be_visible()
    expect_in_sight(view.line("its last line"))
    view.page.get_by_role("button", name="Show earlier lines").click()
    view.status("1,103 lines; more may come")
    expect(view.line("bytes of output")).to_have_count(0)
    for claim in claims:
        worker.end(claim)
    view.status("1,103 lines; the log is complete")


@pytest.mark.parametrize("size", [DESKTOP, PHONE], ids=["desktop", "phone"])
def test_a_link_to_a_line_lands_there(view: LogView, long_log: str, size: Any) -> None:
    view.page.set_viewport_size(size)
    view.page.goto(f"/tasks/{long_log}?tab=logs&attempt=0&line=12345")
    target = view.page.get_by_role("link", name="Line 12345", exact=True)
    expect(target).to_have_attribute("aria-current", "true")
    expect(view.line("line 12345:")).to_have_class(re.compile("bg-accent-soft"))
    expect_in_sight(view.line("line 12345:"))
    assert view.asked[0]["line"] == ["12145"]
    view.status("lines 12,145 to 33,000; the log is complete")
    # The number of another line is a link to that.
    view.page.get_by_role("link", name="Line 12346", exact=True).click()
    expect(view.page).to_have_url(re.compile("line=12346"))
    # One that stands before what was read is read, and then brought into sight.
    view.page.goto(f"/tasks/{long_log}?tab=logs")
    expect(view.line("000002999")).to_be_visible()
    here = "location.pathname + location.search"
    view.page.evaluate(f"history.pushState(null, '', {here} + '&line=20000')")
    expect(view.line("line 20000:")).to_be_visible()
    expect(view.page.get_by_role("link", name="Line 20000", exact=True)).to_have_attribute(
        "aria-current", "true"
    )


@pytest.mark.parametrize("size", [DESKTOP, PHONE], ids=["desktop", "phone"])
def test_the_last_line_stays_in_sight_while_a_log_is_followed(
    view: LogView, stage: Stage, worker: HandWorker, size: Any
) -> None:
    task_id = f"{stage.submit(name='grows', lease=120)}.0"
    claim = worker.claim(task_id)
    view.page.set_viewport_size(size)
    view.page.goto(f"/tasks/{task_id}?tab=logs")
    expect(view.page.get_by_text("Nothing has been written yet.")).to_be_visible()
    written = b""
    for number in range(8):
        piece = b"".join(b"step %d, line %02d\n" % (number, line) for line in range(10))
        worker.log(claim, piece, offset=len(written))
        written += piece
        last = view.line(f"step {number}, line 09")
        expect(last).to_be_visible()
        view.page.wait_for_function(
            "() => document.querySelector('[aria-label^=\"Log of\"]')"
            ".getBoundingClientRect().bottom <= window.innerHeight"
        )
        expect_in_sight(last)
    follow = view.page.get_by_role("button", name="Follow", exact=True)
    expect(follow).to_have_attribute("aria-pressed", "true")
    # Whoever scrolls the page up to read its head is left there.
    view.page.mouse.move(size["width"] - 20, 200)
    view.page.evaluate("window.scrollTo(0, 0)")
    expect(follow).to_have_attribute("aria-pressed", "false")
    worker.log(claim, b"more\n", offset=len(written))
    view.status("81 lines; more may come")
    assert view.page.evaluate("window.scrollY") == 0
    view.page.get_by_role("button", name="Go to the end").click()
    expect(view.line("more")).to_be_visible()
    expect_in_sight(view.line("more"))
    worker.end(claim)


def test_a_log_whose_middle_is_not_kept_says_so(
    view: LogView, stage: Stage, worker: HandWorker
) -> None:
    task_id = f"{stage.submit(name='floods', lease=120)}.0"
    claim = worker.claim(task_id)
    worker.log(claim, b"the first line\nthe second line\n")
    end = b"".join(b"near the end %04d\n" % number for number in range(3000))
    worker.log(claim, end + b"the traceback\n", offset=9 << 20)
    worker.end(claim)
    view.page.goto(f"/tasks/{task_id}?tab=logs")
    expect(view.line("the traceback")).to_be_visible()
    view.status("lines 1,005 to 3,004; the log is complete")
    for last in ("lines 4 to 3,004", "3,004 lines"):
        view.page.get_by_role("button", name="Show earlier lines").click()
        view.status(f"{last}; the log is complete")
    view.box.evaluate("box => { box.scrollTop = 0 }")
    missing = (9 << 20) - 31
    expect(view.line(f"[{missing} bytes of output are left out here]")).to_be_visible()
    expect(view.line("the second line")).to_be_visible()
    expect(view.page.get_by_role("link", name="Line 3", exact=True)).to_be_visible()

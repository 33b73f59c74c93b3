"""What one reads on the pages: logs as they are written, datasets, why something waits."""

import base64
import re

from playwright.sync_api import Page, expect

from tests.browser.stage import HandWorker, Stage, eventually

HELD = base64.b64encode(b"three\n").decode()
TOLD = re.compile("the log is complete")


def lines_of(page: Page) -> list[str]:
    """Read the lines of the log that are on the screen, without their numbers."""
    lines = page.get_by_role("region", name=re.compile("Lines of the log")).locator("bdi")
    return [line.strip() for line in lines.all_inner_texts()]


def is_ready(stage: Stage, job_id: str) -> None:
    query = "select 1 from holdfast.ready where job_id = %s"
    eventually(lambda: stage.rows(query, int(job_id)))


def test_a_log_is_followed_searched_and_left_for_that_of_the_next_attempt(
    page: Page, stage: Stage
) -> None:
    job_id = stage.submit(
        name="talks",
        entrypoint={"command": ["talk"]},
        max_retries_failure=1,
        backoff={"base": 0.05},
        lease=120,
    )
    worker = HandWorker(stage, "w-talks")
    page.goto(f"/tasks/{job_id}.0?tab=logs")
    expect(page.get_by_text("It has not been tried yet.")).to_be_visible()
    first = worker.claim(f"{job_id}.0")
    expect(page.get_by_text("Nothing has been written yet.")).to_be_visible()

    written = b""
    for number in range(4):
        line = f"{'ERROR' if number == 2 else 'INFO'} step {number}\n".encode()
        worker.log(first, line, offset=len(written))
        written += line
        # Each before the next is written: the page shows it while the attempt goes on.
        expect(page.get_by_text(f"step {number}", exact=False).first).to_be_visible()
    assert lines_of(page) == written.decode().splitlines()

    levels = page.get_by_role("group", name="Levels")
    levels.get_by_role("button", name=re.compile("error")).click()
    expect(page.get_by_text("1 of 4 lines")).to_be_visible()
    assert lines_of(page) == ["ERROR step 2"]
    levels.get_by_role("button", name=re.compile("error")).click()
    page.get_by_role("searchbox", name="Find in the log").fill("step 3")
    expect(page.locator("mark")).to_have_text("step 3")
    page.keyboard.press("Enter")
    expect(page.get_by_text("1 of 1 line", exact=True)).to_be_visible()

    worker.end(first, "failed", error="no more", exit_code=1)
    is_ready(stage, job_id)
    second = worker.claim(f"{job_id}.0")
    worker.log(second, b"once more\n")
    worker.end(second)
    expect(page.get_by_text("once more")).to_be_visible()
    expect(page.get_by_text(TOLD)).to_be_visible()
    assert lines_of(page) == ["once more"]
    page.get_by_role("combobox", name="Attempt").select_option("0")
    expect(page.get_by_text("step 0")).to_be_visible()
    page.get_by_role("link", name="Line 2", exact=True).click()
    expect(page).to_have_url(re.compile(r"attempt=0.*line=2|line=2.*attempt=0"))
    page.get_by_role("button", name="Go to attempt 1").click()
    expect(page.get_by_text("once more")).to_be_visible()
    # A line is one of an attempt, also while that is the current one.
    page.get_by_role("link", name="Line 1", exact=True).click()
    expect(page).to_have_url(re.compile("attempt=1"))
    page.go_back()
    page.go_back()
    expect(page.get_by_role("link", name="Line 2", exact=True)).to_have_attribute(
        "aria-current", "true"
    )


def test_what_was_stored_out_of_order_stands_in_its_place(page: Page, stage: Stage) -> None:
    job_id = stage.submit(name="disorderly", entrypoint={"command": ["talk"]}, lease=120)
    worker = HandWorker(stage, "w-disorderly")
    claim = worker.claim(f"{job_id}.0")
    worker.log(claim, b"one\n")
    page.goto(f"/jobs/{job_id}?tab=logs")
    expect(page.get_by_text("one", exact=True)).to_be_visible()
    worker.log(claim, b"three\n", offset=8)
    # The page reads it, and keeps it back: something is still to come before it.
    with page.expect_response(lambda answer: "/logs" in answer.url and HELD in answer.text()):
        pass
    assert lines_of(page) == ["one"]
    worker.log(claim, b"two\n", offset=4)
    worker.end(claim)
    expect(page.get_by_text(TOLD)).to_be_visible()
    assert lines_of(page) == ["one", "two", "three"]


def test_lines_are_shown_with_their_times(page: Page, stage: Stage) -> None:
    job_id = stage.submit(name="punctual", lease=120)
    worker = HandWorker(stage, "w-punctual")
    claim = worker.claim(f"{job_id}.0")
    page.goto(f"/tasks/{job_id}.0?tab=logs")
    expect(page.get_by_text("Nothing has been written yet.")).to_be_visible()
    worker.log(claim, b"one\ntwo\n")
    worker.end(claim)
    for address in (f"/tasks/{job_id}.0?tab=logs", f"/jobs/{job_id}?tab=logs"):
        page.goto(address)
        expect(page.get_by_text(TOLD)).to_be_visible()
        times = page.locator("[data-index] time")
        expect(times).to_have_count(0)
        page.get_by_role("button", name="Times").click()
        expect(times).to_have_count(2)
        expect(times.first).to_have_text(re.compile(r"^\d\d:\d\d:\d\d\.\d{3}$"))
        page.get_by_role("button", name="Times").click()


def test_a_dataset_is_cut_over_by_clicks(page: Page, stage: Stage) -> None:
    with stage.client() as client:
        dataset = client.create_dataset("prices")
        dataset.open_version()
        dataset.open_version()
    page.goto("/datasets")
    page.get_by_role("link", name="prices").click()
    for version in (2, 1):
        page.get_by_role("button", name=f"Cut over to version {version}").click()
        question = page.get_by_role("dialog")
        expect(question).to_contain_text("sealed")
        question.get_by_label("Reason, for the record").fill(f"take {version}")
        question.get_by_role("button", name=f"Cut over to version {version}").click()
        expect(question).not_to_be_visible()
        row = page.get_by_role("row").filter(
            has=page.get_by_role("link", name=f"Entries of version {version}")
        )
        expect(row.get_by_text("current", exact=True)).to_be_visible()
    made = stage.rows(
        "select version, previous, actor, reason, forced from holdfast.cut_overs"
        " where dataset = 'prices' order by number"
    )
    assert made == [
        (2, None, "dashboard", "take 2", False),
        (1, 2, "dashboard", "take 1", False),
    ]
    assert stage.rows("select current_version from holdfast.datasets where name = 'prices'") == [
        (1,)
    ]
    page.get_by_role("tab", name="Cut-overs").click()
    expect(page.get_by_role("row").filter(has_text="from 2 to 1")).to_contain_text("take 1")


def test_a_placed_task_says_why_it_waits(page: Page, stage: Stage) -> None:
    job_id = stage.submit(
        name="large", queue=None, entrypoint={"command": ["true"]}, resources={"cpu": 4000}
    )
    page.goto(f"/tasks/{job_id}.0")
    reason = eventually(lambda: stage.call("GET", f"/api/tasks/{job_id}.0")["pending_reason"])
    expect(page.get_by_role("main").get_by_text(reason, exact=True)).to_be_visible()


def test_a_queue_that_nobody_serves_needs_attention(page: Page, stage: Stage) -> None:
    job_id = stage.submit(name="forlorn", queue="nobody/here")
    is_ready(stage, job_id)
    stage.run_sql(
        "update holdfast.ready set eligible_at = eligible_at - interval '1 hour'"
        " where queue = 'nobody/here'"
    )
    page.goto("/")
    item = page.get_by_role("region", name="Needs attention").get_by_role("listitem")
    expect(item.filter(has_text="no worker serves it")).to_contain_text("critical")
    for title in ("Throughput", "Failures", "Queue depth and running", "Wait"):
        expect(page.get_by_role("region", name=title)).to_be_visible()
    page.get_by_role("link", name="nobody/here").click()
    expect(page).to_have_url(re.compile("/queues"))
    expect(page.get_by_role("row").filter(has_text="nobody/here")).to_contain_text("does not drain")


def test_a_job_shows_what_its_tasks_add_up_to(page: Page, stage: Stage) -> None:
    job_id = stage.submit(name="sums", replicas=2, max_retries_failure=3, backoff={"base": 0.05})
    worker = HandWorker(stage, "w-sums")
    first, second = (worker.claim(f"{job_id}.{index}") for index in range(2))
    page.goto(f"/jobs/{job_id}")
    failures = page.locator("div", has=page.get_by_text("Failures, all tasks", exact=True)).last
    expect(failures).to_contain_text("0")
    for claim in (first, second):
        usage = {"cpu_seconds": 90.0, "memory_peak_bytes": 3 << 20}
        worker.end(claim, "failed", error="no more", usage=usage)
    expect(failures).to_contain_text("2")
    expect(page.get_by_text("3 min", exact=True)).to_be_visible()


def test_events_of_user_code_are_shown_with_what_they_carry(page: Page, stage: Stage) -> None:
    job_id = stage.submit(name="telling")
    worker = HandWorker(stage, "w-telling")
    claim = worker.claim(f"{job_id}.0")
    events = [{"kind": "loaded", "payload": {"rows": 7}}]
    worker.end(claim, events=events)
    page.goto(f"/jobs/{job_id}?tab=events")
    listed = page.get_by_role("table", name="Events")
    expect(listed.get_by_text("succeeded", exact=True).first).to_be_visible()
    expect(listed.get_by_text("user:loaded")).to_have_count(0)
    page.get_by_label("Type").select_option("user")
    row = listed.get_by_role("row").filter(has_text="user:loaded")
    expect(row).to_contain_text('{"rows":7}')
    expect(listed.get_by_text("succeeded", exact=True)).to_have_count(0)


def test_the_overview_says_how_long_each_type_waits_and_runs(page: Page, stage: Stage) -> None:
    job_id = stage.submit(name="timed-in-the-browser", type="timed-in-the-browser")
    worker = HandWorker(stage, "w-timed")
    worker.end(worker.claim(f"{job_id}.0"), run_ms=1)
    path = "/api/types/timed-in-the-browser"
    times = eventually(lambda: stage.call("GET", path)["times"])
    assert times["run_p95_ms"] is not None
    page.set_viewport_size({"width": 1400, "height": 900})
    page.goto("/")
    panel = page.get_by_role("region", name="Types, within the last hour")
    for title in ("Wait p50", "Wait p95", "Run p50", "Run p95"):
        expect(panel.get_by_role("columnheader", name=title)).to_be_visible()
    row = panel.get_by_role("row").filter(has_text="timed-in-the-browser")
    cells = row.get_by_role("cell")
    expect(cells).to_have_text([re.compile("timed"), "1", "0", *[re.compile(r"\d+ m?s")] * 4])


def test_two_workers_of_one_process_lead_to_each_other(page: Page, stage: Stage) -> None:
    known = {"host": "h", "name": "both", "book": "book-of-both"}
    claims = {"worker_id": "both-claims", "queues": ["by-hand"]}
    called = {"worker_id": "both-called", "address": f"{stage.url}", "secret": "s" * 32}
    for half in (claims, called):
        stage.call("POST", "/internal/worker-register", known | half)
    page.goto("/workers")
    row = page.get_by_role("row").filter(has_text="one process with both-called")
    expect(row).to_contain_text("both-claims")
    row.get_by_role("link", name="both-called").click()
    expect(page).to_have_url(re.compile("worker=both-called"))
    expect(page.get_by_text("one process with both-claims")).to_be_visible()

"""The two screens that were drawn before there was a dashboard, line by line."""

import re
from typing import NamedTuple

import pytest
from playwright.sync_api import Locator, Page, expect

from tests.browser.stage import HandWorker, Stage, eventually

DISPLAYED = {
    "pending": "rgb(154, 103, 0)",
    "assigned": "rgb(188, 76, 0)",
    "building": "rgb(130, 80, 223)",
    "running": "rgb(9, 105, 218)",
    "succeeded": "rgb(26, 127, 55)",
    "failed": "rgb(207, 34, 46)",
    "killed": "rgb(87, 96, 106)",
    "worker_failed": "rgb(130, 80, 223)",
    "unschedulable": "rgb(207, 34, 46)",
    "dead_lettered": "rgb(130, 7, 30)",
    "unspecified": "rgb(87, 96, 106)",
}
CLOCK = re.compile(r"\b\d\d:\d\d:\d\d\b")


class Drawn(NamedTuple):
    """A job of three tasks: two run, one of them for the second time, and one waits."""

    job_id: str


@pytest.fixture(scope="module")
def drawn(stage: Stage) -> Drawn:
    """Bring the ledger to where the drawing has it."""
    job_id = stage.submit(
        name="my-training-job",
        replicas=3,
        max_retries_failure=2,
        backoff={"base": 0.05},
        lease=120,
        entrypoint={"command": ["python", "train.py"]},
    )
    first, second, third = (HandWorker(stage, name) for name in ("w1", "w2", "w3"))
    first.claim(f"{job_id}.0")
    lost = third.claim(f"{job_id}.1")
    third.end(lost, "failed", error="Worker w3 timed out", exit_code=1)

    eventually(lambda: stage.call("GET", f"/api/tasks/{job_id}.1")["pending_reason"])

    def claimed() -> bool:
        query = "select 1 from holdfast.ready where job_id = %s and task_index = 1"
        return bool(stage.rows(query, int(job_id)))

    eventually(claimed)
    second.claim(f"{job_id}.1")
    return Drawn(job_id)


def cells(table: Locator, text: str) -> list[str]:
    """Read the cells of the row that has a link of this name."""
    link = table.page.get_by_role("link", name=text, exact=True)
    row = table.get_by_role("row").filter(has=link).first
    expect(row).to_be_visible()
    return [cell.strip(" ▸▾") for cell in row.locator("td, th").all_inner_texts()]


def test_the_job_page_is_as_it_was_drawn(page: Page, drawn: Drawn) -> None:
    page.goto(f"/jobs/{drawn.job_id}")
    expect(page.get_by_role("heading", name="Job: my-training-job")).to_be_visible()
    main = page.get_by_role("main")
    expect(main.get_by_text("Status:")).to_be_visible()
    expect(main.locator(".badge.status-running").first).to_have_text("running")
    expect(main.get_by_text(re.compile(r"Started: \d{4}-\d\d-\d\d \d\d:\d\d:\d\d"))).to_be_visible()
    expect(main.get_by_text("Tasks: 3 total, 2 running, 1 pending")).to_be_visible()

    table = page.get_by_role("table", name="Tasks")
    titles = [text.strip() for text in table.get_by_role("columnheader").all_inner_texts()]
    expected = ["Task", "State", "Worker", "Started", "Duration", "Attempts"]
    assert [title for title in titles if title in expected] == expected
    zero, one, two = (cells(table, f"{drawn.job_id}.{index}") for index in range(3))
    assert "running" in zero
    assert "w1" in zero
    assert zero[-1] == "1"
    assert "w2" in one
    assert one[-1] == "2"  # had a retry
    assert any(CLOCK.search(cell) for cell in zero)
    assert two[-1] == "0"
    assert two[-3:-1] == ["-", "-"]  # neither started nor a duration
    assert not [cell for cell in two if re.fullmatch("w[123]", cell)]
    # Why it waits stands under the badge.
    [state] = [cell for cell in two if cell.startswith("pending")]
    reason = state.removeprefix("pending").strip()
    assert reason
    # A job has no worker.
    facts = page.locator("main dl").all_inner_texts()
    assert not re.search(r"\bworker\b", " ".join(facts), re.IGNORECASE)


def test_a_task_row_opens_to_its_attempts(page: Page, drawn: Drawn) -> None:
    page.goto(f"/jobs/{drawn.job_id}")
    page.get_by_role("button", name=f"Open {drawn.job_id}.1").click()
    _expect_history(page)


def test_the_task_page_is_as_it_was_drawn(page: Page, drawn: Drawn) -> None:
    page.goto(f"/jobs/{drawn.job_id}")
    page.get_by_role("link", name=f"{drawn.job_id}.1", exact=True).first.click()
    expect(page.get_by_role("heading", name="Task: my-training-job/task-1")).to_be_visible()
    main = page.get_by_role("main")
    expect(main.get_by_text("Current State:")).to_be_visible()
    expect(main.locator(".badge.status-running").first).to_be_visible()
    expect(main.get_by_text(re.compile("Current Worker:"))).to_be_visible()
    expect(main.get_by_text("w2").first).to_be_visible()
    expect(main.get_by_text(re.compile("Attempt History"))).to_be_visible()
    _expect_history(page)


def _expect_history(page: Page) -> None:
    table = page.get_by_role("table", name=re.compile("Attempt"))
    expect(table.get_by_role("row")).to_have_count(3)
    for title in ("Attempt", "Worker", "State", "Started", "Finished"):
        expect(table.get_by_role("columnheader", name=title, exact=True)).to_be_visible()
    first = cells(table, "w3")
    assert {"0", "w3", "failed"} <= set(first)
    assert sum(1 for cell in first if CLOCK.search(cell)) >= 2
    second = cells(table, "w2")
    assert {"1 (curr)", "w2", "running", "-"} <= set(second)
    expect(page.get_by_text(re.compile(r"Attempt 0 Error:.*Worker w3 timed out"))).to_be_visible()


def test_a_lost_worker_is_said_to_be_one(page: Page, stage: Stage) -> None:
    job_id = stage.submit(name="loses-its-worker", lease=0.5)
    HandWorker(stage, "w-lost").claim(f"{job_id}.0")
    page.goto(f"/tasks/{job_id}.0")
    expect(page.get_by_text("(worker failure)").first).to_be_visible()
    table = page.get_by_role("table", name=re.compile("Attempt"))
    expect(table.locator(".badge.status-worker_failed")).to_have_text("worker_failed")


@pytest.mark.parametrize("theme", ["light", "dark"])
def test_every_state_has_its_colour(page: Page, theme: str) -> None:
    page.emulate_media(color_scheme=theme)  # type: ignore[arg-type]
    page.goto("/jobs")
    expect(page.get_by_role("heading", name="Jobs")).to_be_visible()
    colour_of = """(name) => {
      const badge = document.createElement("span");
      badge.className = `badge status-${name}`;
      document.body.append(badge);
      return getComputedStyle(badge).backgroundColor;
    }"""
    assert {name: page.evaluate(colour_of, name) for name in DISPLAYED} == DISPLAYED

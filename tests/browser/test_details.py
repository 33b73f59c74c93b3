"""Small things that people trip over: durations, long names, reasons, what a gang waits for."""

import re

import pytest
from playwright.sync_api import Locator, Page, expect

from tests.browser.stage import HandWorker, Stage, eventually
from tests.browser.tasks import nap

# A name of a machine as long as clouds make them.
LONG = "ip-10-0-23-117.eu-central-1.compute.internal-rack18-slot-042"
NAP_SECONDS = 0.1


def test_a_short_function_shows_its_own_duration(page: Page, stage: Stage) -> None:
    stage.start_worker("browser")
    with stage.client() as client:
        job = nap.submit(NAP_SECONDS)
        assert job.result(timeout=60) == NAP_SECONDS
        task = client.tasks.get(f"{job.id}.0")
    assert task.finished_at_ms is not None
    assert task.started_at_ms is not None
    took = task.finished_at_ms - task.started_at_ms
    # By the worker's clock, not by that of its reports; a start that is reported comes a bit late.
    assert 0.8 * NAP_SECONDS * 1000 <= took < 10_000
    shown = re.compile(rf"{took} ms|{took / 1000:.1f} s")
    page.goto(f"/tasks/{job.id}.0")
    fact = page.locator("main dl > div").filter(has_text=re.compile("^Took"))
    expect(fact.first).to_contain_text(shown)
    page.goto(f"/jobs/{job.id}")
    row = page.get_by_role("table").get_by_role("row").filter(has_text=f"{job.id}.0")
    expect(row).to_contain_text(shown)
    page.goto(f"/workers?worker={task.worker_id}")
    ended = page.get_by_role("table", name="Attempts that ended here").get_by_role("row")
    expect(ended.first).to_contain_text(shown)


def test_a_gang_that_loses_a_worker_runs_and_says_what_it_waits_for(
    page: Page, stage: Stage
) -> None:
    workers = [stage.start_placed_worker(name) for name in ("gang-a", "gang-b")]
    job_id = stage.submit(
        name="ring",
        queue=None,
        entrypoint={"command": ["sleep", "600"]},
        replicas=2,
        coscheduling={},
        resources={"cpu": 1},
        lease=10,
    )
    page.goto(f"/jobs/{job_id}")
    expect(page.get_by_text("Status: running")).to_be_visible()
    running = "select 1 from holdfast.jobs where job_id = %s and running = 2"
    eventually(lambda: stage.rows(running, int(job_id)), seconds=60)
    expect(page.get_by_text("tasks wait")).to_have_count(0)
    workers[0].terminate()
    waits = page.get_by_role("paragraph").filter(has_text="2 tasks wait")
    expect(waits).to_contain_text("could never fit: all workers have room for 1 of 2")
    expect(page.get_by_text("Status: running")).to_be_visible()
    expect(page.get_by_role("link", name="the workers")).to_be_visible()
    stage.call("POST", f"/api/jobs/{job_id}:cancel", {"mode": "hard"})


def whole_name(place: Locator) -> None:
    """See that a name is shown whole, whatever stands beside it."""
    expect(place.first).to_be_visible()
    cut = place.first.evaluate(
        """(element, name) => {
          for (let at = element; at !== null && at.tagName !== 'TD'; at = at.parentElement)
            if (at.scrollWidth > at.clientWidth + 1 && getComputedStyle(at).display !== 'inline')
              return true;
          return !element.innerText.includes(name);
        }""",
        LONG,
    )
    assert not cut, place.first.inner_html()


def test_a_long_name_of_a_worker_is_not_cut_beside_an_empty_column(
    page: Page, stage: Stage
) -> None:
    assert len(LONG) == 60
    hands = HandWorker(stage, LONG)
    job_id = stage.submit(name="on-a-long-name", replicas=2, lease=120)
    hands.claim(f"{job_id}.0")
    page.goto(f"/jobs/{job_id}")
    whole_name(page.get_by_role("table").get_by_role("row").get_by_text(LONG))
    page.goto("/workers")
    whole_name(page.get_by_role("table", name="Workers").get_by_text(LONG))


@pytest.mark.parametrize("path", ["/tasks/{id}.0", "/jobs?name=unwanted"])
def test_a_cancel_asks_for_a_reason(page: Page, stage: Stage, path: str) -> None:
    job_id = stage.submit(name="unwanted")
    page.goto(path.format(id=job_id))
    if "tasks" in path:
        page.get_by_role("button", name="Cancel", exact=True).click()
    else:
        page.get_by_role("checkbox", name=f"Select {job_id}").check()
        bar = page.get_by_role("region", name="Selected jobs")
        bar.get_by_role("button", name=re.compile("^Cancel")).first.click()
    question = page.get_by_role("dialog")
    question.get_by_label("Reason").fill("the wrong month")
    question.get_by_role("button", name=re.compile("^Cancel ")).click()
    query = "select reason from holdfast.actions where action = 'cancel' and subject like %s"
    assert eventually(lambda: stage.rows(query, f"{job_id}%")) == [("the wrong month",)]

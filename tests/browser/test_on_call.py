"""The night on call: from what needs attention to its cause and its remedy, by clicks alone."""

import re
from typing import Any

import pytest
from playwright.sync_api import Page, expect

from tests.browser.axe import serious_findings
from tests.browser.stage import HandWorker, Stage, eventually

# Past the guards: a task only moves forward, and a test does not wait for minutes.
TASKS_AGO = """
    with past as (select set_config('session_replication_role', 'replica', true))
    update holdfast.tasks set eligible_at = eligible_at - interval '5 min'
      from past where job_id = %s
"""
LINE_AGO = (
    "update holdfast.ready set eligible_at = eligible_at - interval '5 min' where job_id = %s"
)


def age(stage: Stage, job_id: str) -> None:
    """Let the tasks of a job have waited for five minutes."""
    query = "select 1 from holdfast.ready where job_id = %s"
    eventually(lambda: stage.rows(query, int(job_id)))
    for statement in (TASKS_AGO, LINE_AGO):
        stage.run_sql(statement, int(job_id))


def attention(page: Page) -> Any:
    """Find the list of what needs attention."""
    return page.get_by_role("region", name="Needs attention")


@pytest.fixture(scope="module")
def failed(stage: Stage) -> list[str]:
    """Six jobs of two types that ended with one error, one with another, and one that succeeded."""
    worker = HandWorker(stage, "w-failing")
    jobs = []
    for number in range(6):
        kind = f"import-{'eu' if number % 2 else 'us'}"
        job_id = stage.submit(name=kind, type=kind, queue="failing", lease=120)
        claim = worker.claim(f"{job_id}.0")
        error = f"no route to 10.0.0.{number}"
        worker.end(claim, "failed", error=error, error_class="PermanentError")
        jobs.append(job_id)
    other = stage.submit(name="import-eu", type="import-eu", queue="failing", lease=120)
    worker.end(worker.claim(f"{other}.0"), "failed", error="boom", error_class="PermanentError")
    good = stage.submit(name="import-eu", type="import-eu", queue="failing", lease=120)
    worker.end(worker.claim(f"{good}.0"))
    return jobs


def test_one_error_of_several_types_leads_to_exactly_its_jobs(
    page: Page, stage: Stage, failed: list[str]
) -> None:
    page.goto("/")
    row = attention(page).get_by_role("listitem").filter(has_text="no route to")
    expect(row).to_have_count(1)
    expect(row).to_contain_text("6 jobs of ")
    expect(attention(page)).not_to_contain_text("Failing type")
    row.get_by_role("link").click()
    expect(page).to_have_url(re.compile("state=unsuccessful&fingerprint=[0-9a-f]{16}"))
    links = page.get_by_role("table").get_by_role("link", name=re.compile("^[0-9]+$"))
    expect(links).to_have_count(6)
    assert sorted(links.all_inner_texts()) == sorted(failed)
    expect(page.get_by_text("With one error: no route to 10.0.0.5")).to_be_visible()
    states = page.get_by_role("group", name="State")
    expect(states.get_by_role("button", name="unsuccessful")).to_have_attribute(
        "aria-pressed", "true"
    )
    page.get_by_role("button", name="Show jobs with any error").click()
    expect(links).to_have_count(7)


def test_an_end_is_counted_once_and_leads_to_no_list_of_other_things(
    page: Page, stage: Stage, failed: list[str]
) -> None:
    page.goto("/")
    ended = page.get_by_role("region", name="Ended", exact=True)
    told = [
        re.compile(rf"^{words}$") for words in ("succeeded *1", "failed *0", "dead_lettered *7")
    ]
    expect(ended.get_by_role("listitem").filter(has_text=re.compile("^[sfd]"))).to_have_text(told)
    expect(ended).to_contain_text("0 attempts of these were tried again")
    expect(ended.get_by_role("link")).to_have_count(0)


def test_a_queue_is_served_by_who_never_registered_on_every_page(page: Page, stage: Stage) -> None:
    job_id = stage.submit(name="strange", queue="strange", replicas=2, lease=120)
    page.goto(f"/jobs/{job_id}")
    expect(page.get_by_text("no worker serves queue strange").first).to_be_visible()
    body = {"worker_id": "stranger", "task_id": f"{job_id}.0", "idempotency_key": "strange"}
    [claim] = stage.call("POST", "/internal/task-claim", body)["claims"]
    for path in (f"/jobs/{job_id}", "/queues", f"/tasks/{job_id}.1"):
        page.goto(path)
        expect(page.get_by_text("strange").first).to_be_visible()
        expect(page.get_by_text("no worker")).to_have_count(0)
    age(stage, job_id)
    page.goto("/")
    row = attention(page).get_by_role("listitem").filter(has_text="strange")
    expect(row.filter(has_text="no worker serves it")).to_have_count(0)
    stage.call("POST", f"/api/jobs/{job_id}:cancel", {"mode": "hard"})
    assert claim["task_id"] == f"{job_id}.0"


def test_a_queue_whose_last_worker_drains_is_served_by_nobody_while_it_is_busy(
    page: Page, stage: Stage
) -> None:
    worker = {"worker_id": "w-leaving", "name": "leaving", "host": "h", "queues": ["leaving"]}
    stage.call("POST", "/internal/worker-register", worker)
    job_id = stage.submit(name="leaving", queue="leaving", replicas=3, lease=120)
    body = {"worker_id": "w-leaving", "task_id": f"{job_id}.0", "idempotency_key": "leaving"}
    [claim] = stage.call("POST", "/internal/task-claim", body)["claims"]
    age(stage, job_id)
    stage.call("POST", "/api/workers/w-leaving:drain", {})
    page.goto("/")
    row = attention(page).get_by_role("listitem").filter(has_text="leaving")
    expect(row).to_contain_text("no worker serves it; 2 tasks in line")
    expect(row).to_contain_text("1 attempt left running")
    expect(
        page.get_by_role("region", name="Tasks now").locator("dd").filter(has_text="no worker")
    ).to_be_visible()
    row.get_by_role("link", name="leaving").click()
    expect(page.get_by_role("row").filter(has_text="leaving")).to_contain_text("no worker")
    expect(page.get_by_text("No worker serves leaving")).to_be_visible()
    stage.call("POST", f"/api/jobs/{job_id}:cancel", {"mode": "hard"})
    assert claim["task_id"] == f"{job_id}.0"


def test_several_states_are_chosen_at_once(page: Page, stage: Stage, failed: list[str]) -> None:
    page.goto("/jobs?queue=failing")
    links = page.get_by_role("table").get_by_role("link", name=re.compile("^[0-9]+$"))
    expect(links).to_have_count(8)
    states = page.get_by_role("group", name="State")
    states.get_by_role("button", name="dead_lettered").click()
    expect(links).to_have_count(7)
    states.get_by_role("button", name="succeeded").click()
    expect(page).to_have_url(re.compile("state=dead_lettered%2Csucceeded"))
    expect(links).to_have_count(8)
    states.get_by_role("button", name="dead_lettered").click()
    expect(links).to_have_count(1)


def test_work_that_cannot_start_is_counted_apart_and_leads_to_its_remedy(
    page: Page, stage: Stage
) -> None:
    huge = stage.submit(name="huge", queue=None, resources={"gpu": 64}, replicas=3)
    left = stage.submit(name="left", queue="left", replicas=2)
    stage.submit(name="held", queue="held")
    stage.call("POST", "/api/queues/held:pause", {})
    for job_id in (huge, left):
        age(stage, job_id)
    page.goto("/")
    tasks = page.get_by_role("region", name="Tasks now")
    for text in ("2no worker serves them", "1in a paused queue", "3fit no worker"):
        count, meaning = text[0], text[1:]
        tile = tasks.locator("dd").filter(has_text=meaning)
        expect(tile).to_contain_text(count)
    row = attention(page).get_by_role("listitem").filter(has_text="can never run")
    expect(row).to_contain_text("1 cpu, 64 gpu")
    expect(row).to_contain_text("3 tasks of 1 job could never fit")
    expect(row).to_contain_text("start a worker that has it")
    assert serious_findings(page) == []
    # The jobs stand above by their ids; no list of jobs has exactly these tasks.
    expect(tasks.get_by_role("link", name="never fits")).to_have_count(0)
    expect(row.get_by_role("link", name=huge, exact=True)).to_be_visible()
    row.get_by_role("link", name="1 cpu, 64 gpu").click()
    expect(page.get_by_role("heading", level=1)).to_contain_text("huge")
    expect(page.get_by_text("3 tasks wait")).to_be_visible()

    page.goto("/")
    row = attention(page).get_by_role("listitem").filter(has_text="no worker serves it")
    row.get_by_role("link", name="left").click()
    expect(page.get_by_text("No worker serves left")).to_be_visible()
    expect(page.get_by_label("How to start a worker for it", exact=True)).to_contain_text(
        "holdfast worker --queue left --import MODULE"
    )
    assert serious_findings(page) == []
    stage.call("POST", f"/api/jobs/{left}:cancel", {"mode": "hard"})
    expect(page.get_by_text("No worker serves left")).to_have_count(0)
    expect(page.get_by_role("row").filter(has_text="left")).not_to_contain_text("no worker")
    page.goto("/")
    expect(tasks.locator("dd").filter(has_text="no worker serves them")).to_have_count(0)


def test_an_idle_queue_that_is_served_is_listed_and_can_be_paused(page: Page, stage: Stage) -> None:
    stage.call(
        "POST",
        "/internal/worker-register",
        {"worker_id": "w-idle", "name": "idle", "host": "h", "queues": ["idle"]},
    )
    page.goto("/queues")
    row = page.get_by_role("row").filter(has_text="idle")
    row.get_by_role("button", name="Pause idle").click()
    page.get_by_role("dialog").get_by_role("button", name="Pause", exact=True).click()
    expect(row).to_contain_text("paused by dashboard")
    page.keyboard.press("Escape")
    row.get_by_role("button", name="Resume idle").click()
    page.get_by_role("dialog").get_by_role("button", name="Resume", exact=True).click()
    expect(row).not_to_contain_text("paused")


def test_a_job_that_has_started_and_waits_again_says_what_for(page: Page, stage: Stage) -> None:
    job_id = stage.submit(
        name="again",
        queue="again",
        max_retries_failure=1,
        backoff={"base": 600, "ceiling": 600},
        lease=120,
    )
    worker = HandWorker(stage, "w-again")
    claim = worker.claim(f"{job_id}.0")
    page.goto(f"/jobs/{job_id}")
    expect(page.get_by_text("1 task waits")).to_have_count(0)
    worker.end(claim, "failed", error="no more")
    expect(page.get_by_text("Status: running")).to_be_visible()
    expect(page.get_by_text("1 task waits")).to_be_visible()
    expect(page.get_by_text("retry due at").first).to_be_visible()

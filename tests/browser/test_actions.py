"""What is done by clicks: each says what will happen, and the ledger shows that it has."""

import re
import subprocess

import pytest
from playwright.sync_api import Page, expect

from holdfast.model.states import JobState, TaskState
from tests.browser.conftest import Complaints
from tests.browser.stage import HandWorker, Stage, eventually
from tests.browser.tasks import refuse, stay

STATE = "select state from holdfast.jobs where job_id = %s"


@pytest.fixture(scope="module")
def worker(stage: Stage) -> subprocess.Popen[bytes]:
    """A real worker."""
    return stage.start_worker("browser")


def job_state(stage: Stage, job_id: str) -> JobState:
    [(state,)] = stage.rows(STATE, int(job_id))
    return JobState(state)


def has_ended(stage: Stage, job_id: str, state: JobState) -> None:
    eventually(lambda: job_state(stage, job_id) == state)


def is_running(stage: Stage, job_id: str) -> None:
    query = "select 1 from holdfast.tasks where job_id = %s and state = %s"
    eventually(lambda: stage.rows(query, int(job_id), int(TaskState.RUNNING)))


@pytest.mark.usefixtures("worker")
def test_a_job_is_cancelled_softly(page: Page, stage: Stage) -> None:
    with stage.client():
        job_id = stay.submit().id
    is_running(stage, job_id)
    page.goto(f"/jobs/{job_id}")
    page.get_by_role("button", name="Cancel", exact=True).click()
    question = page.get_by_role("dialog")
    expect(question).to_contain_text("SIGTERM")
    expect(question).to_contain_text("30 s")
    page.keyboard.press("Escape")
    expect(question).not_to_be_visible()
    assert stage.rows("select cancel_mode from holdfast.jobs where job_id = %s", int(job_id)) == [
        (None,)
    ]
    page.get_by_role("button", name="Cancel", exact=True).click()
    question.get_by_role("button", name="Cancel the job").click()
    expect(page.locator(".badge.status-killed").first).to_be_visible()
    has_ended(stage, job_id, JobState.KILLED)
    [(mode, actor)] = stage.rows(
        "select jobs.cancel_mode, events.actor"
        " from holdfast.jobs join holdfast.events using (job_id)"
        " where job_id = %s and events.type = 'cancel_requested'",
        int(job_id),
    )
    assert (mode, actor) == ("soft", "dashboard")


def test_selected_jobs_are_cancelled_hard(page: Page, stage: Stage) -> None:
    ids = [stage.submit(name=f"selected-{number}") for number in range(3)]
    held = HandWorker(stage, "w-selected").claim(f"{ids[0]}.0")
    page.goto("/jobs?name=selected-")
    for job_id in ids[:2]:
        page.get_by_role("checkbox", name=f"Select {job_id}").check()
    bar = page.get_by_role("region", name="Selected jobs")
    bar.get_by_role("button", name=re.compile("hard")).click()
    question = page.get_by_role("dialog")
    expect(question).to_contain_text("2 jobs")
    question.get_by_role("button", name="Cancel 2 jobs hard").click()
    for job_id in ids[:2]:
        has_ended(stage, job_id, JobState.KILLED)
    assert job_state(stage, ids[2]) == JobState.PENDING
    assert held["task_id"] == f"{ids[0]}.0"


def test_a_queue_is_paused_and_resumed(page: Page, stage: Stage) -> None:
    stage.submit(queue="team/held")
    page.goto("/queues")
    paused = "select paused_by from holdfast.queues where queue = 'team/held'"
    page.get_by_role("button", name="Pause team/held").click()
    page.get_by_role("dialog").get_by_role("button", name="Pause").click()
    resume = page.get_by_role("button", name="Resume team/held")
    expect(resume).to_be_visible()
    assert stage.rows(paused) == [("dashboard",)]
    resume.click()
    page.get_by_role("dialog").get_by_role("button", name="Resume").click()
    expect(page.get_by_role("button", name="Pause team/held")).to_be_visible()
    assert stage.rows(paused) == []


def test_a_worker_is_drained(page: Page, stage: Stage, worker: subprocess.Popen[bytes]) -> None:
    leaves = stage.start_worker("drained")
    query = "select worker_id from holdfast.workers where 'drained' = any(queues)"
    [(worker_id,)] = eventually(lambda: stage.rows(query))
    page.goto("/workers")
    page.get_by_role("button", name=f"Drain {worker_id}").click()
    question = page.get_by_role("dialog")
    expect(question).to_contain_text("takes nothing new")
    question.get_by_role("button", name="Drain").click()
    eventually(lambda: leaves.poll() is not None)
    assert leaves.returncode == 0
    assert worker.poll() is None
    [(by,)] = stage.rows("select draining_by from holdfast.workers where worker_id = %s", worker_id)
    assert by == "dashboard"


@pytest.mark.usefixtures("worker")
def test_dead_letters_are_replayed_and_discarded(page: Page, stage: Stage) -> None:
    with stage.client():
        job = refuse.map(["one", "two", "three"])
        job.wait(timeout=60)
    page.goto(f"/dead-letters?job={job.id}")
    page.get_by_role("checkbox", name=f"Select {job.id}.0").check()
    page.get_by_role("checkbox", name=f"Select {job.id}.2").check()
    chosen = page.get_by_role("group", name="What to do")
    expect(chosen).to_contain_text("2 dead letters selected")
    jobs_before = stage.rows("select count(*) from holdfast.jobs")

    chosen.get_by_role("button", name="Dry-run replay").click()
    dialog = page.get_by_role("dialog")
    expect(dialog).to_contain_text("would submit 2 tasks as 1 new job")
    dialog.get_by_role("button", name="Close").click()
    assert stage.rows("select count(*) from holdfast.jobs") == jobs_before

    chosen.get_by_role("button", name="Replay …").click()
    dialog.get_by_role("button", name="Replay 2 tasks").click()
    expect(dialog).to_contain_text("Submitted 2 tasks as 1 new job")
    [(replayed, of)] = stage.rows(
        "select num_tasks, replay_of from holdfast.jobs order by job_id desc limit 1"
    )
    assert (replayed, str(of)) == (2, job.id)
    dialog.get_by_role("button", name="Close").click()

    page.get_by_role("checkbox", name=f"Select {job.id}.1").check()
    expect(chosen).to_contain_text("1 dead letter selected")
    chosen.get_by_role("button", name="Discard …").click()
    dialog.get_by_role("button", name="Discard").click()
    letters = (
        "select task_index, replayed_as is not null, discarded_by from holdfast.dead_letters"
        " where job_id = %s order by 1"
    )
    wanted = [(0, True, None), (1, False, "dashboard"), (2, True, None)]
    eventually(lambda: stage.rows(letters, int(job.id)) == wanted)


@pytest.mark.usefixtures("worker")
def test_a_dead_letter_is_replayed_with_another_input_and_others_after_a_canary(
    page: Page, stage: Stage
) -> None:
    with stage.client():
        job = refuse.map(["one", "two", "three"])
        job.wait(timeout=60)
    page.goto(f"/dead-letters?job={job.id}")
    chosen = page.get_by_role("group", name="What to do")
    dialog = page.get_by_role("dialog")
    page.get_by_role("checkbox", name=f"Select {job.id}.1").check()
    chosen.get_by_role("button", name="Replay …").click()
    dialog.get_by_role("button", name="Edit the input …").click()
    edited = dialog.get_by_label("Input of the new task, as JSON")
    edited.fill("{")
    expect(dialog).to_contain_text("This is not JSON")
    expect(dialog.get_by_role("button", name="Replay 1 task")).to_be_disabled()
    edited.fill("12345678901234567890")
    dialog.get_by_role("button", name="Replay 1 task").click()
    expect(dialog).to_contain_text("Submitted 1 task as 1 new job")
    [(given,)] = stage.rows("select input::text from holdfast.tasks order by job_id desc limit 1")
    assert given == "12345678901234567890"
    dialog.get_by_role("button", name="Close").click()

    for index in (0, 2):
        page.get_by_role("checkbox", name=f"Select {job.id}.{index}").check()
    chosen.get_by_role("button", name="Replay …").click()
    dialog.get_by_label("Canary").fill("1")
    expect(dialog).to_contain_text("after the canary")
    dialog.get_by_role("button", name="Replay 2 tasks").click()
    expect(dialog).to_contain_text("Submitted 2 tasks as 2 new jobs")
    # The canary dies again, so the rest is given back.
    open_letters = (
        "select task_index from holdfast.dead_letters where replayed_as is null and job_id = %s"
    )
    eventually(lambda: stage.rows(open_letters, int(job.id)) == [(2,)])


@pytest.mark.usefixtures("worker")
def test_a_job_runs_again(page: Page, stage: Stage) -> None:
    with stage.client():
        job = refuse.map(["again"])
        job.wait(timeout=60)
    page.goto(f"/jobs/{job.id}")
    page.get_by_role("button", name="Run again", exact=True).click()
    page.get_by_role("dialog").get_by_role("button", name="Submit it again").click()
    expect(page).not_to_have_url(re.compile(rf"/jobs/{job.id}$"))
    [(made, of)] = stage.rows(
        "select job_id, replay_of from holdfast.jobs order by job_id desc limit 1"
    )
    assert str(of) == job.id
    expect(page).to_have_url(re.compile(rf"/jobs/{made}$"))


def test_a_refusal_stays_in_the_dialog(page: Page, stage: Stage, complaints: Complaints) -> None:
    complaints.expected = ("409 (Conflict)", "net::ERR_FAILED")
    job_id = stage.submit(name="gone-meanwhile")
    page.goto(f"/tasks/{job_id}.0")
    page.get_by_role("button", name=re.compile("Dead-letter")).click()
    # Somebody else was faster, and this page has not heard of it yet.
    page.route("**/api/changes/stream*", lambda route: route.abort())
    stage.call("POST", f"/api/jobs/{job_id}:cancel", {"mode": "hard"})
    has_ended(stage, job_id, JobState.KILLED)
    question = page.get_by_role("dialog")
    question.get_by_role("button", name="Dead-letter it").click()
    expect(question.get_by_role("alert")).to_contain_text("KILLED")
    assert stage.rows("select 1 from holdfast.dead_letters where job_id = %s", int(job_id)) == []

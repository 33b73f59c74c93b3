"""What is done by clicks: each says what will happen, and the ledger shows that it has."""

import re
import subprocess

import pytest
from playwright.sync_api import APIResponse, Page, Route, expect

from holdfast.model.work.states import JobState, TaskState
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
    # Asked again before the page has heard of the end of the first question.
    page.evaluate(
        """() => {
            document.querySelector("dialog").close();
            [...document.querySelectorAll("main button")]
                .find((button) => button.textContent === "Cancel").click();
        }"""
    )
    expect(question).to_contain_text("SIGTERM")
    question.get_by_label("Reason").fill("it reads the wrong bucket")
    page.keyboard.press("Enter")  # which sends nothing
    question.get_by_role("button", name="Cancel the job").click()
    expect(page.locator(".badge.status-killed").first).to_be_visible()
    has_ended(stage, job_id, JobState.KILLED)
    why = page.get_by_role("list", name="Why it ended")
    expect(why).to_have_text("cancelled by dashboard: it reads the wrong bucket")
    expect(page.locator("main dl").filter(has_text="Cancelled softly")).to_be_visible()
    [(mode, actor)] = stage.rows(
        "select jobs.cancel_mode, events.actor"
        " from holdfast.jobs join holdfast.events using (job_id)"
        " where job_id = %s and events.type = 'cancel_requested'",
        int(job_id),
    )
    assert (mode, actor) == ("soft", "dashboard")


def test_a_killed_job_leads_to_its_root_cause(page: Page, stage: Stage) -> None:
    first = stage.submit(name="extract", max_attempts=1)
    second = stage.submit(name="transform", depends_on=[{"job": first}])
    third = stage.submit(name="load", depends_on=[{"job": second}])
    hands = HandWorker(stage, "w-cause")
    hands.end(hands.claim(f"{first}.0"), "failed", error="no such bucket", exit_code=1)
    has_ended(stage, third, JobState.KILLED)
    page.goto(f"/jobs/{third}")
    why = page.get_by_role("list", name="Why it ended").get_by_role("listitem")
    expect(why).to_have_count(3)
    expect(why.nth(0)).to_contain_text(f"job {second} (transform) ended KILLED")
    expect(why.nth(2)).to_contain_text("no such bucket (root cause)")
    # Nobody has cancelled anything.
    expect(page.get_by_role("main")).not_to_contain_text(re.compile("cancelled", re.IGNORECASE))
    why.get_by_role("link", name=f"task {first}.0").click()
    expect(page).to_have_url(re.compile(rf"/tasks/{first}\.0$"))
    page.goto(f"/tasks/{third}.0")
    page.get_by_role("link", name=f"Why job {third} ended").click()
    expect(why).to_have_count(3)
    # It can be resumed; what has succeeded, or waits, cannot.
    resume = page.get_by_role("button", name="Resume", exact=True)
    expect(resume).to_be_visible()
    good, waiting = stage.submit(name="good"), stage.submit(name="waiting")
    hands.end(hands.claim(f"{good}.0"), "succeeded")
    for job_id, offered in ((good, "Run again"), (waiting, "Cancel")):
        page.goto(f"/jobs/{job_id}")
        expect(page.get_by_role("button", name=offered, exact=True)).to_be_visible()
        expect(resume).to_have_count(0)


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


def test_a_worker_that_fails_all_it_touches_is_found_and_drained(page: Page, stage: Stage) -> None:
    good, bad = HandWorker(stage, "w-good"), HandWorker(stage, "w-bad")
    fine = stage.submit(name="on-good", replicas=10)
    wrong = [stage.submit(name="on-bad", max_retries_failure=0) for _ in range(6)]
    for index in range(10):
        good.end(good.claim(f"{fine}.{index}"))
    for job_id in wrong:
        bad.end(bad.claim(f"{job_id}.0"), "failed", error="disk is read-only", exit_code=1)
    page.goto("/")
    one = page.get_by_role("region", name="Needs attention").get_by_role("listitem")
    told = one.filter(has=page.get_by_role("link", name="w-bad", exact=True))
    expect(told).to_contain_text("6 of 6 attempts failed there")
    expect(one.filter(has_text="w-good")).to_have_count(0)
    told.get_by_role("link").click()
    workers = page.get_by_role("table", name="Workers")
    expect(workers.get_by_role("row").filter(has_text="w-bad").first).to_contain_text("6 of 6")
    expect(workers.get_by_role("row").filter(has_text="w-bad").first).to_contain_text("failing")
    expect(workers.get_by_role("row").filter(has_text="w-good").first).to_contain_text("0 of 10")
    ended = page.get_by_role("table", name="Attempts that ended here").get_by_role("row")
    expect(ended).to_have_count(6)
    expect(ended.first).to_contain_text("disk is read-only")
    expect(ended.first.get_by_role("link", name=f"{wrong[-1]}.0.0")).to_be_visible()
    workers.get_by_role("button", name="Drain w-bad").click()
    page.get_by_role("dialog").get_by_role("button", name="Drain").click()
    expect(workers).to_contain_text("draining")
    page.get_by_role("link", name="Jobs that it has run").click()
    expect(page.get_by_role("row").filter(has_text="on-bad")).to_have_count(6)
    expect(page.get_by_role("row").filter(has_text="on-good")).to_have_count(0)
    # Those of a selection are replayed together, and each new job has a link that stays.
    page.get_by_role("checkbox", name="Select all").check()
    page.get_by_role("button", name="Replay dead letters of 6 jobs").click()
    page.get_by_role("dialog").get_by_role("button", name="Replay dead letters").click()
    said = page.get_by_role("status").filter(has_text="Submitted 6 jobs")
    expect(said.get_by_role("link")).to_have_count(6)
    made = stage.rows("select job_id::text from holdfast.jobs order by jobs.job_id desc limit 6")
    assert sorted(said.get_by_role("link").all_inner_texts()) == sorted(
        made_id for (made_id,) in made
    )
    page.get_by_role("button", name="Show jobs of any worker").click()
    expect(page.get_by_role("row").filter(has_text="on-good")).to_have_count(1)
    said.get_by_role("link").first.click()
    expect(page).to_have_url(re.compile(r"/jobs/\d+$"))


def test_a_replay_from_a_group_or_a_letter_stays_confirmed_with_a_link(
    page: Page, stage: Stage
) -> None:
    hands = HandWorker(stage, "w-letters")
    jobs = [stage.submit(name="alike") for _ in range(3)]
    for job_id in jobs:
        claim = hands.claim(f"{job_id}.0")
        hands.end(claim, "failed", error=f"no room for {job_id}", error_class="PermanentError")
    page.goto("/dead-letters")
    groups = page.get_by_role("region", name="Errors that are alike")
    groups.get_by_role("button").filter(has_text="no room for").click()
    # The list is about that group now, and can be read the newest first.
    expect(page.get_by_text("Only errors like")).to_be_visible()
    letters = page.get_by_role("table", name="Dead letters", exact=True)
    ids = letters.get_by_role("link").filter(has_text=re.compile(r"^\d+\.\d+$"))
    expect(ids).to_have_text([f"{job_id}.0" for job_id in jobs])
    page.get_by_role("combobox", name=re.compile("^Order")).select_option("newest")
    expect(ids).to_have_text([f"{job_id}.0" for job_id in jobs[::-1]])
    letters.get_by_role("button", name="Task").click(click_count=2)
    expect(ids).to_have_text([f"{job_id}.0" for job_id in jobs])
    page.get_by_role("button", name=f"Open {jobs[1]}.0").click()
    dialog = page.get_by_role("dialog")
    said = page.get_by_role("status", name="The last replay")
    for within, tasks in ((letters, "1 task"), (groups, "2 tasks")):
        within.get_by_role("button", name="Replay …").click()
        dialog.get_by_role("button", name=f"Replay {tasks}").click()
        # What was replayed leaves both lists, and takes its buttons along.
        expect(within.get_by_role("button", name="Replay …")).to_have_count(0)
        [(made,)] = stage.rows("select max(job_id)::text from holdfast.jobs")
        expect(dialog).to_contain_text(f"Submitted {tasks}")
        expect(dialog.get_by_role("link", name=f"job {made}")).to_be_visible()
        dialog.get_by_role("button", name="Close").click()
        expect(said).to_contain_text(f"Replayed {tasks}")
    said.get_by_role("link", name=f"job {made}").click()
    expect(page).to_have_url(re.compile(rf"/jobs/{made}$"))


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


@pytest.mark.usefixtures("worker")
def test_a_broken_graph_is_resumed(page: Page, stage: Stage) -> None:
    with stage.client():
        failed = refuse.map(["broken"])
        killed = refuse.with_options(depends_on=[failed]).map(["in vain"])
        killed.wait(timeout=60)
    page.goto(f"/jobs/{killed.id}")
    page.get_by_role("button", name="Resume").click()
    dialog = page.get_by_role("dialog")
    expect(dialog).to_contain_text(f"1 task of job {failed.id}")
    expect(dialog).to_contain_text(f"1 task of job {killed.id}")
    dialog.get_by_role("button", name="Resume").click()
    expect(page).not_to_have_url(re.compile(rf"/jobs/{killed.id}$"))
    made = stage.rows("select job_id, replay_of from holdfast.jobs order by job_id desc limit 2")
    assert [str(of) for _, of in made] == [killed.id, failed.id]
    expect(page).to_have_url(re.compile(rf"/jobs/{made[0][0]}$"))


@pytest.mark.usefixtures("worker")
def test_what_is_being_done_is_not_planned_anew(page: Page, stage: Stage) -> None:
    with stage.client():
        failed = refuse.map(["broken"])
        failed.wait(timeout=60)
    # All that is shown is to be read again, each time that the stream is connected to anew.
    all_new = 'id: 1\ndata: {"job_ids": [], "all": true}\n\n'
    stream = "**/api/changes/stream*"
    page.route(stream, lambda r: r.fulfill(content_type="text/event-stream", body=all_new))
    asked: list[bool] = []
    held: list[tuple[Route, APIResponse]] = []

    def hold(route: Route) -> None:
        asked.append((route.request.post_data_json or {})["dry_run"])
        if asked[-1]:
            route.continue_()
        else:
            held.append((route, route.fetch()))

    page.route("**/*:resume", hold)
    page.goto(f"/jobs/{failed.id}")
    page.get_by_role("button", name="Resume").click()
    dialog = page.get_by_role("dialog")
    expect(dialog).to_contain_text(f"1 task of job {failed.id}")
    dialog.get_by_role("button", name="Resume").click()
    for _ in range(3):
        with page.expect_request(stream):
            pass
    [(route, answer)] = held
    assert asked[asked.index(False) :] == [False]
    route.fulfill(response=answer)
    expect(page).not_to_have_url(re.compile(rf"/jobs/{failed.id}$"))


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

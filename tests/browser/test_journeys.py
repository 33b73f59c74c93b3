"""The three journeys of docs/on-call.md, click by click to the remedy, on one messy stage."""

import re
from typing import Any, NamedTuple

import pytest
from playwright.sync_api import Locator, Page, expect

from tests.browser.stage import HandWorker, Stage, eventually
from tests.browser.test_on_call import age, attention

HOSTILE = '<img src=x onerror=alert(1)>\u202e" long' + " name" * 30
RACK = "rack-18-ip-10-0-23-117.eu-central-1.compute.internal"
LATER = "no route to 10.0.23."


class Mess(NamedTuple):
    """What stands on the stage, by its ids."""

    failing: list[str]
    reports: str
    huge: str
    mail: str
    first: str
    waiting: str
    broken: list[str]


def fail(hands: HandWorker, job_id: str, error: str) -> None:
    claim = hands.claim(f"{job_id}.0")
    hands.log(claim, f"INFO {HOSTILE}\nERROR {error}\n".encode())
    hands.end(claim, "failed", error=f"{error}\n  at line 7", error_class="PermanentError")


@pytest.fixture(scope="module")
def mess(stage: Stage) -> Mess:
    """A night: thousands of tasks, hostile names, several errors, queues that stand still."""
    hands, rack = HandWorker(stage, "w-fine"), HandWorker(stage, RACK)
    stage.start_placed_worker("w-placed")
    failing = []
    for number in range(6):
        kind = "import-ap" if number % 2 else "import-us"
        failing.append(stage.submit(name=f"{kind} {HOSTILE}", type=kind, owner=HOSTILE, lease=120))
        fail(hands, failing[-1], f"{LATER}{number}")
    for error in ("boom", "no such key 'a'", f"{HOSTILE} is not a number"):
        fail(hands, stage.submit(name="stray", type="stray", lease=120), error)
    broken = [stage.submit(name=f"nightly-{n}", type=f"nightly-{n}", lease=120) for n in range(6)]
    for job_id in broken:
        fail(rack, job_id, "Read-only file system: /data")
    fine = stage.submit(name="fine", replicas=30, lease=120)
    for index in range(30):
        hands.end(hands.claim(f"{fine}.{index}"))
    reports = stage.submit(name="monthly-report", queue="reports", replicas=3000)
    huge = stage.submit(name="pretrain", queue=None, resources={"gpu": 64}, replicas=3)
    mail = stage.submit(name="newsletter", queue="mail/outgoing", replicas=55)
    stage.call("POST", "/api/queues/mail%2Foutgoing:pause", {})
    first = stage.submit(name="extract", queue="reports")
    waiting = stage.submit(name="transform", depends_on=[{"job": first}])
    for job_id in (reports, huge, mail):
        age(stage, job_id)
    return Mess(failing, reports, huge, mail, first, waiting, broken)


def needs_attention(page: Page, text: str) -> Locator:
    """Open the overview, and find the line that says something."""
    page.goto("/")
    row: Locator = attention(page).get_by_role("listitem").filter(has_text=text)
    expect(row).to_have_count(1)
    return row


def ids_of(page: Page) -> Any:
    return page.get_by_role("table").get_by_role("link", name=re.compile("^[0-9]+$"))


def test_an_alert_leads_to_its_cause_and_its_remedy(page: Page, stage: Stage, mess: Mess) -> None:
    row = needs_attention(page, LATER)
    expect(row).to_contain_text("6 jobs of import-")
    # 1. Click the error: exactly these jobs, with the error below the filters.
    row.get_by_role("link").first.click()
    expect(ids_of(page)).to_have_count(6)
    assert sorted(ids_of(page).all_inner_texts()) == sorted(mess.failing)
    expect(page.get_by_role("button", name="unsuccessful")).to_have_attribute(
        "aria-pressed", "true"
    )
    expect(page.get_by_text(f"With one error: {LATER}")).to_be_visible()
    # 2. Click an id: why it ended names the task; the error unfolds.
    page.get_by_role("link", name=mess.failing[0], exact=True).click()
    why = page.get_by_role("list", name="Why it ended")
    expect(why).to_contain_text(LATER)
    page.locator("summary").filter(has_text=LATER).click()
    expect(page.get_by_label("error of the job", exact=True)).to_contain_text("at line 7")
    # 3. Click the task: on which worker, what it wrote, what it was given.
    why.get_by_role("link", name=f"task {mess.failing[0]}.0").click()
    expect(page.get_by_role("link", name="w-fine").first).to_be_visible()
    page.get_by_role("tab", name="Logs").click()
    expect(page.get_by_text(f"ERROR {LATER}0")).to_be_visible()
    page.get_by_role("tab", name="Input and result").click()
    # 4. Once the cause is gone: back to the list, all of them, replay.
    needs_attention(page, LATER).get_by_role("link").first.click()
    page.get_by_role("checkbox", name="Select all").check()
    page.get_by_role("button", name="Replay dead letters of 6 jobs").click()
    page.get_by_role("dialog").get_by_role("button", name="Replay dead letters").click()
    said = page.get_by_role("status").filter(has_text="Submitted 6 jobs").get_by_role("link")
    expect(said).to_have_count(6)
    made = said.all_inner_texts()
    # 5. While the replay runs the line stays; when all have succeeded, it goes.
    hands = HandWorker(stage, "w-fine")
    needs_attention(page, LATER)
    for job_id in made:
        hands.end(hands.claim(f"{job_id}.0"))
    expect(attention(page)).not_to_contain_text(LATER)


def search(page: Page, text: str, job_id: str) -> Locator:
    """Find a job by a key and its id or name; gives the sentence that says what it waits for."""
    page.goto("/workers")
    expect(page.get_by_role("heading", level=1)).to_be_visible()
    page.keyboard.press("/")
    page.get_by_role("searchbox", name="Search").fill(text)
    page.keyboard.press("Enter")
    if text != job_id:
        page.get_by_role("link", name=job_id, exact=True).click()
    expect(page).to_have_url(re.compile(rf"/jobs/{job_id}$"))
    return page.get_by_role("paragraph").filter(has_text=re.compile("tasks? waits?:"))


def test_a_job_that_does_not_start_says_what_is_in_its_way(
    page: Page, stage: Stage, mess: Mess
) -> None:
    # It depends on jobs that have not ended: these jobs are drawn, the first leads on.
    sentence = search(page, mess.waiting, mess.waiting)
    expect(sentence).to_contain_text(f"waits for job {mess.first}")
    sentence.get_by_role("link", name="these jobs").click()
    page.get_by_role("tabpanel").get_by_role("link", name=re.compile("extract")).first.click()
    expect(page).to_have_url(re.compile(rf"/jobs/{mess.first}"))
    # Nobody serves its queue: start a worker.
    sentence = search(page, "monthly", mess.reports)
    expect(sentence).to_contain_text("3,000 tasks wait")
    expect(sentence).to_contain_text("no worker serves queue reports")
    sentence.get_by_role("link", name="the queue").click()
    expect(page.get_by_text("No worker serves reports")).to_be_visible()
    expect(page.get_by_label("How to start a worker for it", exact=True)).to_contain_text(
        "holdfast worker --queue reports"
    )
    worker = {"worker_id": "w-reports", "name": "w-reports", "host": "h", "queues": ["reports"]}
    stage.call("POST", "/internal/worker-register", worker)
    expect(page.get_by_text("No worker serves reports")).to_have_count(0)
    expect(search(page, "monthly", mess.reports)).to_contain_text("waiting in queue reports")
    # Somebody paused it: resume.
    sentence = search(page, "newsletter", mess.mail)
    expect(sentence).to_contain_text("queue mail/outgoing is paused by")
    sentence.get_by_role("link", name="the queue").click()
    page.get_by_role("button", name="Resume mail/outgoing").click()
    page.get_by_role("dialog").get_by_role("button", name="Resume", exact=True).click()
    expect(page.get_by_role("button", name="Pause mail/outgoing")).to_be_visible()
    page.keyboard.press("Escape")
    # It asks for more than there is: explain, cancel with a reason.
    sentence = search(page, "pretrain", mess.huge)
    expect(sentence).to_contain_text("3 tasks wait: 1 worker: 1 lacks gpu")
    expect(sentence).to_contain_text("could never fit")
    page.get_by_role("table").get_by_role("link", name=f"{mess.huge}.0").first.click()
    page.get_by_role("tab", name="Explain").click()
    expect(page.get_by_role("tabpanel")).to_contain_text("lacks gpu")
    page.goto(f"/jobs/{mess.huge}")
    page.get_by_role("button", name="Cancel", exact=True).click()
    question = page.get_by_role("dialog")
    question.get_by_label("Reason").fill("nobody has 64 GPUs")
    question.get_by_role("button", name="Cancel the job").click()
    expect(page.get_by_role("list", name="Why it ended")).to_contain_text("nobody has 64 GPUs")


def test_the_bad_machine_is_found_and_drained(page: Page, stage: Stage, mess: Mess) -> None:
    # 1. It fails what the others do not: click it.
    row = needs_attention(page, f"{RACK}: 6 of 6 attempts failed there")
    row.get_by_role("link", name=RACK).click()
    # 2. Its row is unfolded; sorted by failures it comes first; the field above keeps to its rack.
    workers = page.get_by_role("table", name="Workers")
    line = workers.get_by_role("row").filter(has_text=RACK).first
    expect(line).to_contain_text("6 of 6")
    workers.get_by_role("button", name="Failed in 1 h").click()
    page.get_by_role("searchbox", name="Name, id, host, queue or attribute").fill("rack-18")
    expect(workers.get_by_role("row").filter(has_text="w-fine")).to_have_count(0)
    # 3. Its last attempts: one error, and a link to the log of each.
    ended = page.get_by_role("table", name="Attempts that ended here").get_by_role("row")
    page.get_by_role("checkbox", name="Only unsuccessful").check()
    expect(ended).to_have_count(6)
    expect(ended.first).to_contain_text("Read-only file system")
    # 4. Drain: its line goes.
    workers.get_by_role("button", name=f"Drain {RACK}").click()
    page.get_by_role("dialog").get_by_role("button", name="Drain").click()
    expect(workers).to_contain_text("draining")
    page.get_by_role("link", name="Jobs that it has run").click()
    # 5. What it has run and did not succeed, again.
    page.get_by_role("group", name="State").get_by_role("button", name="unsuccessful").click()
    expect(ids_of(page)).to_have_count(6)
    page.get_by_role("checkbox", name="Select all").check()
    page.get_by_role("button", name="Replay dead letters of 6 jobs").click()
    page.get_by_role("dialog").get_by_role("button", name="Replay dead letters").click()
    made = page.get_by_role("status").filter(has_text="Submitted 6 jobs").get_by_role("link")
    expect(made).to_have_count(6)
    ids = made.all_inner_texts()
    page.goto("/")
    expect(attention(page)).not_to_contain_text(f"Worker {RACK}")
    hands = HandWorker(stage, "w-fine")
    for job_id in ids:
        hands.end(hands.claim(f"{job_id}.0"))
    expect(attention(page)).not_to_contain_text("Read-only file system")
    states = stage.rows("select state from holdfast.jobs where job_id = any(%s)", [*map(int, ids)])
    assert eventually(lambda: states) == [(4,)] * 6

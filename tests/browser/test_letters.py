"""Dead letters: what is shown of them is what is done, and who waited for them goes on."""

from playwright.sync_api import Page, expect

from tests.browser.stage import HandWorker, Stage, eventually

# Behind everybody's back: copies of a dead letter, so many that the newest alone are gathered.
COPIES = """
    insert into holdfast.dead_letters
    select (jsonb_populate_record(letter, jsonb_build_object('task_index', n))).*
      from holdfast.dead_letters as letter, generate_series(1000, 3999) as n
     where letter.job_id = %s and letter.task_index = 0
"""


def fail(hands: HandWorker, task_id: str, error: str) -> None:
    hands.end(hands.claim(task_id), "failed", error=error, error_class="PermanentError")


def test_the_groups_of_one_job_hold_all_of_its_dead_letters(page: Page, stage: Stage) -> None:
    hands = HandWorker(stage, "w-groups")
    old = stage.submit(name="old", replicas=5, max_task_failures=5)
    for index in range(5):
        fail(hands, f"{old}.{index}", f"no bucket {index}" if index < 3 else "no key")
    crowd = stage.submit(name="crowd", max_task_failures=5)
    fail(hands, f"{crowd}.0", "row 0 is bad")
    stage.run_sql(COPIES, int(crowd))

    page.goto(f"/dead-letters?job={old}")
    groups = page.get_by_role("region", name="Errors that are alike")
    expect(groups.get_by_role("listitem")).to_have_count(2)
    bucket = groups.get_by_role("button").filter(has_text="no bucket")
    expect(bucket).to_contain_text("3")
    expect(bucket).not_to_contain_text("≥")
    bucket.click()
    groups.get_by_role("button", name="Dry-run replay").click()
    dialog = page.get_by_role("dialog")
    expect(dialog).to_contain_text(f"all dead letters of job {old} like: no bucket")
    # Replicas run again as a whole; these three are what it is about.
    expect(dialog).to_contain_text("3 tasks")
    dialog.get_by_role("button", name="Close").click()

    # A group too large to be gathered says so, and a replay takes all of it.
    page.goto("/dead-letters")
    row = groups.get_by_role("button").filter(has_text="row 0 is bad")
    expect(row).to_contain_text("≥ 2,000")
    row.click()
    expect(groups).to_contain_text("and others that are not gathered here")
    groups.get_by_role("button", name="Dry-run replay").click()
    expect(dialog).to_contain_text("would submit 3,001 tasks as 1 new job")
    stage.run_sql("delete from holdfast.dead_letters where job_id = %s", int(crowd))


def test_a_replay_within_a_graph_releases_what_waited(page: Page, stage: Stage) -> None:
    hands = HandWorker(stage, "w-graph")
    extract = stage.submit(name="extract", max_attempts=1)
    load = stage.submit(name="load", depends_on=[{"job": extract}])
    report = stage.submit(name="report", depends_on=[{"job": load}])
    fail(hands, f"{extract}.0", "no such table")
    ended = "select 1 from holdfast.jobs where job_id = %s and finished_at is not null"
    eventually(lambda: stage.rows(ended, int(report)))
    page.goto(f"/dead-letters?job={extract}")
    chosen = page.get_by_role("group", name="What to do")
    chosen.get_by_role("button", name="Replay …").click()
    dialog = page.get_by_role("dialog")
    resume = dialog.get_by_role("checkbox", name="Resume what waited: 2 jobs were killed")
    expect(resume).to_be_checked()
    dialog.get_by_role("button", name="Replay 1 task").click()
    expect(dialog).to_contain_text("What waited goes on as")
    made = stage.rows(
        "select job_id::text, replay_of::text from holdfast.jobs order by jobs.job_id desc limit 3"
    )
    assert [of for _, of in reversed(made)] == [extract, load, report]
    dialog.get_by_role("button", name="Close").click()
    said = page.get_by_role("status", name="The last replay")
    again, loaded, reported = [job_id for job_id, _ in reversed(made)]
    for job_id in (again, loaded, reported):
        expect(said.get_by_role("link", name=f"job {job_id}")).to_be_visible()
    hands.end(hands.claim(f"{again}.0"))
    ready = "select 1 from holdfast.ready where job_id = %s"
    eventually(lambda: stage.rows(ready, int(loaded)))
    hands.end(hands.claim(f"{loaded}.0"))
    said.get_by_role("link", name=f"job {loaded}").click()
    expect(page.get_by_text("Status: succeeded")).to_be_visible()


def test_a_replay_of_some_says_that_what_waited_needs_the_others(page: Page, stage: Stage) -> None:
    hands = HandWorker(stage, "w-some")
    body = {
        "entrypoint": {"function": "tests.browser.tasks:work"},
        "queue": "by-hand",
        "name": "some",
        "inputs": [1, 2, 3],
        "max_task_failures": 1,
        "max_attempts": 1,
    }
    extract = str(stage.call("POST", "/api/jobs", body)["job_id"])
    load = stage.submit(name="load", depends_on=[{"job": extract}])
    hands.end(hands.claim(f"{extract}.2"))
    for index in range(2):
        fail(hands, f"{extract}.{index}", "no such table")
    ended = "select 1 from holdfast.jobs where job_id = %s and finished_at is not null"
    eventually(lambda: stage.rows(ended, int(load)))
    page.goto(f"/dead-letters?job={extract}")
    page.get_by_role("checkbox", name=f"Select {extract}.0").check()
    chosen = page.get_by_role("group", name="What to do")
    chosen.get_by_role("button", name="Replay …").click()
    dialog = page.get_by_role("dialog")
    dialog.get_by_role("button", name="Replay 1 task").click()
    expect(dialog).to_contain_text(f"it is still running tasks of job {extract}: wait for it")
    expect(dialog.get_by_role("link", name=f"job {extract}", exact=True)).to_be_visible()
    assert len(stage.rows("select 1 from holdfast.jobs where replay_of = %s", int(load))) == 0

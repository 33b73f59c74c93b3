"""A token of some owners or queues reaches their jobs, and nothing else, by whatever way."""

from typing import Any

import pytest

from tests.api.face import Said, fence
from tests.api.guarded import Guarded

WORK = {"entrypoint": {"function": "a:b"}}


@pytest.fixture
async def job(guarded: Guarded) -> str:
    """A job of Bob's, in his queue; Ann and her worker are there, too."""
    await guarded.make("ann", "submit", owners=("ann",), queues=("anns", "shared"))
    await guarded.make("ann-works", "worker", queues=("anns",))
    await guarded.make("watch-q", "data", queues=("anns",))
    await guarded.make("watch", "read")
    await guarded.make("root", "admin")
    return str((await submit(guarded, "root", owner="bob", queue="bobs")).json["job_id"])


async def submit(guarded: Guarded, token: str, **fields: Any) -> Said:
    return await guarded.say(token, "POST", "/api/jobs", {**WORK, **fields})


def refused(said: Said, lacks: str) -> bool:
    return (said.status, said.error["details"]["lacks"]) == (403, lacks)


def unseen(said: Said, job: str) -> bool:
    """Tell whether a job was refused as one that does not exist, not a word of its owner."""
    message = f"there is no job {job}"
    return (said.status, said.error["message"], said.error["code"]) == (404, message, "not_found")


async def test_jobs_are_submitted_as_an_owner_and_into_a_queue_of_the_token(
    guarded: Guarded, job: str
) -> None:
    mine = await submit(guarded, "ann", queue="anns")
    assert (mine.status, mine.json["owner"]) == (201, "ann")
    assert refused(await submit(guarded, "ann", queue="anns", owner="bob"), "owner bob")
    assert refused(await submit(guarded, "ann", queue="bobs"), "queue bobs")
    assert refused(await submit(guarded, "ann"), "queue (none given)")
    placed = await submit(guarded, "ann", placed=True)
    assert refused(placed, "a token without owners and queues")
    body = {"specs": [{**WORK, "queue": "anns"}, {**WORK, "queue": "bobs"}]}
    assert refused(await guarded.say("ann", "POST", "/api/jobs:batch", body), "queue bobs")
    waits = await submit(guarded, "ann", queue="anns", depends_on=[job])
    assert unseen(waits, job)
    listed = (await guarded.say("root", "GET", "/api/jobs")).json["jobs"]
    assert [each["owner"] for each in listed] == ["ann", "bob"]


async def test_a_unique_job_meets_none_of_another_owner(guarded: Guarded, job: str) -> None:
    rule = {"values": ["k"], "on_conflict": "replace"}
    fields = {"queue": "shared", "unique": rule}
    theirs = await submit(guarded, "root", owner="bob", **fields)
    mine = await submit(guarded, "ann", **fields)
    assert (mine.status, mine.json["owner"]) == (201, "ann")
    again = await submit(guarded, "ann", **fields | {"unique": {"values": ["k"]}})
    assert (again.status, again.json["job_id"]) == (200, mine.json["job_id"])
    status = await guarded.say("root", "GET", f"/api/jobs/{theirs.json['job_id']}")
    assert status.json["cancel_mode"] is None


async def test_who_names_no_owner_is_known_by_his_token(guarded: Guarded, job: str) -> None:
    assert (await submit(guarded, "root", queue="q")).json["owner"] == "root"
    said = await guarded.face.post(
        f"/api/jobs/{job}:cancel",
        {},
        authorization=f"Bearer {guarded.tokens['root']}",
        holdfast_actor="somebody else",
    )
    assert said.status == 200
    status = (await guarded.say("root", "GET", f"/api/jobs/{job}")).json
    assert status["cancelled_by"] == "root"


async def test_lists_are_narrowed_or_refused(guarded: Guarded, job: str) -> None:
    mine = (await submit(guarded, "ann", queue="anns")).json["job_id"]
    found = (await guarded.say("ann", "GET", "/api/jobs?queue=anns")).json["jobs"]
    assert [each["job_id"] for each in found] == [mine]
    assert refused(await guarded.say("ann", "GET", "/api/jobs"), "queue (none given)")
    assert refused(await guarded.say("ann", "GET", "/api/jobs?queue=bobs"), "queue bobs")
    found = (await guarded.say("watch-q", "GET", "/api/jobs")).json["jobs"]
    assert [each["job_id"] for each in found] == [mine]
    for path in ("/api/dead-letters", "/api/dead-letters:summary"):
        assert (await guarded.say("watch-q", "GET", path)).status == 200
        assert refused(await guarded.say("watch-q", "GET", f"{path}?queue=bobs"), "queue bobs")
        assert (await guarded.say("ann", "GET", f"{path}?queue=anns")).status == 403
    assert (await guarded.say("ann", "GET", "/api/events/stream")).status == 403
    assert unseen(await guarded.say("ann", "GET", f"/api/events/stream?job_id={job}"), job)


async def test_nothing_of_others_is_run_again(guarded: Guarded, job: str) -> None:
    for body in ({"task_ids": [f"{job}.0"]}, {"task_ids": [f"{job}.0"], "dry_run": True}):
        said = await guarded.say("ann", "POST", "/api/dead-letters:replay", body)
        assert unseen(said, job)
    for verb in ("resume", "rerun", "cancel"):
        said = await guarded.say("ann", "POST", f"/api/jobs/{job}:{verb}", {})
        assert unseen(said, job), verb
    assert (await guarded.say("ann", "GET", "/api/jobs/999999/tasks")).status == 404


async def test_a_resume_is_answered_again_under_its_key(guarded: Guarded, job: str) -> None:
    dataset = "/api/datasets/events"
    assert (await guarded.say("root", "POST", "/api/datasets", {"name": "events"})).status < 300
    for number in (1, 2):
        assert (await guarded.say("root", "POST", f"{dataset}/versions", {})).status < 300, number
    outputs = [{"dataset": "events", "version": 2}]
    fields = {"owner": "ann", "queue": "anns", "max_attempts": 1, "outputs": outputs}
    mine = (await submit(guarded, "root", **fields)).json["job_id"]
    worker = await guarded.join("ann-works", "w", queues=["anns"])
    asked = {"worker_id": "w", "queues": ["anns"]}
    said = await guarded.say("ann-works", "POST", "/internal/task-claim", asked, worker=worker)
    [claim] = said.json["claims"]
    done = {"worker_id": "w", **fence(claim), "status": "failed", "error": "boom"}
    said = await guarded.say("ann-works", "POST", "/internal/task-complete", done, worker=worker)
    assert said.status == 200, said
    # Its version is closed, so that it runs again for another one or not at all.
    said = await guarded.say("root", "POST", f"{dataset}/versions/2:drop", {})
    assert said.status < 300, said
    path, body = f"/api/jobs/{mine}:resume", {"idempotency_key": "k", "rebind_outputs": True}
    first = await guarded.say("ann", "POST", path, body)
    assert first.status == 200, first
    again = await guarded.say("ann", "POST", path, body)
    assert (again.status, again.json) == (200, first.json), again
    dry = await guarded.say("ann", "POST", path, body | {"dry_run": True})
    assert (dry.status, dry.error["code"]) == (409, "illegal_move")


async def test_letters_of_others_are_found_by_no_filter(guarded: Guarded, job: str) -> None:
    dead = await guarded.say("root", "POST", f"/api/tasks/{job}.0:dead-letter", {"reason": "x"})
    assert dead.status == 200
    await guarded.make("all-anns", "submit", owners=("*",), queues=("anns",))

    async def replay(token: str, **wanted: str) -> Said:
        return await guarded.say(token, "POST", "/api/dead-letters:replay", {"filter": wanted})

    for wanted in ({}, {"queue": "anns"}, {"queue": "bobs"}):
        said = await replay("ann", **wanted)
        assert refused(said, "a job_id")
        assert job not in said.error["message"]
    for wanted in ({"job_id": job}, {"job_id": job, "type": "none such"}):
        assert unseen(await replay("ann", **wanted), job)
    nothing = await replay("all-anns")
    assert (nothing.status, nothing.json["replays"]) == (200, [])
    assert refused(await replay("all-anns", queue="bobs"), "queue bobs")
    mine = (await submit(guarded, "ann", queue="anns")).json["job_id"]
    await guarded.say("ann", "POST", f"/api/tasks/{mine}.0:dead-letter", {"reason": "x"})
    done = await replay("ann", job_id=mine)
    assert [each["task_ids"] for each in done.json["replays"]] == [[f"{mine}.0"]]


async def test_a_worker_claims_from_the_queues_of_its_token_only(
    guarded: Guarded, job: str
) -> None:
    claim = {"worker_id": "w", "queues": ["anns"]}
    mine = await guarded.join("ann-works", "w", queues=["anns"])
    said = await guarded.say("ann-works", "POST", "/internal/task-claim", claim, worker=mine)
    assert said.status == 200
    claim["queues"] = ["anns", "bobs"]
    said = await guarded.say("ann-works", "POST", "/internal/task-claim", claim)
    assert refused(said, "queue bobs")
    by_id = {"worker_id": "w", "task_id": f"{job}.0"}
    said = await guarded.say("ann-works", "POST", "/internal/task-claim", by_id)
    assert unseen(said, job)
    known = {"worker_id": "v", "name": "w", "host": "h", "queues": ["bobs"]}
    said = await guarded.say("ann-works", "POST", "/internal/worker-register", known)
    assert refused(said, "queue bobs")
    known |= {"queues": [], "address": "127.0.0.1:9", "secret": "s" * 32}
    said = await guarded.say("ann-works", "POST", "/internal/worker-register", known)
    assert refused(said, "a token without owners and queues")
    found = (await guarded.say("root", "GET", "/api/workers")).json["workers"]
    assert [each["worker_id"] for each in found] == ["w"]


async def test_who_only_reads_sees_a_job_without_its_spec_and_its_result(
    guarded: Guarded, job: str
) -> None:
    shown = (await guarded.say("watch", "GET", f"/api/jobs/{job}?totals=true")).json
    assert (shown["state"], shown["spec"], shown["serialized_result"]) == (
        "JOB_STATE_PENDING",
        None,
        None,
    )
    assert (await guarded.say("root", "GET", f"/api/jobs/{job}")).json["spec"]


async def test_who_submits_reaches_the_jobs_of_his_own_name_unless_he_is_for_all(
    guarded: Guarded, job: str
) -> None:
    await guarded.make("ci", "submit")
    await guarded.make("all", "submit", owners=("*",))
    mine = (await submit(guarded, "ci", queue="q")).json
    assert mine["owner"] == "ci"
    assert refused(await submit(guarded, "ci", queue="q", owner="bob"), "owner bob")
    assert unseen(await guarded.say("ci", "POST", f"/api/jobs/{job}:cancel", {}), job)
    assert unseen(await guarded.say("ci", "GET", f"/api/jobs/{job}"), job)
    assert (await guarded.say("ci", "GET", f"/api/jobs/{mine['job_id']}")).status == 200
    assert (await guarded.say("all", "GET", f"/api/jobs/{job}")).status == 200
    assert (await submit(guarded, "all", queue="q", owner="bob")).json["owner"] == "bob"


async def test_who_is_kept_to_some_writes_no_datasets_which_have_no_owner(
    guarded: Guarded, job: str
) -> None:
    said = await submit(guarded, "ann", queue="anns", outputs=[{"dataset": "orders"}])
    assert refused(said, "a token without owners and queues")
    assert "outputs" in said.error["message"]


async def test_the_event_of_a_submission_has_the_name_of_the_token(
    guarded: Guarded, job: str
) -> None:
    body = {**WORK, "queue": "q", "owner": "bob"}
    one = (await guarded.say("root", "POST", "/api/jobs", body)).json["job_id"]
    batch = await guarded.say("root", "POST", "/api/jobs:batch", {"specs": [body]})
    large = (await guarded.say("root", "POST", "/api/jobs", {**body, "replicas": 10_001})).json
    await guarded.say("root", "POST", f"/api/jobs/{one}:cancel", {"mode": "hard"})
    await guarded.make("ops", "admin")
    again = await guarded.say("ops", "POST", f"/api/jobs/{one}:rerun", {})
    for token, found in (
        ("root", one),
        ("root", batch.json["jobs"][0]["job_id"]),
        ("root", large["job_id"]),
        ("ops", again.json["job_id"]),
    ):
        events = (await guarded.say("root", "GET", f"/api/jobs/{found}/events")).json["events"]
        assert (events[0]["type"], events[0]["actor"]) == ("submitted", token)


async def test_an_action_keeps_the_id_of_the_token_whose_name_may_be_given_again(
    guarded: Guarded, job: str
) -> None:
    await guarded.make("ops", "admin")
    listed = (await guarded.say("root", "GET", "/api/tokens")).json["tokens"]
    ids = {each["name"]: each["token_id"] for each in listed}
    await guarded.say("ops", "POST", f"/api/jobs/{job}:cancel", {})
    await guarded.say("root", "POST", f"/api/tokens/{ids['ops']}:revoke", {})
    [revoked, *_, cancelled] = [
        each
        for each in (await guarded.say("root", "GET", "/api/actions")).json["actions"]
        if each["action"] in ("cancel", "revoke_token")
    ]
    assert (cancelled["actor"], cancelled["token_id"]) == ("ops", ids["ops"])
    assert (revoked["actor"], revoked["token_id"]) == ("root", ids["root"])
    assert (revoked["subject"], revoked["facts"]) == ("ops", {"token_id": ids["ops"]})

"""Dead letters: their list, their sum, and what is decided about them."""

import asyncio
from typing import Any

import pytest

from holdfast.model.work.ids import TaskId, parse_task_id
from holdfast.operations.claiming.claim import Claim
from holdfast.operations.dead_letters import dead_letter_task, discard
from holdfast.operations.follow_up import follow_up_all
from tests.api.face import Face
from tests.datasets import Library
from tests.world import World

REPLAY = "/api/dead-letters:replay"
DISCARD = "/api/dead-letters:discard"


@pytest.fixture
async def letters(quiet_face: Face) -> list[str]:
    """Three dead letters: two of a report, one of a mail, in that order."""
    await quiet_face.submit(inputs=["a", "b", "c"], type="report")
    await quiet_face.submit(type="mail", queue="q")
    found = []
    for claim in await quiet_face.claim(4):
        if claim["input"] == "c":
            await quiet_face.complete(claim)
        else:
            await quiet_face.complete(claim, "failed", error="boom")
            found.append(claim["task_id"])
    return sorted(found)


async def test_letters_are_replayed_by_id_as_one_job_per_job(
    quiet_face: Face, world: World, letters: list[str]
) -> None:
    said = await quiet_face.post(REPLAY, {"task_ids": letters}, holdfast_actor="ann")
    assert (said.status, said.json["dry_run"]) == (200, False)
    report, mail = said.json["replays"]
    assert (report["replay_of"], report["task_ids"]) == (letters[0].split(".")[0], letters[:2])
    assert (mail["replay_of"], mail["task_ids"]) == (letters[2].split(".")[0], letters[2:])
    claims = await quiet_face.claim(10)
    assert {claim["job"]["job_id"] for claim in claims} == {report["job_id"], mail["job_id"]}
    assert [claim["input"] for claim in claims] == ["a", "b", None]
    job = await world.job(int(report["job_id"]))
    assert job["replay_of"] == int(report["replay_of"])
    again = await quiet_face.post(REPLAY, {"task_ids": letters[:1]})
    assert (again.status, again.error["code"]) == (409, "illegal_move")


async def test_letters_are_replayed_by_a_filter(
    quiet_face: Face, world: World, letters: list[str]
) -> None:
    wanted = {"type": "report", "reason_code": "exhausted_retries", "queue": "q", "stage": "exec"}
    dry = await quiet_face.post(REPLAY, {"filter": wanted, "dry_run": True})
    replayed = {"replay_of": letters[0].split(".")[0], "task_ids": letters[:2], "job_id": None}
    plain = {"is_canary": False, "input_edited": False, "start_delay": None, "start_rate": None}
    nobody = {"killed_in_vain": 0, "waited_for": [], "resumed": [], "not_resumed": {}}
    assert dry.json == {"replays": [replayed | plain], "dry_run": True, **nobody}
    assert await quiet_face.claim(10) == []
    done = await quiet_face.post(REPLAY, {"filter": wanted})
    assert done.json["replays"][0]["task_ids"] == letters[:2]
    none = await quiet_face.post(REPLAY, {"filter": wanted})
    assert (none.status, none.json) == (200, {"replays": [], "dry_run": False, **nobody})
    job_id = letters[2].split(".")[0]
    last = await quiet_face.post(REPLAY, {"filter": {"job_id": job_id}})
    assert last.json["replays"][0]["task_ids"] == letters[2:]
    rest = await quiet_face.post(REPLAY, {"filter": {}})
    assert rest.json["replays"] == []


async def test_who_replays_by_a_filter_what_others_replay_as_well_is_not_refused(
    quiet_face: Face, world: World, letters: list[str]
) -> None:
    asked: list[Any] = [{"filter": {}, "dry_run": is_dry} for is_dry in (False, True) * 8]
    said = await asyncio.gather(*(quiet_face.post(REPLAY, each) for each in asked))
    assert {each.status for each in said} == {200}
    made = [made for each in said for made in each.json["replays"] if made["job_id"] is not None]
    assert sorted(task_id for each in made for task_id in each["task_ids"]) == sorted(letters)


async def test_a_dry_run_by_id_changes_nothing(
    quiet_face: Face, world: World, letters: list[str]
) -> None:
    before = await world.dump()
    said = await quiet_face.post(REPLAY, {"task_ids": letters[:1], "dry_run": True})
    assert (said.status, said.json["dry_run"]) == (200, True)
    assert said.json["replays"][0]["job_id"] is None
    assert await world.dump() == before


async def test_a_canary_and_another_input_are_part_of_what_is_asked(
    quiet_face: Face, world: World, letters: list[str]
) -> None:
    body: dict[str, Any] = {"task_ids": letters, "canary": 1, "idempotency_key": "k"}
    dry = await quiet_face.post(REPLAY, body | {"dry_run": True})
    made = await quiet_face.post(REPLAY, body)
    assert [each["is_canary"] for each in made.json["replays"]] == [True, False, False]
    assert [each | {"job_id": None} for each in made.json["replays"]] == dry.json["replays"]
    assert (await quiet_face.post(REPLAY, body)).json == made.json
    for more in ({"canary": 2}, {"rate": 1.0}):
        other = await quiet_face.post(REPLAY, body | more)
        assert (other.status, other.error["code"]) == (409, "key_reused")
    await quiet_face.complete((await quiet_face.claim())[0], "failed")
    await follow_up_all(world.ledger)
    given = {"task_ids": letters[1:2], "input": None, "idempotency_key": "i"}
    edited = await quiet_face.post(REPLAY, given)
    assert edited.json["replays"][0]["input_edited"]
    other = await quiet_face.post(REPLAY, given | {"input": 1})
    assert (other.status, other.error["code"]) == (409, "key_reused")
    letter = (await quiet_face.get(f"/api/dead-letters/{letters[1]}")).json
    assert letter["input_edited"]


async def test_discarded_letters_stay_where_they_are(
    quiet_face: Face, world: World, letters: list[str]
) -> None:
    said = await quiet_face.post(DISCARD, {"task_ids": letters[:1]}, holdfast_actor="ann")
    assert said.json == {"changed": True}
    rows = await world.clock.fetch(
        "select discarded_by from holdfast.dead_letters order by job_id, task_index"
    )
    assert [row[0] for row in rows] == ["ann", None, None]
    for path in (DISCARD, REPLAY):
        again = await quiet_face.post(path, {"task_ids": letters[:1]})
        assert (again.status, again.error["code"]) == (409, "illegal_move")
        assert again.error["details"]["state"] == "discarded"


BAD_REQUESTS: list[tuple[str, int, str | None, Any]] = [
    (REPLAY, 400, "task_ids", {}),
    (REPLAY, 400, "task_ids", {"task_ids": ["1.0"], "filter": {}}),
    (REPLAY, 400, "task_ids", {"task_ids": []}),
    (REPLAY, 400, "task_ids", {"task_ids": ["7"]}),
    (REPLAY, 400, "task_ids", {"task_ids": ["1.0", "1.0"]}),
    (REPLAY, 404, None, {"task_ids": ["999999.0"]}),
    (REPLAY, 400, "reason_code", {"filter": {"reason_code": "bad luck"}}),
    (REPLAY, 400, "stage", {"filter": {"stage": "nowhere"}}),
    (REPLAY, 400, "job_id", {"filter": {"job_id": "x"}}),
    (REPLAY, 400, "filter.owner", {"filter": {"owner": "x"}}),
    (DISCARD, 400, "task_ids", {}),
    (REPLAY, 400, "input", {"task_ids": ["1.0", "1.1"], "input": 1}),
    (REPLAY, 400, "canary", {"task_ids": ["1.0"], "canary": "few"}),
    (REPLAY, 400, "rate", {"task_ids": ["1.0"], "rate": "10/s"}),
    (DISCARD, 400, "task_ids", {"task_ids": []}),
    (DISCARD, 400, "filter", {"filter": {}, "task_ids": ["1.0"]}),
    (DISCARD, 404, None, {"task_ids": ["999999.0"]}),
]


async def test_a_bad_request_names_its_field(quiet_face: Face) -> None:
    for path, status, field, body in BAD_REQUESTS:
        said = await quiet_face.post(path, body)
        assert (said.status, said.error.get("field")) == (status, field), body


async def test_an_operator_buries_tasks_wherever_they_stand(quiet_face: Face, world: World) -> None:
    job_id = await quiet_face.submit(inputs=[1, 2, 3])
    [running] = await quiet_face.claim(task_id=f"{job_id}.1")
    [done] = await quiet_face.claim(task_id=f"{job_id}.2")
    await quiet_face.complete(done)
    for index in (0, 1):
        path = f"/api/tasks/{job_id}.{index}:dead-letter"
        said = await quiet_face.post(path, {"reason": "forbidden"}, holdfast_actor="ann")
        assert said.json == {"changed": True}
    assert await world.story(int(job_id), 0) == ["dead_lettered"]
    assert await world.story(int(job_id), 1) == ["claimed", "killed", "dead_lettered"]
    assert (await quiet_face.beat(running)).json["cancel"][0]["mode"] == "hard"
    rows = await world.clock.fetch("select reason_code from holdfast.dead_letters")
    assert [row[0] for row in rows] == ["policy_violation"] * 2
    for status, task in ((409, f"{job_id}.2"), (409, f"{job_id}.0"), (404, "999999.0")):
        said = await quiet_face.post(f"/api/tasks/{task}:dead-letter")
        assert said.status == status
        assert said.error


@pytest.mark.parametrize("which", [{"filter": {"type": "report"}}, {"task_ids": []}])
async def test_a_replay_under_a_key_is_answered_as_the_first_time(
    quiet_face: Face, world: World, letters: list[str], which: dict[str, Any]
) -> None:
    if "task_ids" in which:
        which = {"task_ids": letters[:2]}
    body = {**which, "idempotency_key": "k"}
    first = await quiet_face.post(REPLAY, body)
    again = await quiet_face.post(REPLAY, body)
    assert (first.status, again.status) == (200, 200)
    assert again.json == first.json
    assert len(first.json["replays"]) == 1
    assert await world.count("jobs") == 3
    other = await quiet_face.post(REPLAY, {"task_ids": letters[2:], "idempotency_key": "k"})
    assert (other.status, other.error["code"]) == (409, "key_reused")
    assert other.error["details"]["request"] == "replay"
    dry = await quiet_face.post(
        REPLAY, {**body, "filter": {"type": "report"}, "task_ids": None, "dry_run": True}
    )
    assert (dry.json["replays"], dry.json["dry_run"]) == ([], True)


async def test_a_replay_writes_another_version_than_the_one_named_if_it_may(
    quiet_face: Face, world: World
) -> None:
    library = Library(world)
    await library.create(versions=2)
    await quiet_face.submit(outputs=[{"dataset": "events", "version": 1}])
    [claim] = await quiet_face.claim()
    await quiet_face.complete(claim, "failed", error="boom", error_class="PermanentError")
    await library.cut_over(1)
    body = {"task_ids": [claim["task_id"]]}
    refused = await quiet_face.post(REPLAY, {**body, "dry_run": True})
    assert (refused.status, refused.error["field"]) == (400, "rebind_outputs")
    # The same goes for a resume of its job.
    resume = f"/api/jobs/{claim['job']['job_id']}:resume"
    for is_rebound, status in ((False, 400), (True, 200)):
        asked = {"dry_run": True, "rebind_outputs": is_rebound}
        assert (await quiet_face.post(resume, asked)).status == status
    done = await quiet_face.post(REPLAY, {**body, "rebind_outputs": True})
    [job] = done.json["replays"]
    spec = (await quiet_face.get(f"/api/jobs/{job['job_id']}")).json["spec"]
    assert spec["outputs"] == [{"dataset": "events", "version": 2}]


SUMMARY = "/api/dead-letters:summary"


async def test_no_dead_letter_makes_an_empty_sum(quiet_face: Face) -> None:
    said = await quiet_face.get(SUMMARY)
    assert said.json == {"total": 0, "is_truncated": False, "cells": [], "groups": []}


async def fail(world: World, claim: Claim, error: str, error_class: str) -> None:
    await world.complete(claim, "failed", error=error, error_class=error_class)
    await world.clock.advance(1)


async def test_letters_are_counted_by_reason_and_gathered_by_error(
    quiet_face: Face, world: World
) -> None:
    crawl = await world.submit([0, 1, 2, 3], type="crawl", max_attempts=1)
    mail = await world.submit(type="mail", max_attempts=1)
    buried = await world.submit(type="mail")
    first, second, third, settled, other = await world.claim(5)
    await fail(world, first, "row 7 of 'x' is bad\nat line 1", "ValueError")
    await fail(world, second, "row 12 of 'y' is bad", "ValueError")
    await fail(world, third, "row 12 of 'y' is bad", "KeyError")
    await fail(world, settled, "row 1 of 'z' is bad", "ValueError")
    await discard(world.ledger, [settled.task_id], actor="ann")
    await fail(world, other, "row 99 of 'w' is bad", "ValueError")
    await dead_letter_task(world.ledger, TaskId(buried, 0), actor="ann", reason="poison")
    summary: Any = (await quiet_face.get(SUMMARY)).json
    assert (summary["total"], summary["is_truncated"]) == (5, False)
    assert summary["cells"] == [
        {"reason_code": "exhausted_retries", "stage": "exec", "count": 4},
        {"reason_code": "policy_violation", "stage": None, "count": 1},
    ]
    bad, *_ = summary["groups"]
    assert sorted(group["count"] for group in summary["groups"]) == [1, 1, 3]
    assert (bad["count"], bad["types"], bad["error_class"]) == (3, ["crawl", "mail"], "ValueError")
    assert bad["task_ids"] == [f"{mail}.0", f"{crawl}.1", f"{crawl}.0"]
    assert bad["example"] == "row 99 of 'w' is bad"
    replayed = await quiet_face.post(
        "/api/dead-letters:replay", {"task_ids": bad["task_ids"], "dry_run": True}
    )
    assert len(replayed.json["replays"]) == 2
    for query, total in (
        ("type=crawl", 3),
        ("type=none", 0),
        ("queue=q", 5),
        ("queue=other", 0),
        ("stage=exec", 4),
        ("reason_code=policy_violation", 1),
        ("reason_code=policy_violation&type=crawl", 0),
        (f"job_id={crawl}", 3),
        (f"job_id={crawl}&stage=exec", 3),
        (f"job_id={mail}&reason_code=policy_violation", 0),
        (f"job_id={buried + 1}", 0),
    ):
        assert (await quiet_face.get(f"{SUMMARY}?{query}")).json["total"] == total, query


@pytest.mark.parametrize(
    ("query", "field"),
    [("reason_code=bored", "reason_code"), ("stage=upper", "stage"), ("type=a%00", "type"),
     ("job_id=x", "job_id")],
)  # fmt: skip
async def test_a_filter_that_cannot_be_right_is_refused_by_its_field(
    quiet_face: Face, query: str, field: str
) -> None:
    said = await quiet_face.get(f"{SUMMARY}?{query}")
    assert (said.status, said.error["field"]) == (400, field)


@pytest.fixture
def face(quiet_face: Face) -> Face:
    """A server without chores on the world's own ledger."""
    return quiet_face


async def get(face: Face, target: str) -> Any:
    said = await face.get(target)
    assert said.status == 200, said
    return said.json


async def bury(world: World, error_class: str = "PermanentError", **fields: Any) -> str:
    """Submit a task and let it fail for good; returns its id."""
    await world.submit([{"n": 1}], **fields)
    [claim] = await world.claim()
    await world.start(claim)
    await world.fail(claim, error_class)
    return str(claim.task_id)


async def test_dead_letters_are_listed_in_pages_and_by_filter(face: Face, world: World) -> None:
    letters = [await bury(world), await bury(world, type="mail"), await bury(world)]
    page = await get(face, "/api/dead-letters?page_size=2")
    token = page["next_page_token"]
    rest = await get(face, f"/api/dead-letters?page_size=2&page_token={token}")
    found = [*page["dead_letters"], *rest["dead_letters"]]
    assert [letter["task_id"] for letter in found] == letters
    assert rest["next_page_token"] is None
    page = await get(face, "/api/dead-letters?type=mail&reason_code=exhausted_retries")
    assert [letter["task_id"] for letter in page["dead_letters"]] == [letters[1]]
    page = await get(face, f"/api/dead-letters?job_id={letters[2].partition('.')[0]}")
    assert [letter["task_id"] for letter in page["dead_letters"]] == [letters[2]]


async def test_dead_letters_are_listed_the_newest_first_and_by_the_kind_of_their_error(
    face: Face, world: World
) -> None:
    classes = ["PermanentError", "ValidationError", "PermanentError"]
    letters = []
    for error_class in classes:
        letters.append(await bury(world, error_class=error_class))
        await world.clock.advance(1)
    for settled in ("false", "true"):
        path = f"/api/dead-letters?newest=true&page_size=2&settled={settled}"
        page = await get(face, path)
        rest = await get(face, f"{path}&page_token={page['next_page_token']}")
        found = [*page["dead_letters"], *rest["dead_letters"]]
        assert [letter["task_id"] for letter in found] == letters[::-1]
        assert rest["next_page_token"] is None
    job_id = letters[1].partition(".")[0]
    page = await get(face, f"/api/dead-letters?newest=true&job_id={job_id}")
    assert [letter["task_id"] for letter in page["dead_letters"]] == [letters[1]]

    groups = (await get(face, "/api/dead-letters:summary"))["groups"]
    [kind] = [group["fingerprint"] for group in groups if group["count"] == 2]
    alike = [letters[0], letters[2]]
    for newest, wanted in {"false": alike, "true": alike[::-1]}.items():
        page = await get(face, f"/api/dead-letters?fingerprint={kind}&newest={newest}")
        assert [letter["task_id"] for letter in page["dead_letters"]] == wanted
    body = {"filter": {"fingerprint": kind}, "dry_run": True}
    said = await face.post("/api/dead-letters:replay", body)
    assert [task for made in said.json["replays"] for task in made["task_ids"]] == alike


async def test_a_dead_letter_is_shown_also_once_it_is_settled(face: Face, world: World) -> None:
    task_id = await bury(world)
    letter = await get(face, f"/api/dead-letters/{task_id}")
    assert (letter["reason_code"], letter["stage"]) == ("exhausted_retries", "exec")
    assert (letter["last_error"], letter["attempts"]) == ("boom", 1)
    assert (letter["input"], letter["last_owner"]) == ({"n": 1}, "w1")
    await discard(world.ledger, [parse_task_id(task_id)], actor="eve")
    assert (await get(face, "/api/dead-letters"))["dead_letters"] == []
    [letter] = (await get(face, "/api/dead-letters?settled=true"))["dead_letters"]
    assert letter["discarded_by"] == "eve"


@pytest.mark.parametrize(
    ("query", "field"),
    [
        ("reason_code=boredom", "reason_code"),
        ("stage=left", "stage"),
        ("job_id=x", "job_id"),
        ("page_size=0", "page_size"),
        ("page_token=x", "page_token"),
        ("queue=a%00b", "queue"),
        ("fingerprint=boom", "fingerprint"),
        ("newest=loudest", "newest"),
    ],
)
async def test_dead_letters_that_cannot_be_are_refused_by_the_field(
    face: Face, query: str, field: str
) -> None:
    said = await face.get(f"/api/dead-letters?{query}")
    assert (said.status, said.error["field"]) == (400, field)


@pytest.mark.parametrize(("task_id", "status"), [("7.0", 404), ("7", 400)])
async def test_a_dead_letter_that_is_none_is_not_shown(
    face: Face, task_id: str, status: int
) -> None:
    assert (await face.get(f"/api/dead-letters/{task_id}")).status == status

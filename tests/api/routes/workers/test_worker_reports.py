"""The ends of attempts as workers tell them, and what attempts leave behind."""

import base64
from typing import Any
from uuid import uuid4

import pytest

from holdfast.model.work.ids import parse_task_id
from holdfast.model.work.states import TaskState
from holdfast.operations.logs import OFFSET_MAX
from tests.api.face import Face, Said, fence
from tests.world import World


@pytest.fixture
async def claims(quiet_face: Face) -> list[Any]:
    """Three tasks of one job, claimed by w1."""
    await quiet_face.submit(inputs=[1, 2, 3], max_retries_failure=1)
    return await quiet_face.claim(3)


async def complete_all(face: Face, completions: list[Any]) -> Said:
    body = {"worker_id": "w1", "completions": completions}
    return await face.post("/internal/task-complete", body)


def stale(claim: Any) -> Any:
    return {**fence(claim), "lease_token": str(uuid4())}


async def state_of(world: World, claim: Any) -> TaskState:
    return (await world.task(parse_task_id(claim["task_id"]))).state


async def results(world: World) -> list[str | None]:
    rows = await world.clock.fetch("select result from holdfast.tasks order by task_index")
    return [row[0] for row in rows]


async def test_a_single_completion(quiet_face: Face, world: World, claims: list[Any]) -> None:
    said = await quiet_face.complete(claims[0], exit_code=0, result={"rows": 3})
    assert said.status == 200
    assert said.json == {"results": [{"task_id": claims[0]["task_id"], "accepted": True}]}
    assert await state_of(world, claims[0]) == TaskState.SUCCEEDED
    assert await results(world) == ['{"rows":3}', None, None]


async def test_a_duration_is_that_of_the_workers_own_clock_within_its_lease(
    quiet_face: Face, world: World, claims: list[Any]
) -> None:
    await world.clock.advance(20)
    started, unreported, boasting = claims
    await quiet_face.beat(started, state="running", run_ms=2000)
    await world.clock.advance(1)
    await quiet_face.complete(started)
    await quiet_face.complete(unreported, run_ms=30)
    await quiet_face.complete(boasting, run_ms=3_600_000)
    took = []
    for claim in claims:
        task = (await quiet_face.get(f"/api/tasks/{claim['task_id']}")).json
        took.append(task["finished_at_ms"] - task["started_at_ms"])
    assert 3000 <= took[0] < 3500
    assert 30 <= took[1] < 500
    assert 21_000 <= took[2] < 22_000, "it cannot have begun before it was claimed"


async def test_many_completions_and_a_stale_one_is_told_apart(
    quiet_face: Face, world: World, claims: list[Any]
) -> None:
    failed = {
        **fence(claims[2]),
        "status": "failed",
        "exit_code": 3,
        "error": "boom",
        "error_class": "ValueError",
        "stage": "output",
    }
    said = await complete_all(
        quiet_face,
        [
            {**fence(claims[0]), "status": "succeeded"},
            {**stale(claims[1]), "status": "succeeded"},
            failed,
        ],
    )
    assert said.status == 200
    first, second, third = said.json["results"]
    assert first == {"task_id": claims[0]["task_id"], "accepted": True}
    assert third == {"task_id": claims[2]["task_id"], "accepted": True}
    assert second["error"]["code"] == "lease_conflict"
    assert await state_of(world, claims[1]) == TaskState.ASSIGNED
    [attempt] = (await world.task(parse_task_id(claims[2]["task_id"]))).attempts
    told = (attempt["exit_code"], attempt["error"], attempt["error_class"], attempt["stage"])
    assert told == (3, "boom", "ValueError", "output")
    assert b"holdfast_lease_conflicts_total 1.0" in quiet_face.runtime.metrics.render()


async def test_a_repeat_is_answered_as_the_first_time_and_has_no_second_effect(
    quiet_face: Face, world: World, claims: list[Any]
) -> None:
    events = [{"kind": "rows", "payload": {"n": 3}}]
    first = await quiet_face.complete(claims[0], result=1, events=events)
    before = await world.dump()
    again = await quiet_face.complete(claims[0], result=1, events=events)
    assert (again.status, again.json) == (first.status, first.json)
    assert await world.dump() == before


async def test_a_single_stale_completion_is_a_conflict(
    quiet_face: Face, world: World, claims: list[Any]
) -> None:
    for lost in (stale(claims[0]), {**claims[0], "attempt": 1}):
        said = await quiet_face.complete(lost)
        assert (said.status, said.error["code"]) == (409, "lease_conflict")
        assert said.error["details"]["task_id"] == claims[0]["task_id"]
    assert await state_of(world, claims[0]) == TaskState.ASSIGNED
    assert b"holdfast_lease_conflicts_total 2.0" in quiet_face.runtime.metrics.render()


async def test_a_result_of_null_is_not_the_absence_of_one(
    quiet_face: Face, world: World, claims: list[Any]
) -> None:
    await quiet_face.complete(claims[0], result=None)
    await quiet_face.complete(claims[1])
    body = {"worker_id": "w1", "completions": [{**fence(claims[2]), "status": "succeeded"}]}
    body["completions"][0]["result"] = [None]  # type: ignore[index]
    await quiet_face.post("/internal/task-complete", body)
    assert await results(world) == ["null", None, "[null]"]


async def test_numbers_and_spaces_of_a_result_are_kept_as_they_came(
    quiet_face: Face, world: World, claims: list[Any]
) -> None:
    text = b'{"big":  12345678901234567890123, "small": 1.10}'
    body = b'{"worker_id": "w1", "task_id": "%s", "attempt": 0, "lease_token": "%s",' % (
        claims[0]["task_id"].encode(),
        claims[0]["lease_token"].encode(),
    )
    said = await quiet_face.post(
        "/internal/task-complete", body + b'"status": "succeeded", "result": ' + text + b"}"
    )
    assert said.status == 200
    assert (await results(world))[0] == text.decode()


async def test_user_events_are_stored_as_notes(
    quiet_face: Face, world: World, claims: list[Any]
) -> None:
    events = [{"kind": "rows", "payload": {"n": 3}}, {"kind": "done"}]
    await quiet_face.complete(claims[0], events=events)
    notes = await world.clock.fetch("select kind, payload from holdfast.notes order by id")
    assert [tuple(note) for note in notes] == [("user:rows", '{"n":3}'), ("user:done", "null")]


async def test_a_task_handed_back_can_be_claimed_again_at_no_cost(
    quiet_face: Face, world: World, claims: list[Any]
) -> None:
    await quiet_face.complete(claims[0], "handed_back")
    [again] = await quiet_face.claim()
    assert (again["task_id"], again["attempt"]) == (claims[0]["task_id"], 1)
    assert (again["failure_count"], again["preemption_count"]) == (0, 0)


async def test_on_an_ending_lease_any_completion_confirms(
    quiet_face: Face, world: World, claims: list[Any]
) -> None:
    task_id = claims[0]["task_id"]
    await quiet_face.post(f"/api/tasks/{task_id}:cancel", {"mode": "hard"})
    said = await quiet_face.complete(claims[0], result=1)
    assert said.json == {"results": [{"task_id": task_id, "accepted": False}]}
    assert await state_of(world, claims[0]) == TaskState.KILLED
    assert (await quiet_face.complete(claims[0], "killed")).status == 409


async def test_nothing_completed_is_nothing_answered(quiet_face: Face) -> None:
    assert (await complete_all(quiet_face, [])).json == {"results": []}


BAD_COMPLETIONS: list[tuple[int, str, Any]] = [
    (400, "status", {"status": "done"}),
    (400, "status", {"status": None}),
    (400, "task_id", {"task_id": None}),
    (400, "task_id", {"task_id": "7"}),
    (400, "attempt", {"attempt": None}),
    (400, "lease_token", {"lease_token": "x"}),
    (400, "stage", {"stage": "nowhere"}),
    (400, "exit_code", {"exit_code": 2}),
    (400, "exit_code", {"exit_code": 2**40}),
    (400, "result", {"status": "failed", "result": 1}),
    (400, "error", {"status": "failed", "error": "a\x00b"}),
    (413, "error", {"status": "failed", "error": "x" * 70_000}),
    (413, "result", {"result": "x" * (1 << 20)}),
    (400, "events[0].kind", {"events": [{}]}),
    (400, "events.kind", {"events": [{"kind": "a\x00b"}]}),
    (400, "worker_id", {"worker_id": "a b"}),
    (400, "outcome", {"outcome": 1}),
    (400, "task_id", {"completions": []}),
]


async def test_a_bad_completion_names_its_field_and_changes_nothing(
    quiet_face: Face, world: World, claims: list[Any]
) -> None:
    before = await world.dump()
    for status, field, fields in BAD_COMPLETIONS:
        said = await quiet_face.complete(claims[0], **fields)
        assert (said.status, said.error["field"]) == (status, field), fields
        assert await world.dump() == before


async def test_what_belongs_to_one_does_not_stand_beside_many(quiet_face: Face) -> None:
    for field, value in (("status", "failed"), ("result", None), ("events", [{"kind": "x"}])):
        body = {"worker_id": "w1", "completions": [], field: value}
        said = await quiet_face.post("/internal/task-complete", body)
        assert (said.status, said.error["field"]) == (400, field)


async def test_completions_without_number_are_sent_in_parts(
    quiet_face: Face, claims: list[Any]
) -> None:
    many = [{**fence(claims[0]), "status": "succeeded"}] * 10_001
    said = await complete_all(quiet_face, many)
    assert (said.status, said.error["field"]) == (400, "completions")


# Output and checkpoints.


async def append(face: Face, claim: Any, offset: int, content: bytes) -> Said:
    text = base64.b64encode(content).decode()
    return await face.post(
        "/internal/task-log", {**fence(claim), "offset": offset, "content": text}
    )


async def test_output_is_kept_and_the_answer_says_where_it_ends(
    quiet_face: Face, claims: list[Any]
) -> None:
    assert (await append(quiet_face, claims[0], 0, b"one\n")).json == {"size": 4}
    assert (await append(quiet_face, claims[0], 4, b"\xff\x00\n")).json == {"size": 7}
    assert (await append(quiet_face, claims[0], 4, b"\xff\x00\n")).json == {"size": 7}
    said = await quiet_face.get(f"/api/tasks/{claims[0]['task_id']}/logs")
    assert base64.b64decode(said.json["content"]) == b"one\n\xff\x00\n"
    assert said.json["next_offset"] == 7


async def test_output_is_limited_and_fenced(quiet_face: Face, claims: list[Any]) -> None:
    assert (await append(quiet_face, stale(claims[0]), 0, b"lies")).status == 409
    large = await append(quiet_face, claims[0], 0, b"x" * ((1 << 20) + 1))
    assert (large.status, large.error["code"], large.error["field"]) == (
        413, "too_large", "content",
    )  # fmt: skip
    assert {"size": (1 << 20) + 1, "limit": 1 << 20}.items() <= large.error["details"].items()
    far = await append(quiet_face, claims[0], OFFSET_MAX, b"x")
    assert (far.status, far.error["field"]) == (413, "offset")
    for field, fields in (("offset", {"offset": -1}), ("content", {"content": "no base64"})):
        body = {**fence(claims[0]), "offset": 0, "content": "", **fields}
        said = await quiet_face.post("/internal/task-log", body)
        assert (said.status, said.error["field"]) == (400, field)


async def test_output_of_many_attempts_comes_in_one_request(
    quiet_face: Face, claims: list[Any]
) -> None:
    first, second = claims[:2]
    logs = [
        {**fence(first), "offset": 0, "content": "b25l"},
        {**stale(second), "offset": 0, "content": "bGllcw=="},
        {**fence(first), "offset": 3, "content": "IHR3bw=="},
    ]
    said = await quiet_face.post("/internal/task-logs", {"logs": logs})
    assert said.status == 200
    results = said.json["results"]
    assert results[0] == {"task_id": first["task_id"], "size": 3}
    assert results[1]["error"]["code"] == "lease_conflict"
    assert results[2]["size"] == 7
    told = await quiet_face.get(f"/api/tasks/{first['task_id']}/logs")
    assert base64.b64decode(told.json["content"]) == b"one two"
    other = await quiet_face.get(f"/api/tasks/{second['task_id']}/logs")
    assert other.json["content"] == ""
    many = await quiet_face.post("/internal/task-logs", {"logs": logs[:1] * 10_001})
    assert (many.status, many.error["field"]) == (400, "logs")
    large = {**fence(first), "offset": OFFSET_MAX, "content": "b25l"}
    far = await quiet_face.post("/internal/task-logs", {"logs": [logs[0], large]})
    assert (far.status, far.error["field"]) == (413, "offset")


async def test_a_checkpoint_is_found_by_the_next_attempt(
    quiet_face: Face, claims: list[Any]
) -> None:
    load, save = "/internal/checkpoint-load", "/internal/checkpoint-save"
    nothing = await quiet_face.post(load, fence(claims[0]))
    assert nothing.json == {"checkpoint": None, "attempt": None}
    saved = await quiet_face.post(save, {**fence(claims[0]), "checkpoint": {"row": 7}})
    assert saved.json == {"checkpoint": {"row": 7}, "attempt": 0}
    await quiet_face.complete(claims[0], "handed_back")
    [again] = await quiet_face.claim()
    found = await quiet_face.post(load, fence(again))
    assert found.json == {"checkpoint": {"row": 7}, "attempt": 0}
    for path, extra in ((load, {}), (save, {"checkpoint": 1})):
        said = await quiet_face.post(path, {**fence(claims[0]), **extra})
        assert (said.status, said.error["code"]) == (409, "lease_conflict")
    missing = await quiet_face.post(save, fence(again))
    assert (missing.status, missing.error["field"]) == (400, "checkpoint")
    large = await quiet_face.post(save, {**fence(again), "checkpoint": "x" * (1 << 20)})
    assert (large.status, large.error["field"]) == (413, "checkpoint")
    found = await quiet_face.post(load, fence(again))
    assert found.json == {"checkpoint": {"row": 7}, "attempt": 0}


async def test_a_completion_under_a_key_is_answered_as_the_first_time(
    quiet_face: Face, world: World, claims: list[Any]
) -> None:
    completions = [
        {**fence(claims[0]), "status": "succeeded", "result": 1},
        {**stale(claims[1]), "status": "succeeded"},
    ]
    body = {"worker_id": "w1", "completions": completions, "idempotency_key": "k"}
    first, again = [await quiet_face.post("/internal/task-complete", body) for _ in range(2)]
    assert (first.status, again.status) == (200, 200)
    assert again.json == first.json
    assert [result.get("accepted") for result in first.json["results"]] == [True, None]
    assert first.json["results"][1]["error"]["code"] == "lease_conflict"
    before = await world.dump()
    # By its token this would be a repeat; under the key it is another request.
    other = await quiet_face.complete(claims[0], result=2, idempotency_key="k")
    assert (other.status, other.error["code"]) == (409, "key_reused")
    other = await quiet_face.complete(claims[2], idempotency_key="k")
    assert other.status == 409
    assert await world.dump() == before
    assert (await quiet_face.complete(claims[2], idempotency_key="new")).status == 200


@pytest.mark.parametrize("status", ["Completed", "TASK_STATE_SUCCEEDED"])
async def test_a_lease_alone_says_who_has_completed_it(
    quiet_face: Face, world: World, claims: list[Any], status: str
) -> None:
    body = {**fence(claims[0]), "status": status, "outputs": [], "events": []}
    for _ in range(2):
        said = await quiet_face.post("/internal/task-complete", body)
        assert (said.status, said.json["results"][0]["accepted"]) == (200, True)
    assert await state_of(world, claims[0]) == TaskState.SUCCEEDED
    keyed = {**fence(claims[1]), "status": "Canceled", "idempotency_key": "k"}
    first, again = [await quiet_face.post("/internal/task-complete", keyed) for _ in range(2)]
    assert (first.status, first.json) == (again.status, again.json) == (200, first.json)


async def test_many_completions_need_the_name_of_their_worker(
    quiet_face: Face, claims: list[Any]
) -> None:
    body = {"completions": [{**fence(claims[0]), "status": "succeeded"}]}
    said = await quiet_face.post("/internal/task-complete", body)
    assert (said.status, said.error["field"]) == (400, "worker_id")

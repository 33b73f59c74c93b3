"""Dead letters in sum: by reason and stage, and by what went wrong."""

from typing import Any

import pytest

from holdfast.model.ids import TaskId
from holdfast.operations.claim import Claim
from holdfast.operations.dead_letters import dead_letter_task, discard
from tests.api.face import Face
from tests.world import World

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
    ):
        assert (await quiet_face.get(f"{SUMMARY}?{query}")).json["total"] == total, query


@pytest.mark.parametrize(
    ("query", "field"),
    [("reason_code=bored", "reason_code"), ("stage=upper", "stage"), ("type=a%00", "type"),
     ("job_id=7", "job_id")],
)  # fmt: skip
async def test_a_filter_that_cannot_be_right_is_refused_by_its_field(
    quiet_face: Face, query: str, field: str
) -> None:
    said = await quiet_face.get(f"{SUMMARY}?{query}")
    assert (said.status, said.error["field"]) == (400, field)

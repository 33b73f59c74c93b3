"""Unique jobs: of those that are alike one is there, by a constraint."""

import asyncio
from collections import Counter
from typing import Any

import pytest

from holdfast.errors import Invalid, NotUnique, Refused
from holdfast.ledger.ledger import Ledger
from holdfast.model.submitting.spec import Submission
from holdfast.model.work.states import TaskState
from holdfast.operations.ending.cancel import cancel_job
from holdfast.operations.follow_up import follow_up_all
from holdfast.operations.submitting.admit import admit
from holdfast.operations.submitting.graph import submit_batch
from holdfast.operations.submitting.store import Submitted
from holdfast.operations.submitting.submit import submit
from holdfast.operations.submitting.unique import describe_key
from holdfast.rules.submitting.submission import complete_submission, parse_inputs, parse_spec
from holdfast.services.writers import Writers
from holdfast.store.database import Database, LockTimeout
from holdfast.store.tables.submitting.unique_jobs import take_unique_keys
from tests.audits import assert_audit_is_silent
from tests.world import World


def unique(
    *args: Any, inputs: list[Any] | None = None, rule: dict[str, Any] | None = None, **fields: Any
) -> Submission:
    """Describe a unique call of one function."""
    spec = {"entrypoint": {"function": "app:work", "args": list(args)}, "queue": "q"}
    given = parse_spec(spec | {"unique": rule or {}} | fields)
    return Submission(given, None if inputs is None else parse_inputs(inputs))


def by(path: str, *args: Any, inputs: list[Any] | None = None) -> Submission:
    """Describe a call that is unique by one argument."""
    return unique(*args, inputs=inputs, rule={"arguments": [path]})


async def job_ids(ledger: Ledger, *submissions: Submission) -> list[int]:
    """Submit jobs one after the other."""
    found = []
    for each in submissions:
        [answer] = await submit(ledger, [each])
        assert isinstance(answer, Submitted), answer
        found.append(answer.job_id)
    return found


async def refused(ledger: Ledger, submission: Submission) -> Any:
    """Submit a job that is refused."""
    [answer] = await submit(ledger, [submission])
    assert isinstance(answer, Refused), answer
    return answer


async def test_a_second_job_is_answered_with_the_first_until_that_has_ended(
    ledger: Ledger, world: World
) -> None:
    first, again, other = await job_ids(ledger, unique(1), unique(1), unique(2))
    assert (again, other) == (first, first + 2)
    [claim] = await world.claim()
    assert await job_ids(ledger, unique(1)) == [first]  # it runs
    await world.succeed(claim)
    [later] = await job_ids(ledger, unique(1))
    assert later > other
    assert await world.count("unique_jobs") == 2
    await assert_audit_is_silent(ledger.database)


@pytest.mark.parametrize("end", ["failed", "cancelled"])
async def test_every_end_frees_the_key(ledger: Ledger, world: World, end: str) -> None:
    [first] = await job_ids(ledger, unique(1))
    [claim] = await world.claim()
    if end == "failed":
        await world.fail(claim)
    else:
        await world.cancel_job(first)
    assert await world.count("unique_jobs") == 0
    [later] = await job_ids(ledger, unique(1))
    assert later > first


async def test_a_job_that_is_cancelled_while_it_waits_is_in_nobodys_way(
    ledger: Ledger, world: World
) -> None:
    [first] = await job_ids(ledger, unique(1))
    assert await cancel_job(ledger, first, "soft", actor="ann")  # nothing has been swept yet
    [later] = await job_ids(ledger, unique(1))
    assert later > first
    await world.run_chores()
    assert await world.job_state(first) == TaskState.KILLED
    assert await world.job_state(later) == TaskState.PENDING
    assert await job_ids(ledger, unique(1)) == [later]


async def test_until_it_has_started(ledger: Ledger, world: World) -> None:
    rule = {"states": ["pending"]}
    first, again = await job_ids(ledger, unique(1, rule=rule), unique(1, rule=rule))
    assert first == again
    await world.claim()
    [later] = await job_ids(ledger, unique(1, rule=rule))
    assert later > first


async def test_once_in_a_period_also_when_it_has_succeeded(ledger: Ledger, world: World) -> None:
    rule = {"period": 3600}
    [first] = await job_ids(ledger, unique(1, rule=rule))
    [claim] = await world.claim()
    await world.succeed(claim)
    assert await job_ids(ledger, unique(1, rule=rule)) == [first]
    await world.pass_time(3600)
    [second] = await job_ids(ledger, unique(1, rule=rule))
    assert second > first
    [claim] = await world.claim()
    await world.fail(claim)  # what has not succeeded may be tried again
    [third] = await job_ids(ledger, unique(1, rule=rule))
    assert third > second
    await assert_audit_is_silent(ledger.database)


@pytest.mark.parametrize(
    ("one", "other", "are_alike"),
    [
        (unique(1), unique(1, type="other"), False),
        (unique(1), unique(1, queue="other"), False),
        (unique(1), unique(1, owner="ann"), True),
        (unique(1, rule={"owner": True}), unique(1, owner="ann", rule={"owner": True}), False),
        (unique(1, priority=3, labels={"a": "b"}), unique(1), True),
        (by("args[0]", 1, 2), by("args[0]", 1, 3), True),
        (by("args[1]", 1, 2), by("args[1]", 1, 3), False),
        (by("args[0].a[1]", {"a": [1, 2]}), unique(rule={"values": [2]}), True),
        (unique(1, rule={"arguments": []}), unique(2, rule={"arguments": []}), True),
        (unique({"a": 1, "b": 2}), unique({"b": 2, "a": 1}), True),
        (unique(inputs=[1, 2]), unique(inputs=[1, 3]), False),
        (by("inputs[0]", inputs=[1, 2]), by("inputs[0]", inputs=[1]), True),
        (by("inputs", inputs=[1, 2]), unique(inputs=[1, 2]), False),
        (unique(1, rule={"period": 60}), unique(1, rule={"period": 60.0}), True),
        (unique(1, rule={"period": 60}), unique(1), False),
        (unique(1, rule={"states": ["pending"]}), unique(1), True),
    ],
    ids=str,
)  # fmt: skip
async def test_jobs_are_alike_by_what_is_compared(
    ledger: Ledger, world: World, one: Submission, other: Submission, *, are_alike: bool
) -> None:
    first, second = await job_ids(ledger, one, other)
    assert (first == second) == are_alike


async def test_a_job_that_refuses_others_names_the_one_in_its_way(
    ledger: Ledger, world: World
) -> None:
    rule = {"on_conflict": "refuse"}
    [first] = await job_ids(ledger, unique(1, rule=rule))
    before = await world.dump()
    problem = await refused(ledger, unique(1, rule=rule))
    assert isinstance(problem, NotUnique)
    assert (problem.job_id, problem.field) == (str(first), "unique")
    assert await world.dump() == before


async def test_the_last_one_replaces_what_waits(ledger: Ledger, world: World) -> None:
    rule = {"on_conflict": "replace", "values": ["k"]}
    submissions = [unique(number, rule=rule) for number in range(3)]
    ids = await job_ids(ledger, *submissions)
    assert len(set(ids)) == 3
    assert await follow_up_all(ledger) > 0
    states = [await world.job_state(job_id) for job_id in ids]
    assert states == [TaskState.KILLED, TaskState.KILLED, TaskState.PENDING]
    assert (await world.job(ids[0]))["cancel_reason"] == f"replaced by job {ids[1]}"
    assert await world.story(ids[0], -1) == ["submitted", "cancel_requested", "killed"]
    [claim] = await world.claim(5)
    assert (claim.task_id.job_id, claim.job.spec.entrypoint.args) == (ids[2], [2])
    # What runs is left alone: the next one comes after it.
    [later] = await job_ids(ledger, unique(9, rule=rule))
    assert await world.job_state(ids[2]) == TaskState.RUNNING
    assert await world.job_state(later) == TaskState.PENDING
    await assert_audit_is_silent(ledger.database)


async def test_what_has_started_and_holds_its_key_cannot_be_replaced(
    ledger: Ledger, world: World
) -> None:
    [first] = await job_ids(ledger, unique(1))
    await world.claim()
    before = await world.dump()
    problem = await refused(ledger, unique(1, rule={"on_conflict": "replace"}))
    assert isinstance(problem, NotUnique)
    assert "has started" in str(problem)
    assert problem.job_id == str(first)
    assert await world.dump() == before


async def test_a_job_may_keep_the_start_of_the_one_it_replaces(
    ledger: Ledger, world: World
) -> None:
    rule = {"on_conflict": "replace", "keep_start": True, "values": []}
    await job_ids(ledger, unique(1, rule=rule, start_delay=60.0))
    await world.pass_time(40)
    await job_ids(ledger, unique(2, rule=rule, start_delay=60.0))
    await world.pass_time(15)
    await job_ids(ledger, unique(3, rule=rule, start_delay=60.0))
    assert await world.claim(5) == []
    await world.pass_time(6)
    [claim] = await world.claim(5)
    assert claim.job.spec.entrypoint.args == [3]


async def test_without_that_each_one_puts_the_start_off(ledger: Ledger, world: World) -> None:
    rule = {"on_conflict": "replace", "values": []}
    for number in range(3):
        await job_ids(ledger, unique(number, rule=rule, start_delay=60.0))
        await world.pass_time(40)
    assert await world.claim(5) == []
    await world.pass_time(25)
    [claim] = await world.claim(5)
    assert claim.job.spec.entrypoint.args == [2]


async def test_those_that_come_together_are_one_job(ledger: Ledger, world: World) -> None:
    answers = await submit(ledger, [unique(1), unique(2), unique(1), unique(1)])
    first, other, *again = [each for each in answers if isinstance(each, Submitted)]
    assert [each.job_id for each in again] == [first.job_id] * 2
    assert [each.is_new for each in (first, other, *again)] == [True, True, False, False]
    assert await world.count("jobs") == 2


async def test_of_those_that_replace_each_other_in_one_call_the_last_is_stored(
    ledger: Ledger, world: World
) -> None:
    rule = {"on_conflict": "replace", "values": []}
    submissions = [unique(0, rule={"values": []})]
    submissions += [unique(number, rule=rule) for number in range(1, 4)]
    submissions += [unique(4, rule={"values": [], "on_conflict": "refuse"})]
    *answers, last = await submit(ledger, submissions)
    ids = {each.job_id for each in answers if isinstance(each, Submitted)}
    assert len(ids) == 1
    assert isinstance(last, NotUnique)
    assert last.job_id == str(ids.pop())
    [claim] = await world.claim(5)
    assert claim.job.spec.entrypoint.args == [3]
    await assert_audit_is_silent(ledger.database)


async def test_a_repeat_under_an_idempotency_key_is_the_first_job(
    ledger: Ledger, world: World
) -> None:
    rule = {"on_conflict": "refuse"}
    mine = unique(1, rule=rule, idempotency_key="k")
    answers = await submit(ledger, [mine, mine])
    ids = {each.job_id for each in answers if isinstance(each, Submitted)}
    assert len(ids) == 1
    assert await job_ids(ledger, mine) == [*ids]
    [claim] = await world.claim()
    await world.succeed(claim)
    assert await job_ids(ledger, mine) == [*ids]  # and takes no key
    assert await world.count("unique_jobs") == 0


async def test_a_repeat_of_one_that_met_another_job_meets_it_again(
    ledger: Ledger, world: World
) -> None:
    [first] = await job_ids(ledger, unique(1))
    mine = unique(1, idempotency_key="k")
    assert await job_ids(ledger, mine) == [first]
    answers = await submit(ledger, [mine, mine])
    assert [getattr(each, "job_id", None) for each in answers] == [first, first]
    assert await world.count("jobs") == 1


async def test_a_batch_is_refused_whole_and_answers_with_the_first(
    ledger: Ledger, world: World
) -> None:
    [first] = await job_ids(ledger, unique(1))
    answers = await submit_batch(ledger, [unique(2), unique(1), unique(2)])
    assert [answer.is_new for answer in answers] == [True, False, False]
    assert (answers[1].job_id, answers[2].job_id) == (first, answers[0].job_id)
    before = await world.dump()
    with pytest.raises(NotUnique):
        await submit_batch(ledger, [unique(3), unique(1, rule={"on_conflict": "refuse"})])
    assert await world.dump() == before


async def test_a_graph_takes_no_unique_jobs(ledger: Ledger) -> None:
    named = Submission(unique(1).spec, local_name="a")
    waiting = Submission(parse_spec({"entrypoint": {"function": "a:b"}, "depends_on": ["a"]}))
    with pytest.raises(Invalid) as problem:
        await submit_batch(ledger, [waiting, named])
    assert problem.value.field == "specs[1].unique"


async def submit_at_once(
    ledger: Ledger, other: Database, submissions: list[Submission]
) -> list[Submitted]:
    """Submit through two servers, which gather what comes at the same time."""
    servers = [Writers(ledger), Writers(Ledger(other))]
    return await asyncio.gather(
        *(servers[number % 2].submit(each) for number, each in enumerate(submissions))
    )


async def test_64_submissions_at_once_are_one_job(
    ledger: Ledger, database_url: str, world: World
) -> None:
    async with Database(database_url) as other:
        answers = await submit_at_once(ledger, other, [unique(1) for _ in range(64)])
    assert Counter(each.is_new for each in answers) == {True: 1, False: 63}
    assert len({each.job_id for each in answers}) == 1
    assert await world.count("jobs") == 1
    await assert_audit_is_silent(ledger.database)


async def test_64_that_replace_each_other_leave_one_that_waits(
    ledger: Ledger, database_url: str, world: World
) -> None:
    rule = {"on_conflict": "replace", "values": []}
    async with Database(database_url) as other:
        submissions = [unique(number, rule=rule) for number in range(64)]
        await submit_at_once(ledger, other, submissions)
    [last] = await job_ids(ledger, unique("last", rule=rule))
    await follow_up_all(ledger)
    [claim] = await world.claim(64)
    assert (claim.task_id.job_id, claim.job.spec.entrypoint.args) == (last, ["last"])
    await assert_audit_is_silent(ledger.database)


async def test_one_that_cannot_be_stored_has_no_other_stored_twice(
    ledger: Ledger, database_url: str, world: World
) -> None:
    plain = Submission(parse_spec({"entrypoint": {"function": "app:work"}, "queue": "q"}))
    await submit(ledger, [plain])
    async with Database(database_url) as other, other.transaction() as tx:
        [admitted] = await admit(ledger, [complete_submission(unique(1), ledger.limits)])
        await take_unique_keys(tx, [describe_key(admitted)], now=admitted.admitted_at)
        stored, held = await submit(ledger, [plain, unique(1)])
    assert isinstance(stored, Submitted)
    assert isinstance(held, LockTimeout)
    assert await world.count("jobs") == 2

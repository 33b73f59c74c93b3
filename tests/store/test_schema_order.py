"""The database itself refuses jobs that overtake what they wait for."""

import pytest

from tests.store.raw import Raw

STARTS = "a_job_starts_after_what_it_depends_on"
SETTLED = "what_a_job_depends_on_is_settled_once"
ONCE = "a_dependency_is_closed_once"


async def bind(raw: Raw, job_id: int, depends_on: int, condition: str = "ended") -> None:
    """Let one job wait for another."""
    await raw.run(
        "insert into holdfast.dependencies (job_id, depends_on, condition) values ($1, $2, $3)",
        job_id,
        depends_on,
        condition,
    )


@pytest.mark.parametrize(
    "change",
    [
        "pending = 0, assigned = 1",
        "pending = 0, running = 1",
        "started_at = holdfast.now()",
        "unmet = 3",
    ],
)
async def test_a_job_that_waits_neither_starts_nor_waits_for_more(raw: Raw, change: str) -> None:
    job_id = await raw.insert_job(unmet="2")
    async with raw.refused(STARTS, SETTLED):
        await raw.run(f"update holdfast.jobs set {change} where job_id = $1", job_id)
    await raw.run("update holdfast.jobs set unmet = 0 where job_id = $1", job_id)
    await raw.run("update holdfast.jobs set pending = 0, assigned = 1 where job_id = $1", job_id)


async def test_a_job_is_released_once_and_with_nothing_unmet(raw: Raw) -> None:
    job_id = await raw.insert_job(unmet="1")
    release = "update holdfast.jobs set released_at = holdfast.now() {} where job_id = $1"
    async with raw.refused("a_job_is_released_when_nothing_is_unmet"):
        await raw.run(release.format(""), job_id)
    await raw.run(release.format(", unmet = 0"), job_id)
    async with raw.refused(SETTLED):
        await raw.run(release.format(""), job_id)


@pytest.mark.parametrize(
    ("job_id", "depends_on", "condition", "constraint"),
    [
        (7, 7, "ended", "a_job_depends_on_earlier_ones"),
        (7, 8, "ended", "a_job_depends_on_earlier_ones"),
        (7, 6, "done", "a_condition_is_known"),
        (7, 5, "failed", "a_job_depends_on_another_once"),
    ],
)
async def test_a_dependency_leads_to_an_earlier_job_once(
    raw: Raw, job_id: int, depends_on: int, condition: str, constraint: str
) -> None:
    await bind(raw, 7, 5)
    async with raw.refused(constraint):
        await bind(raw, job_id, depends_on, condition)


async def test_what_older_programs_would_close_of_a_chain_stays_open(raw: Raw) -> None:
    first, second, third = [await raw.insert_job() for _ in range(3)]
    for job_id, before, on_failure in ((second, first, "block"), (third, second, "pass")):
        await raw.run(
            "insert into holdfast.dependencies (job_id, depends_on, condition, on_failure)"
            " values ($1, $2, 'ended', $3)",
            *(job_id, before, on_failure),
        )
    # As the version before chains does it, whatever became of the other job.
    close = (
        "update holdfast.dependencies set closed_at = holdfast.now(), holds = true"
        " where depends_on = $1 returning job_id"
    )
    outbox = "select kind, job_id from holdfast.outbox"
    assert await raw.rows(close, first) == []
    assert await raw.rows(outbox) == []
    assert await raw.rows(close, second) == [], "who comes before it still waits"
    assert [tuple(row) for row in await raw.rows(outbox)] == [("release", second)]
    let_pass = close.replace("holds = true", "holds = true, on_failure = 'pass'")
    assert [row[0] for row in await raw.rows(let_pass, first)] == [second]
    assert [row[0] for row in await raw.rows(close, second)] == [third]


async def test_a_dependency_is_closed_whole_and_for_good(raw: Raw) -> None:
    await bind(raw, 7, 5)
    close = "update holdfast.dependencies set "
    async with raw.refused("a_closed_dependency_holds_or_not"):
        await raw.run(close + "closed_at = holdfast.now()")
    async with raw.refused(ONCE):
        await raw.run(close + "condition = 'failed'")
    await raw.run(close + "closed_at = holdfast.now(), holds = false")
    for change in ("holds = true", "closed_at = null, holds = null"):
        async with raw.refused(ONCE):
            await raw.run(close + change)

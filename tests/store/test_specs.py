"""Specs at hand: read once, decoded, and forgotten when they were not used for the longest."""

import msgspec
import pytest

from holdfast.model.submitting.spec import JobSpec, Limits, Submission
from holdfast.rules.submitting.submission import complete_submission, parse_spec, terms_of
from holdfast.store import specs
from holdfast.store.database import Database
from holdfast.store.specs import SpecCache
from tests.store.raw import Raw


def a_complete_spec(name: str, **more: bool) -> JobSpec:
    fields = {"entrypoint": {"function": "a:b"}, "name": name, "queue": "q", "timeout": 5}
    return complete_submission(Submission(parse_spec(fields | more)), Limits()).spec


async def insert_job(lasting: Raw, name: str = "n", **more: bool) -> int:
    text = msgspec.json.encode(a_complete_spec(name, **more)).decode()
    return await lasting.insert_job(
        spec=f"'{text}'", name=f"'{name}'", correlation_id="'c1'", trace_id="'t1'"
    )


async def test_a_spec_comes_with_its_policy_and_names(database: Database, lasting: Raw) -> None:
    job_id = await insert_job(lasting)
    async with database.transaction() as tx:
        stored = (await SpecCache().load(tx, [job_id]))[job_id]
    assert stored.spec == a_complete_spec("n")
    assert stored.terms == terms_of(stored.spec)
    assert (stored.name, stored.num_tasks) == ("n", 1)
    assert (stored.correlation_id, stored.trace_id) == ("c1", "t1")


async def test_a_job_that_does_not_exist_is_left_out(database: Database, lasting: Raw) -> None:
    job_id = await insert_job(lasting)
    async with database.transaction() as tx:
        assert set(await SpecCache().load(tx, [job_id, 999, job_id])) == {job_id}
        assert await SpecCache().load(tx, []) == {}


@pytest.mark.parametrize(("jobs_max", "kept"), [(3, [0, 1, 2]), (2, [1, 2]), (1, [2])])
async def test_the_oldest_spec_is_forgotten_first(
    database: Database, lasting: Raw, jobs_max: int, kept: list[int]
) -> None:
    job_ids = [await insert_job(lasting, f"n{number}") for number in range(3)]
    cache = SpecCache(jobs_max)
    for job_id in job_ids:
        async with database.transaction() as tx:
            await cache.load(tx, [job_id])
    # What is still known after the rows are gone was kept in memory.
    await lasting.run("delete from holdfast.jobs")
    async with database.transaction() as tx:
        found = await cache.load(tx, job_ids)
    assert {job_id: stored.name for job_id, stored in found.items()} == {
        job_ids[number]: f"n{number}" for number in kept
    }


async def test_a_spec_that_is_used_is_kept(database: Database, lasting: Raw) -> None:
    hot, *others = [await insert_job(lasting, f"n{number}") for number in range(5)]
    cache = SpecCache(2)
    for job_id in others:
        async with database.transaction() as tx:
            await cache.load(tx, [hot])
            await cache.load(tx, [job_id])
    assert cache.find(hot) is not None


async def test_a_spec_that_is_found_is_kept(database: Database, lasting: Raw) -> None:
    hot, *others = [await insert_job(lasting, f"n{number}") for number in range(5)]
    cache = SpecCache(2)
    async with database.transaction() as tx:
        stored = await SpecCache().load(tx, [hot, *others])
    cache.remember(hot, stored[hot])
    for job_id in others:
        assert cache.find(hot) is not None
        cache.remember(job_id, stored[job_id])
    assert cache.find(hot) is not None


async def test_more_jobs_than_fit_are_all_returned(database: Database, lasting: Raw) -> None:
    job_ids = [await insert_job(lasting, f"n{number}") for number in range(5)]
    async with database.transaction() as tx:
        assert set(await SpecCache(2).load(tx, job_ids)) == set(job_ids)


async def test_who_is_verbose_is_known_without_reading_whole_specs(
    database: Database, lasting: Raw, monkeypatch: pytest.MonkeyPatch
) -> None:
    quiet, known = [await insert_job(lasting, name) for name in ("quiet", "known")]
    verbose = await insert_job(lasting, "verbose", verbose_events=True)
    monkeypatch.setattr(specs, "VERBOSE_KNOWN_MAX", 1)
    cache = SpecCache()
    async with database.transaction() as tx:
        await cache.load(tx, [known])
        for _ in range(2):  # the second time most of it is forgotten again
            assert await cache.list_verbose(tx, {quiet, known, verbose, 999}) == {verbose}
    assert cache.find(known) is not None
    assert (cache.find(quiet), cache.find(verbose)) == (None, None)


async def test_who_is_verbose_is_kept_while_it_is_asked_for(
    database: Database, lasting: Raw, monkeypatch: pytest.MonkeyPatch
) -> None:
    hot = await insert_job(lasting, "hot", verbose_events=True)
    others = [await insert_job(lasting, f"n{number}") for number in range(2)]
    monkeypatch.setattr(specs, "VERBOSE_KNOWN_MAX", 2)
    cache = SpecCache()
    async with database.transaction() as tx:
        for job_id in others:
            await cache.list_verbose(tx, {hot})
            await cache.list_verbose(tx, {job_id})
    await lasting.run("delete from holdfast.jobs")
    async with database.transaction() as tx:
        assert await cache.list_verbose(tx, {hot}) == {hot}

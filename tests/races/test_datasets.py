"""Outputs under races: committed exactly once or not at all, and readers never see a mix."""

import asyncio
from collections import Counter
from collections.abc import AsyncIterator
from functools import partial

import pytest

from holdfast.errors import LeaseConflict
from holdfast.ledger.ledger import Ledger
from holdfast.model.work.ids import TaskId
from holdfast.model.work.states import TaskState
from holdfast.operations.claiming.claim import Claim
from holdfast.operations.ending import reap as reaping
from holdfast.operations.ending.complete import Completed, Completion, complete
from holdfast.operations.ending.reap import reap
from holdfast.services.runtime import Runtime
from holdfast.services.waking.doorbell import Doorbells
from holdfast.services.waking.wake_ups import WakeUps
from holdfast.store.database import Database
from tests.api.face import Face
from tests.audits import assert_audit_is_silent
from tests.datasets import Library, an_entry
from tests.waiting import insist
from tests.world import World, fence_of

WAVE = 10
ROUNDS = [200, pytest.param(1000, marks=pytest.mark.nightly)]


@pytest.fixture
async def library(world: World) -> Library:
    """One dataset with one open version."""
    library = Library(world)
    await library.create()
    return library


@pytest.fixture
async def other(database_url: str) -> AsyncIterator[Ledger]:
    """The same ledger, over connections of its own."""
    async with Database(database_url) as database:
        yield Ledger(database)


async def tell(ledger: Ledger, claim: Claim, uri: str) -> Completed | LeaseConflict:
    """Report success with one entry, and again while somebody else has the row."""
    key = str(claim.task_id)
    item = Completion(fence_of(claim), "succeeded", outputs=(an_entry(key, uri),))
    [answer] = await insist(partial(complete, ledger, [item]))
    assert isinstance(answer, Completed | LeaseConflict), answer
    return answer


@pytest.mark.parametrize("rounds", ROUNDS)
async def test_two_completions_of_one_attempt_commit_once(
    world: World, library: Library, other: Ledger, rounds: int
) -> None:
    await library.submit(inputs=list(range(rounds)))
    claims = [claim for _ in range(rounds // 100) for claim in await world.claim(100)]
    assert len(claims) == rounds
    winners: Counter[str] = Counter()
    for claim in claims:
        answers = await asyncio.gather(
            tell(world.ledger, claim, "first"), tell(other, claim, "second")
        )
        assert set(answers) == {Completed(claim.task_id, accepted=True)}
    for uri in (await library.read()).values():
        winners[uri] += 1
    assert winners.total() == rounds
    assert min(winners["first"], winners["second"]) > 0, winners
    await assert_audit_is_silent(world.ledger.database)


@pytest.mark.parametrize("rounds", ROUNDS)
async def test_a_completion_that_meets_the_end_of_its_lease_commits_in_step(
    world: World,
    library: Library,
    other: Ledger,
    rounds: int,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    # Both go through the same leases in the same order, so that they meet at each of them.
    monkeypatch.setattr(reaping, "BATCH_MAX", 1)
    await library.submit(inputs=list(range(rounds)), max_retries_preemption=0)
    seen: Counter[TaskState] = Counter()
    for _ in range(rounds // WAVE):
        claims = sorted(await world.claim(WAVE), key=task_id_of)
        await world.clock.fetch("update holdfast.leases set expires_at = holdfast.now()")
        answers, _ = await asyncio.gather(tell_all(world.ledger, claims), reap_all(other))
        entries = await library.read()
        for claim, answer in zip(claims, answers, strict=True):
            state = (await world.task(claim.task_id)).state
            is_in = str(claim.task_id) in entries
            assert is_in == (state == TaskState.SUCCEEDED) == isinstance(answer, Completed)
            seen[state] += 1
    assert len(await library.read()) == seen[TaskState.SUCCEEDED] > 0
    assert seen.total() - seen[TaskState.SUCCEEDED] > 0, seen
    await assert_audit_is_silent(world.ledger.database)


async def tell_all(ledger: Ledger, claims: list[Claim]) -> list[Completed | LeaseConflict]:
    """Report one success after another."""
    return [await tell(ledger, claim, "late") for claim in claims]


def task_id_of(claim: Claim) -> TaskId:
    """Name the task of a claim."""
    return claim.task_id


async def reap_all(ledger: Ledger) -> None:
    """End every lease that has run out, a few at a time."""
    while await insist(partial(reap, ledger)):
        continue


@pytest.mark.parametrize("switches", [100, pytest.param(500, marks=pytest.mark.nightly)])
async def test_readers_never_see_a_mix_across_cut_overs(
    world: World, library: Library, switches: int
) -> None:
    versions, per_version = 5, 5
    await library.create("events", versions - 1)
    for version in range(1, versions + 1):
        entries = [an_entry(f"p{n}", f"v{version}") for n in range(per_version)]
        await library.write(*entries, version=version)
    await library.cut_over(1)
    face = Face(Runtime(world.ledger, world.ledger.database, WakeUps(Doorbells())))
    is_over = False

    async def read() -> Counter[int]:
        """Read all of what is current, page by page; it must be whole, and of one version."""
        seen: Counter[int] = Counter()
        while not is_over:
            uris, token = [], ""
            while True:
                said = await face.get(
                    f"/api/datasets/events/versions/current/entries?page_size=2{token}"
                )
                assert said.status == 200, said
                uris += [entry["uri"] for entry in said.json["entries"]]
                if said.json["next_page_token"] is None:
                    break
                token = f"&page_token={said.json['next_page_token']}"
            assert uris == [f"v{said.json['version']}"] * per_version
            seen[said.json["version"]] += 1
        return seen

    readers = [asyncio.create_task(read()) for _ in range(3)]
    for number in range(1, switches):
        made = await library.cut_over(number % versions + 1)
        assert made.changed
    is_over = True
    seen = sum((reader for reader in await asyncio.gather(*readers)), Counter[int]())
    assert len(seen) == versions, "the readers were not there while it changed"
    assert await world.count("cut_overs") == switches
    await assert_audit_is_silent(world.ledger.database)


async def test_a_cut_over_and_the_commits_it_overtakes_agree(
    world: World, library: Library, other: Ledger
) -> None:
    """What a forced cut-over has sealed is what was committed before it, to the entry."""
    for version in range(1, 11):
        await library.submit(inputs=list(range(WAVE)), version=version)
        claims = await world.claim(WAVE)
        cut = partial(Library(World(other, world.clock)).cut_over, version, force=True)
        cutting = asyncio.create_task(insist(cut))
        answers = await asyncio.gather(*(commit(world.ledger, claim) for claim in claims))
        await cutting
        [sealed] = await world.clock.fetch(
            "select entries from holdfast.dataset_versions where version = $1", version
        )
        assert sealed[0] == len(await library.read(version)) == sum(answers)
        await library.open()
    await world.run_chores()
    await assert_audit_is_silent(world.ledger.database)


async def commit(ledger: Ledger, claim: Claim) -> bool:
    """Report success with an entry, and failure if that is refused; says which it was."""
    entry = an_entry(str(claim.task_id))
    item = Completion(fence_of(claim), "succeeded", outputs=(entry,))
    [answer] = await insist(partial(complete, ledger, [item]))
    if isinstance(answer, Completed):
        return True
    item = Completion(fence_of(claim), "failed", error_class="PermanentError", stage="commit")
    [answer] = await insist(partial(complete, ledger, [item]))
    assert isinstance(answer, Completed), answer
    return False


async def test_of_two_tasks_that_write_one_key_at_once_one_is_refused(
    world: World, library: Library, other: Ledger
) -> None:
    await library.submit(inputs=list(range(60)))
    claims = await world.claim(60)
    for number, pair in enumerate(zip(claims[::2], claims[1::2], strict=True)):
        items = [
            Completion(
                fence_of(claim), "succeeded", outputs=(an_entry(str(number), f"{claim.task_id}"),)
            )
            for claim in pair
        ]
        answers = await asyncio.gather(
            insist(partial(complete, world.ledger, items[:1])),
            insist(partial(complete, other, items[1:])),
        )
        winners = [a for [a] in answers if isinstance(a, Completed)]
        assert len(winners) == 1
        assert (await library.read())[str(number)] == str(winners[0].task_id)
    await assert_audit_is_silent(world.ledger.database)


async def test_two_that_replace_one_partition_at_once_leave_no_mix(
    world: World, library: Library, other: Ledger
) -> None:
    await library.submit("replace", inputs=list(range(40)))
    claims = await world.claim(40)
    for pair in zip(claims[::2], claims[1::2], strict=True):
        items = [
            Completion(
                fence_of(claim),
                "succeeded",
                outputs=tuple(an_entry("p", str(claim.task_id), key=f"{who}{n}") for n in range(3)),
            )
            for who, claim in zip("ab", pair, strict=True)
        ]
        await asyncio.gather(
            insist(partial(complete, world.ledger, items[:1])),
            insist(partial(complete, other, items[1:])),
        )
        found = await library.read()
        assert (len(found), len(set(found.values()))) == (3, 1), found
    await assert_audit_is_silent(world.ledger.database)

"""Whatever is submitted, claimed, ended and changed: no limit is exceeded, and nobody forgotten."""

import asyncio
from typing import Any, Literal

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as some

from holdfast.embedded import EmbeddedPostgres
from holdfast.ledger.ledger import Ledger
from holdfast.model.limits.usage_limits import UsageLimit
from holdfast.operations.claiming.claim import Claim
from holdfast.operations.usage_limits.delete import delete_limit
from holdfast.operations.usage_limits.put import put_limit
from holdfast.operations.usage_limits.tend import Buckets, Gates
from holdfast.store.database import Database
from tests.audits import assert_audit_is_silent
from tests.clock import Clock
from tests.databases import give_back_database, take_database
from tests.store.limit_model import LimitModel, ModelLimit, ModelTask
from tests.world import World

NAMES = some.sampled_from(["a", "b"])
TASKS = some.tuples(NAMES, NAMES, NAMES, some.sampled_from([1, 1, 1, 2, 3]))
Scope = Literal["queue", "type", "owner", "key"]
SCOPES: tuple[Scope, ...] = ("queue", "type", "owner", "key")
STEPS = some.one_of(
    some.tuples(some.just("submit"), some.lists(TASKS, min_size=1, max_size=4)),
    some.tuples(some.just("claim"), some.integers(1, 5)),
    some.tuples(some.just("end"), some.tuples(some.integers(0, 9), some.booleans())),
    some.tuples(
        some.just("put"),
        some.tuples(some.sampled_from(SCOPES), some.integers(0, 4), some.none() | NAMES),
    ),
    some.tuples(some.just("delete"), some.sampled_from(SCOPES)),
    some.tuples(some.just("tend"), some.none()),
)


class Play:
    """A ledger and its model, which take the same steps."""

    def __init__(self, world: World) -> None:
        self.world = world
        self.model = LimitModel()
        self.claims: dict[int, Claim] = {}
        self.numbers: dict[int, int] = {}

    async def take(self, kind: str, what: Any) -> None:
        """Take a step on both sides."""
        await getattr(self, kind)(what)

    async def submit(self, tasks: list[tuple[str, str, str, int]]) -> None:
        for type_name, owner, key, slots in tasks:
            number = len(self.numbers)
            job_id = await self.world.submit(
                type=type_name, owner=owner, concurrency_key=key, slots=slots, on_exhausted="fail"
            )
            self.numbers[job_id] = number
            self.model.waiting.append(ModelTask(number, type_name, owner, key, slots))

    async def claim(self, count: int) -> int:
        claims = await self.world.claim(count)
        for claim in claims:
            number = self.numbers[claim.task_id.job_id]
            self.claims[number] = claim
            self.model.start(number)
        return len(claims)

    async def end(self, what: tuple[int, bool]) -> None:
        pick, is_good = what
        if not self.claims:
            return
        number = sorted(self.claims)[pick % len(self.claims)]
        claim = self.claims.pop(number)
        await (self.world.succeed(claim) if is_good else self.world.fail(claim))
        self.model.end(number)

    async def put(self, what: tuple[Scope, int, str | None]) -> None:
        scope, most, only_for = what
        only_for = "q" if scope == "queue" and only_for else only_for
        limit = UsageLimit(scope=scope, kind="concurrency", most=most, only_for=only_for)
        await put_limit(self.world.ledger, scope, limit, actor="ann")
        self.model.limits[scope] = ModelLimit(scope, most, only_for)

    async def delete(self, scope: str) -> None:
        await delete_limit(self.world.ledger, scope, actor="ann")
        self.model.limits.pop(scope, None)

    async def tend(self, _: None) -> None:
        await Gates(self.world.ledger).look()
        await Buckets(self.world.ledger).clear()

    async def finish(self) -> None:
        """Let everybody look until nothing more starts: then nobody may have been forgotten.

        A round of the chore starts somebody, as long as anybody could start: whoever stands behind
        a limit that has room and cannot start is let go, as is the first who can.
        """
        while await self.claim(5):
            pass
        has_started = True
        while has_started:
            has_started = False
            await self.tend(None)
            while await self.claim(5):
                has_started = True
        assert self.model.forgotten() == []
        await assert_audit_is_silent(self.world.ledger.database)


STORIES = some.lists(STEPS, min_size=5, max_size=30)


async def play(postgres: EmbeddedPostgres, steps: list[tuple[str, Any]]) -> None:
    """Take all steps on a database of their own."""
    name = await take_database(postgres)
    url = postgres.url(name)
    async with Database(url) as database, Clock(url) as clock:
        playing = Play(World(Ledger(database), clock))
        await playing.world.watch()
        for kind, what in steps:
            await playing.take(kind, what)
        await playing.finish()
    await give_back_database(postgres, name)


@settings(max_examples=15, deadline=None, suppress_health_check=list(HealthCheck))
@given(steps=STORIES)
def test_no_limit_is_exceeded_and_nobody_forgotten(
    postgres: EmbeddedPostgres, steps: list[tuple[str, Any]]
) -> None:
    asyncio.run(play(postgres, steps))


@pytest.mark.nightly
@settings(max_examples=400, deadline=None, suppress_health_check=list(HealthCheck))
@given(steps=STORIES)
def test_no_limit_is_exceeded_in_many_stories(
    postgres: EmbeddedPostgres, steps: list[tuple[str, Any]]
) -> None:
    asyncio.run(play(postgres, steps))

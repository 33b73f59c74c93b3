"""One running server without its HTTP face: the ledger, its writers, who waits, what is due."""

import asyncio
import logging
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from contextlib import AsyncExitStack, asynccontextmanager, suppress
from dataclasses import dataclass, field
from functools import partial

from asyncpg import PostgresError

from holdfast.errors import Invalid, Unavailable
from holdfast.ledger.ledger import Ledger
from holdfast.ledger.news import News
from holdfast.ledger.quotas import LOOK_SECONDS
from holdfast.model.limits.server_limits import ServerLimits
from holdfast.model.submitting.spec import Limits
from holdfast.operations.datasets.triggers import start_triggered
from holdfast.operations.follow_up import follow_up
from holdfast.operations.upkeep.prune import Retention
from holdfast.services.callers import NOTE_SECONDS, READ_SECONDS, Callers
from holdfast.services.changes import Changes
from holdfast.services.chore_list import list_chores
from holdfast.services.chores import Chore, run_in_background
from holdfast.services.identity import keys as identity_keys
from holdfast.services.identity.claims import OidcSettings
from holdfast.services.identity.provider import IdentityProvider
from holdfast.services.leading.heartbeat_loop import TICK_SECONDS
from holdfast.services.leading.leader import CANDIDATE_SECONDS, Leader
from holdfast.services.leading.reach import LOOPBACK_ONLY, Reach
from holdfast.services.leading.worker_calls import CALL_SECONDS_MAX
from holdfast.services.measuring.gauges import Gauges
from holdfast.services.measuring.horizon import LOOK_SECONDS as HORIZON_SECONDS
from holdfast.services.measuring.horizon import HorizonWatchdog
from holdfast.services.measuring.metrics import Metrics
from holdfast.services.measuring.overview import Overviews
from holdfast.services.measuring.samples import EVERY_SECONDS, Samples
from holdfast.services.objects import ObjectStore
from holdfast.services.presence import NOTE_SECONDS as PRESENCE_SECONDS
from holdfast.services.presence import Presence
from holdfast.services.reasons import Reasons
from holdfast.services.replica import LOOK_SECONDS as REPLICA_SECONDS
from holdfast.services.replica import Replica
from holdfast.services.stops import Stops
from holdfast.services.streams import Streams
from holdfast.services.waking.doorbell import Bell, Doorbells
from holdfast.services.waking.notify import NotifyTransport, listening
from holdfast.services.waking.republish import Republisher
from holdfast.services.waking.wake_ups import TASKS_PER_HINT_MAX, WakeUps, WakeUpTransport
from holdfast.services.worker_credentials import READ_SECONDS as CREDENTIALS_SECONDS
from holdfast.services.worker_credentials import WorkerCredentials
from holdfast.services.writers import Writers
from holdfast.store.database import Database, database_outage

log = logging.getLogger("holdfast.runtime")
WRITE_CONNECTIONS = 8
READ_CONNECTIONS = 4
# Anybody can make up a lease: to look for it leaves connections to those who are known.
LEASE_LOOKS_MAX = READ_CONNECTIONS // 2
FOLLOW_CONNECTIONS = 2
GAUGES_SECONDS_MAX = 5.0
WORKER_MARK = "!"  # no queue's name begins with it
# Far less than a statement is waited for. What a stop leaves undone, other servers do.
STOP_SECONDS_MAX = 15.0


@dataclass(frozen=True, slots=True)
class Options:
    """How a server differs from the next one."""

    database_url: str
    limits: Limits = field(default_factory=Limits)
    retention: Retention = field(default_factory=Retention)
    transports: Sequence[WakeUpTransport] = ()
    uses_notify: bool = True
    # Where to listen, if database_url leads to a pooler.
    listen_database_url: str | None = None
    # A standby that answers lists, logs and searches.
    read_database_url: str | None = None
    # A folder, file:///folder or s3://bucket/prefix; without one no bundles are taken in.
    object_store: str | None = None
    heartbeat_seconds: float = TICK_SECONDS
    call_timeout_seconds: float = CALL_SECONDS_MAX
    reach: Reach = LOOPBACK_ONLY
    requires_tokens: bool = False
    # Whom it knows is known here, too; tokens are asked for then.
    oidc: OidcSettings | None = None
    server_limits: ServerLimits = field(default_factory=ServerLimits)


class Runtime:
    """What the routes of a server work with."""

    def __init__(
        self,
        ledger: Ledger,
        reads: Database,
        wake_ups: WakeUps,
        *,
        follows: Database | None = None,
        probes: Database | None = None,
        read_database_url: str | None = None,
        objects: ObjectStore | None = None,
        callers: Callers | None = None,
        tick: float = TICK_SECONDS,
        call_seconds_max: float = CALL_SECONDS_MAX,
        reach: Reach = LOOPBACK_ONLY,
        server_limits: ServerLimits | None = None,
        is_heard: bool = True,
    ) -> None:
        self.ledger = ledger
        self.reads = reads
        self.lease_looks = asyncio.Semaphore(LEASE_LOOKS_MAX)
        # However many look again and again: whoever asks once, or for readiness, does not wait.
        self.follows = follows or reads
        self.probes = probes or reads
        self.wake_ups = wake_ups
        self.doorbells = wake_ups.doorbells
        self.objects = objects
        self.reach = reach
        # None where nobody is asked who he is.
        self.callers = callers
        self.credentials = WorkerCredentials(reads, are_required=callers is not None)
        self.writers = Writers(ledger)
        self.metrics = Metrics(ledger)
        self.streams = Streams(server_limits or ServerLimits(), self.metrics.count_refusal)
        ledger.quotas.keep_to(server_limits or ServerLimits(), self.metrics.count_refusal)
        self._watch_limits()
        self._gauges = Gauges(reads)
        self.metrics.registry.register(self._gauges)
        self._horizon = HorizonWatchdog(
            reads, self.metrics.registry, on_held=ledger.positions.note_held
        )
        self.replica = Replica(reads, read_database_url, self.metrics.registry)
        self.samples = Samples(ledger, self.metrics)
        self.stops = Stops(ledger, self.doorbells)
        self.reasons = Reasons(ledger, reads)
        self.overviews = Overviews(reads, self.reasons.list_impossible)
        self.changes = Changes(reads)
        self.leader = Leader(
            ledger,
            self.writers,
            self.doorbells,
            tick=tick,
            call_seconds_max=call_seconds_max,
            on_heartbeat=self.metrics.count_beat,
            reach=reach,
        )
        self.presence = Presence(ledger.database, objects, is_heard=is_heard)
        self.is_stopping = False
        self._follow_up_wanted = asyncio.Event()
        ledger.on_commit = self.hear
        ledger.lending = self.doorbells

    def _watch_limits(self) -> None:
        quotas = self.ledger.quotas
        for name, text, count in (
            ("streams", "Open streams of events.", self.streams.count),
            ("owner_live_tasks", "Live tasks of the owner with the most.", quotas.largest),
            ("owner_stored_bytes", "Bytes of the owner with the most.", quotas.stored.largest),
        ):
            self.metrics.watch(name, text, count)

    def hint(self, worker_id: str) -> None:
        """Pass on that a called worker has something to tell, to whichever server leads."""
        if self.leader.is_leading:
            self.leader.hint([worker_id])
        else:
            self.wake_ups.announce(f"{WORKER_MARK}{worker_id}", [])

    def hear_elsewhere(self, name: str) -> None:
        """Take what another server has said: of a queue, or of a worker with news."""
        if name.startswith(WORKER_MARK):
            self.leader.hint([name.removeprefix(WORKER_MARK)])
        else:
            self.wake_ups.hear(name)

    def hear(self, news: News) -> None:
        """Pass on what a transaction has brought about; what is least likely to fail goes first."""
        self.metrics.count(news)
        self.samples.count(news)
        if news.has_follow_ups:
            self._follow_up_wanted.set()
        for ended_id in news.ended_jobs:
            self.doorbells.ring(Bell("job", str(ended_id)), worth=1_000_000)
        for job in news.stored_jobs:
            if job.ready and job.spec is not None:
                named = job.name_ready(TASKS_PER_HINT_MAX)
                self.wake_ups.announce(job.spec.terms.queue or "", named, job.ready)
        for queue, task_ids in news.ready.items():
            self.wake_ups.announce(queue, task_ids)
        for queue, count in news.roomy_queues.items():
            self.wake_ups.announce(queue, [], count)
        if news.num_gated:
            self.wake_ups.openings.gated.set()
        for queue, seconds in news.openings:
            self.wake_ups.openings.note(queue, seconds)

    async def scrape(self) -> bytes:
        """Write down every metric; what was counted is told even while Postgres is away."""
        try:
            async with asyncio.timeout(GAUGES_SECONDS_MAX):
                await self._gauges.refresh()
        except (Unavailable, TimeoutError) as error:
            log.warning("the gauges are as old as the last time they could be read: %s", error)
        return self.metrics.render()

    async def stop(self) -> None:
        """Hand nothing out any more, and answer everybody who waits."""
        self.is_stopping = True
        self.doorbells.close()

    async def _start_triggered(self) -> int:
        return await start_triggered(self.ledger, self.writers.submit)

    def _replica_chores(self) -> list[Chore]:
        if self.replica.state is None:
            return []
        return [Chore("look at the read replica", REPLICA_SECONDS, self.replica.look)]

    def _callers_chores(self) -> list[Chore]:
        if self.callers is None:
            return []
        provider = self.callers.provider
        seconds = identity_keys.READ_SECONDS
        return [
            Chore("read tokens", READ_SECONDS, self.callers.read),
            Chore("note which tokens are used", NOTE_SECONDS, self.callers.note_used),
            *([] if provider is None else [Chore("read keys", seconds, provider.keys.read)]),
        ]

    def chores(self, options: Options) -> list[Chore]:
        """List what is to be done in the background."""
        return [
            Chore("lead", CANDIDATE_SECONDS, self.leader.stand),
            Chore("note that it runs", PRESENCE_SECONDS, self.presence.note),
            Chore("follow up", 0.25, partial(follow_up, self.ledger), wake=self._follow_up_wanted),
            Chore("start what cut-overs ask for", 1.0, self._start_triggered),
            Chore("write samples", EVERY_SECONDS, self.samples.write),
            Chore("count live tasks of owners", LOOK_SECONDS, self.ledger.quotas.look),
            Chore("watch the vacuum horizon", HORIZON_SECONDS, self._horizon.look),
            *self._replica_chores(),
            *list_chores(
                self.ledger,
                self.doorbells,
                self.stops,
                reasons=self.reasons,
                gated=self.wake_ups.openings.gated,
                retention=options.retention,
            ),
            *self._callers_chores(),
            Chore("read workers' credentials", CREDENTIALS_SECONDS, self.credentials.read),
            *(
                Chore("publish again", 5.0, Republisher(self.ledger, transport).run)
                for transport in options.transports
            ),
        ]


async def _open_callers(stack: AsyncExitStack, reads: Database, options: Options) -> Callers | None:
    if not options.requires_tokens:
        return None
    provider = None if options.oidc is None else IdentityProvider(options.oidc)
    if provider is not None:
        stack.push_async_callback(provider.close)
    callers = Callers(reads, provider)
    await callers.read()
    stack.push_async_callback(_unless_away, callers.note_used)
    return callers


async def _open_listened(stack: AsyncExitStack, writes: Database, options: Options) -> Database:
    """Choose the database to listen at; raises Invalid if it is named and behind a pooler."""
    url = options.listen_database_url
    if url is None:
        return writes
    named = await stack.enter_async_context(
        Database(url, connections_max=1, program="holdfast server")
    )
    if named.is_pooled:
        raise Invalid("listen_database_url", "leads to a pooler; name Postgres itself")
    return named


async def _unless_away(note: Callable[[], Awaitable[object]]) -> None:
    """Note something at the end of a server, for people alone: nothing is lost without it."""
    with suppress(Unavailable, PostgresError):
        await note()


def _break_off(databases: Sequence[Database], replica: Replica) -> None:
    """Let nothing wait any longer for what does not answer; the log tells what was not done."""
    log.error("this server could not stop within %.0f s: it gives Postgres up", STOP_SECONDS_MAX)
    for database in databases:
        database.break_off()
    replica.break_off()


@asynccontextmanager
async def open_runtime(options: Options) -> AsyncIterator[Runtime]:
    """Connect, run the chores, and listen for wake-ups, for the time of a block."""
    async with AsyncExitStack() as last, AsyncExitStack() as stack:
        url = options.database_url
        outage = database_outage(url)
        writes, reads, follows, probes = databases = [
            await stack.enter_async_context(
                Database(url, connections_max=count, program="holdfast server", outage=outage)
            )
            for count in (WRITE_CONNECTIONS, READ_CONNECTIONS, FOLLOW_CONNECTIONS, 1)
        ]
        notify = [NotifyTransport(writes)] if options.uses_notify else []
        wake_ups = WakeUps(Doorbells(), [*notify, *options.transports])
        store = options.object_store
        runtime = Runtime(
            Ledger(writes, options.limits),
            reads,
            wake_ups,
            follows=follows,
            probes=probes,
            read_database_url=options.read_database_url,
            objects=None if store is None else ObjectStore(store),
            callers=await _open_callers(stack, reads, options),
            tick=options.heartbeat_seconds,
            call_seconds_max=options.call_timeout_seconds,
            reach=options.reach,
            server_limits=options.server_limits,
            is_heard=not (options.uses_notify and writes.is_pooled)
            or options.listen_database_url is not None,
        )
        # After the chores have ended: they announce what they have made ready, and are counted.
        stack.push_async_callback(wake_ups.close)
        if options.uses_notify:
            heard = await _open_listened(stack, writes, options)
            await stack.enter_async_context(listening(heard, runtime.hear_elsewhere))
        stack.push_async_callback(runtime.replica.close)
        stack.push_async_callback(runtime.samples.close)
        stack.push_async_callback(runtime.leader.close)
        chores = runtime.chores(options)
        runtime.presence.watch(chores)
        stack.push_async_callback(_unless_away, runtime.presence.leave)
        await stack.enter_async_context(run_in_background(chores))
        try:
            yield runtime
        finally:
            await runtime.stop()
            call_later = asyncio.get_running_loop().call_later
            timer = call_later(STOP_SECONDS_MAX, _break_off, databases, runtime.replica)
            last.callback(timer.cancel)
            await runtime.writers.stop()

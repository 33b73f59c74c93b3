"""A small world and what befalls it: drawn from a seed, and made smaller while it still fails."""

from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from random import Random
from typing import Any, Literal, TypeVar

Kind = Literal[
    "cut", "requests lost", "answers lost", "slow", "said twice", "worker dies", "worker freezes",
    "host dies", "leader changes", "server away",
]  # fmt: skip
KINDS: tuple[Kind, ...] = (
    "cut", "requests lost", "answers lost", "slow", "said twice", "worker dies", "worker freezes",
    "host dies", "leader changes", "server away",
)  # fmt: skip
T = TypeVar("T")
# While things break, and until when everything has to have ended.
FAULTS_UNTIL = 50.0
ENDED_BY = 3000.0


@dataclass(frozen=True)
class JobPlan:
    """A job that somebody submits, and what its tasks do."""

    at: float = 0.0
    tasks: int = 1
    is_gang: bool = False
    cpu: int = 1
    seconds: float = 5.0
    lease: float = 20.0
    retries: int = 0
    # Of each task, the first attempts fail.
    failures: int = 0
    timeout: float | None = None
    ignores_requests: bool = False
    cancel: tuple[Literal["soft", "hard"], float] | None = None

    def __str__(self) -> str:
        what = f"a gang of {self.tasks}" if self.is_gang else f"{self.tasks} task(s)"
        text = f"{what}, {self.cpu} cpu and {self.seconds:g} s each, lease {self.lease:g} s"
        if self.failures or self.retries:
            text += f", {self.failures} failures, {self.retries} retries"
        if self.timeout is not None:
            text += f", timeout {self.timeout:g} s"
        if self.ignores_requests:
            text += ", ignores SIGTERM"
        return text + (f", cancelled {self.cancel[0]} at {self.cancel[1]:g}" if self.cancel else "")


@dataclass(frozen=True)
class Fault:
    """Something breaks, for a while; of a host, unless it is the server's."""

    kind: Kind
    at: float
    seconds: float
    host: int = 0

    def __str__(self) -> str:
        where = "" if self.kind in ("leader changes", "server away") else f" at host-{self.host}"
        return f"{self.kind}{where} for {self.seconds:g} s"


@dataclass(frozen=True)
class Scenario:
    """Hosts of so many cores each, jobs, faults, and how many tasks may run at once, if limited."""

    hosts: int = 2
    cpu: int = 2
    limit: int | None = None
    jobs: tuple[JobPlan, ...] = ()
    faults: tuple[Fault, ...] = ()

    def __str__(self) -> str:
        limit = "" if self.limit is None else f", {self.limit} at once"
        lines = [f"{self.hosts} host(s) of {self.cpu} cores{limit}"]
        lines += [f"{job.at:7.2f}  submitted: {job}" for job in self.jobs]
        lines += [f"{fault.at:7.2f}  {fault}" for fault in self.faults]
        return "\n".join(lines)


def draw(seed: int) -> Scenario:
    """Draw a world from a seed."""
    random = Random(seed)
    hosts = random.randint(1, 3)
    jobs = tuple(_draw_job(random, hosts) for _ in range(random.randint(1, 4)))
    faults = tuple(
        Fault(
            random.choice(KINDS),
            round(random.uniform(0.0, FAULTS_UNTIL), 1),
            round(random.choice((0.5, 3.0, 8.0, 30.0, 30.0)) * random.uniform(0.5, 1.5), 1),
            random.randrange(hosts),
        )
        for _ in range(random.randint(0, 5))
    )
    limit = random.choice((None, None, 1, 2))
    if limit is not None and any(job.is_gang and job.tasks > limit for job in jobs):
        limit = None  # it would wait for ever
    return Scenario(hosts, 2, limit, jobs, tuple(sorted(faults, key=lambda fault: fault.at)))


def _draw_job(random: Random, hosts: int) -> JobPlan:
    is_gang = random.random() < 0.4
    ends: tuple[Literal["soft", "hard"], ...] = ("soft", "hard")
    return JobPlan(
        at=round(random.uniform(0.0, 20.0), 1),
        tasks=random.randint(2, 2 * hosts) if is_gang else random.randint(1, 4),
        is_gang=is_gang,
        cpu=1 if is_gang else random.choice((1, 1, 2)),
        seconds=round(random.choice((0.5, 4.0, 20.0, 60.0)) * random.uniform(0.5, 1.5), 1),
        lease=random.choice((12.0, 20.0, 45.0, 90.0)),
        retries=random.choice((0, 1, 3)),
        failures=random.choice((0, 0, 0, 1, 5)),
        timeout=random.choice((None, None, None, 6.0)),
        ignores_requests=random.random() < 0.2,
        cancel=(random.choice(ends), round(random.uniform(1.0, 50.0), 1))
        if random.random() < 0.15
        else None,
    )


def shrink(scenario: Scenario, fails: Callable[[Scenario], bool]) -> Scenario:
    """Leave out and round off what the failure does not need."""
    found = True
    while found:
        found = False
        for smaller in _smaller(scenario):
            if fails(smaller):
                scenario, found = smaller, True
                break
    return scenario


def _smaller(scenario: Scenario) -> Iterator[Scenario]:
    for index in range(len(scenario.faults)):
        yield replace(scenario, faults=_without(scenario.faults, index))
    for index in range(len(scenario.jobs)):
        yield replace(scenario, jobs=_without(scenario.jobs, index))
    if scenario.limit is not None:
        yield replace(scenario, limit=None)
    if scenario.hosts > 1:
        hosts = scenario.hosts - 1
        moved = [replace(fault, host=min(fault.host, hosts - 1)) for fault in scenario.faults]
        yield replace(scenario, hosts=hosts, faults=tuple(moved))
        # All on one host: less of the work comes to it, so less of it may do as well.
        jobs = tuple(replace(job, tasks=min(job.tasks, 2)) for job in scenario.jobs)
        moved = [replace(fault, host=0) for fault in scenario.faults]
        yield replace(scenario, hosts=1, jobs=jobs, faults=tuple(moved))
    for index, job in enumerate(scenario.jobs):
        for simpler in _simpler_job(job):
            jobs = (*scenario.jobs[:index], simpler, *scenario.jobs[index + 1 :])
            yield replace(scenario, jobs=jobs)
    for index, fault in enumerate(scenario.faults):
        for at, seconds in ((float(int(fault.at)), fault.seconds), (fault.at, _halved(fault))):
            if (at, seconds) != (fault.at, fault.seconds):
                changed = replace(fault, at=at, seconds=seconds)
                faults = (*scenario.faults[:index], changed, *scenario.faults[index + 1 :])
                yield replace(scenario, faults=faults)


def _simpler_job(job: JobPlan) -> Iterator[JobPlan]:
    plain = JobPlan()
    least = 2 if job.is_gang else 1
    if job.tasks > least:
        yield replace(job, tasks=least)
        yield replace(job, tasks=job.tasks - 1)
    for field in ("is_gang", "timeout", "ignores_requests", "cancel", "cpu", "failures", "retries"):
        value = getattr(plain, field)
        if getattr(job, field) != value:
            yield replace(job, **{field: value})
    for field in ("at", "seconds"):
        number = getattr(job, field)
        if number != int(number):
            changes: dict[str, Any] = {field: float(int(number) + (field == "seconds"))}
            yield replace(job, **changes)
    if job.at > 0.0:
        yield replace(job, at=0.0)


def _halved(fault: Fault) -> float:
    return fault.seconds if fault.seconds <= 1.0 else float(int(fault.seconds / 2 + 0.5))


def _without(items: tuple[T, ...], index: int) -> tuple[T, ...]:
    return (*items[:index], *items[index + 1 :])

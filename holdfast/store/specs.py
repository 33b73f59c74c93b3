"""Job specs as workers and rules need them; immutable, so a process keeps the recent ones."""

from collections import OrderedDict
from collections.abc import Iterable
from typing import NamedTuple

from holdfast.model.shapes import read_tolerantly
from holdfast.model.submitting.spec import JobSpec, TaskTerms
from holdfast.rules.submitting.submission import terms_of
from holdfast.store.database import Transaction
from holdfast.store.tables.work.jobs import load_specs, read_verbosity

VERBOSE_KNOWN_MAX = 100_000


class StoredSpec(NamedTuple):
    """A job's spec and the names that travel with its tasks."""

    spec: JobSpec
    terms: TaskTerms
    name: str
    num_tasks: int
    correlation_id: str
    trace_id: str | None
    # The messages that are made of it, by their kind: each is made once.
    encoded: dict[str, bytes]
    # Of a compensation: the job that it undoes.
    compensates_job_id: int | None = None
    # The span that submitted it, if one did.
    trace_parent: str | None = None


class SpecCache:
    """The specs of the jobs that this process used last."""

    def __init__(self, jobs_max: int = 4096) -> None:
        self._jobs_max = jobs_max
        self._specs: OrderedDict[int, StoredSpec] = OrderedDict()
        # One bit of each spec, of more jobs than have their specs at hand: every renewal asks.
        self._is_verbose: OrderedDict[int, bool] = OrderedDict()

    async def load(self, tx: Transaction, job_ids: Iterable[int]) -> dict[int, StoredSpec]:
        """Return the specs of these jobs, reading those that are not at hand."""
        wanted = set(job_ids)
        missing = sorted(wanted - self._specs.keys())
        found = {job_id: self._use(job_id) for job_id in wanted & self._specs.keys()}
        if missing:
            for row in await load_specs(tx, missing):
                spec = read_tolerantly(row.spec, JobSpec)
                found[row.job_id] = StoredSpec(
                    spec,
                    terms_of(spec, is_compensation=row.compensates_job_id is not None),
                    row.name,
                    row.num_tasks,
                    row.correlation_id,
                    row.trace_id,
                    {},
                    row.compensates_job_id,
                    row.trace_parent,
                )
            self._keep({job_id: found[job_id] for job_id in missing if job_id in found})
        return found

    def remember(self, job_id: int, stored: StoredSpec) -> None:
        """Keep a spec that has just been stored."""
        self._keep({job_id: stored})

    def find(self, job_id: int) -> StoredSpec | None:
        """Return a spec if it is at hand."""
        return self._use(job_id) if job_id in self._specs else None

    def describe(self, job_id: int) -> dict[str, object]:
        """Give the fields of a log line about a job, as `extra`, as far as they are at hand."""
        stored = self._specs.get(job_id)
        named: dict[str, object] = {"job_id": str(job_id)}
        if stored is not None:
            named |= {"correlation_id": stored.correlation_id, "trace_id": stored.trace_id}
        return named

    async def list_verbose(self, tx: Transaction, job_ids: set[int]) -> set[int]:
        """List those of these jobs whose renewals are noted."""
        unknown = job_ids - self._is_verbose.keys()
        for job_id in unknown & self._specs.keys():
            self._is_verbose[job_id] = bool(self._specs[job_id].spec.verbose_events)
        if missing := sorted(unknown - self._specs.keys()):
            self._is_verbose.update(await read_verbosity(tx, missing))
        for job_id in job_ids & self._is_verbose.keys():
            self._is_verbose.move_to_end(job_id)
        verbose = {job_id for job_id in job_ids if self._is_verbose.get(job_id)}
        while len(self._is_verbose) > VERBOSE_KNOWN_MAX:
            self._is_verbose.popitem(last=False)
        return verbose

    def _use(self, job_id: int) -> StoredSpec:
        """Give a spec that is at hand, and forget it last."""
        self._specs.move_to_end(job_id)
        return self._specs[job_id]

    def _keep(self, specs: dict[int, StoredSpec]) -> None:
        self._specs.update(specs)
        while len(self._specs) > self._jobs_max:
            self._specs.popitem(last=False)

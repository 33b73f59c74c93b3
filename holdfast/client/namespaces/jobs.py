"""`client.jobs`: any job of the server, by its id."""

from collections.abc import Coroutine, Iterable, Mapping
from datetime import datetime
from typing import Any

from holdfast.client.both import both
from holdfast.client.codec import encode_request
from holdfast.client.deadline import Deadline
from holdfast.client.namespaces.namespace import Namespace, repeatable
from holdfast.client.pages import COUNT_MAX, read_some
from holdfast.client.submission import submit_request, submit_requests
from holdfast.model.work.ids import parse_job_id
from holdfast.model.work.outcomes import CancelMode
from holdfast.model.work.states import ENDED_STATES, parse_state
from holdfast.wire.events import EventListQuery
from holdfast.wire.graphs import JobGraph, ResumeAnswer, ResumeRequest
from holdfast.wire.lists import RerunAnswer
from holdfast.wire.logs import LogLinePage, LogLineQuery
from holdfast.wire.requests import JobListQuery, JobQuery, JobRequest, PassRequest, RerunRequest
from holdfast.wire.status import Changed, EventPage, JobBatchAnswer, JobPage, JobStatus


class Jobs(Namespace):
    """Jobs, by their ids."""

    @both
    def submit(self, request: JobRequest) -> Coroutine[Any, Any, JobStatus]:
        """Submit a job as it is described; the answer says how it stands, and whether it is new."""
        return submit_request(self._client, encode_request(self._client.codec, request), JobStatus)

    @both
    def submit_all(self, requests: Iterable[JobRequest]) -> Coroutine[Any, Any, JobBatchAnswer]:
        """Submit jobs in one call, all or none; they may wait for each other by local names."""
        codec = self._client.codec
        return submit_requests(self._client, [encode_request(codec, each) for each in requests])

    @both
    async def get(self, job_id: str | int, *, wait: float = 0.0, totals: bool = False) -> JobStatus:
        """Read a job; with a wait, once it has ended or so many seconds are over.

        With totals, what its tasks add up to: failures, preemptions, usage, ports, the result.
        """
        path, deadline = _path(job_id), Deadline(wait)
        while True:
            query = JobQuery(wait_ms=deadline.wait_ms(), totals=totals)
            status = await self._client.read(path, JobStatus, query=query)
            if deadline.is_over or parse_state(status.state) in ENDED_STATES:
                return status

    @both
    def cancel(
        self,
        job_id: str | int,
        mode: CancelMode = "soft",
        reason: str = "cancelled",
        *,
        idempotency_key: str | None = None,
    ) -> Coroutine[Any, Any, bool]:
        """Cancel a job, softly with its grace, or hard; False if it had ended or was cancelled."""
        return self._cancel(_path(job_id), mode, reason, idempotency_key=idempotency_key)

    @both
    async def let_pass(self, job_id: str | int, reason: str = "let pass") -> bool:
        """Have the chain of a job that has failed go on; False if nothing waits for that."""
        path = f"{_path(job_id)}:pass"
        return (await self._client.change(path, PassRequest(reason), Changed)).changed

    @both
    def rerun(
        self,
        job_id: str | int,
        *,
        only_unsuccessful: bool = False,
        dry_run: bool = False,
        rebind_outputs: bool = False,
        idempotency_key: str | None = None,
    ) -> Coroutine[Any, Any, RerunAnswer]:
        """Submit a job again, whole or those of its tasks that did not succeed."""
        key = idempotency_key if dry_run else repeatable(idempotency_key)
        body = RerunRequest(only_unsuccessful, dry_run, key, rebind_outputs)
        return self._client.change(f"{_path(job_id)}:rerun", body, RerunAnswer)

    @both
    def resume(
        self,
        job_id: str | int,
        *,
        inputs: Mapping[str, Any] | None = None,
        dry_run: bool = False,
        rebind_outputs: bool = False,
        idempotency_key: str | None = None,
    ) -> Coroutine[Any, Any, ResumeAnswer]:
        """Run again what failed around a job, and what was killed because of that.

        `inputs` are corrected ones, by task id, for tasks that are run again.
        """
        key = idempotency_key if dry_run else repeatable(idempotency_key)
        corrected = {
            task_id: self._encode(value, f"inputs[{task_id}]")
            for task_id, value in (inputs or {}).items()
        }
        body = ResumeRequest(corrected, dry_run, key, rebind_outputs)
        return self._client.change(f"{_path(job_id)}:resume", body, ResumeAnswer)

    @both
    def graph(self, job_id: str | int) -> Coroutine[Any, Any, JobGraph]:
        """Read the jobs that a job depends on and those that depend on it, directly or not."""
        return self._client.read(f"{_path(job_id)}/graph", JobGraph)

    @both
    def events(
        self, job_id: str | int, *, type: str | None = None, count_max: int = COUNT_MAX
    ) -> Coroutine[Any, Any, EventPage]:
        """List what happened to a job and its tasks."""
        path, query = f"{_path(job_id)}/events", EventListQuery(type)
        return read_some(self._client.read, path, EventPage, query=query, count_max=count_max)

    @both
    def search_logs(
        self,
        job_id: str | int,
        contains: str | None = None,
        *,
        since: datetime | None = None,
        until: datetime | None = None,
        task_index: int | None = None,
        attempt: int | None = None,
        count_max: int = COUNT_MAX,
    ) -> Coroutine[Any, Any, LogLinePage]:
        """Search what all attempts of a job have written: lines with a text, and by time."""
        query = LogLineQuery(
            contains,
            None if since is None else since.isoformat(),
            None if until is None else until.isoformat(),
            task_index,
            attempt,
        )
        path, read = f"{_path(job_id)}/log-lines", self._client.read
        return read_some(read, path, LogLinePage, query=query, count_max=count_max)

    @both
    def list(
        self,
        *,
        state: str | Iterable[str] | None = None,
        name: str | None = None,
        type: str | None = None,
        owner: str | None = None,
        queue: str | None = None,
        parent: str | None = None,
        label: str | None = None,
        correlation_id: str | None = None,
        fingerprint: str | None = None,
        worker: str | None = None,
        count_max: int = COUNT_MAX,
    ) -> Coroutine[Any, Any, JobPage]:
        """List jobs, the newest first; `name` is how their names begin, `label` is key=value.

        `state` is one or several; "unsuccessful" stands for every end but SUCCEEDED.
        `worker` is the id of one that has run something of them of late.
        """
        states = state if state is None or isinstance(state, str) else ",".join(state)
        query = JobListQuery(
            states or None,
            name,
            type,
            owner,
            queue,
            parent,
            label,
            correlation_id,
            fingerprint=fingerprint,
            worker=worker,
        )
        return read_some(self._client.read, "/api/jobs", JobPage, query=query, count_max=count_max)


def _path(job_id: str | int) -> str:
    return f"/api/jobs/{parse_job_id(str(job_id))}"

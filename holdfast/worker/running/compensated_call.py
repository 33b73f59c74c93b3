"""The call that a compensation undoes: fetched from the server, added to the input of the task."""

from typing import Any, NamedTuple

import msgspec

from holdfast.client.argument_jobs import replace_all
from holdfast.client.codec import PayloadCodec
from holdfast.client.context import Lease
from holdfast.client.outcome import SUCCEEDED
from holdfast.client.transport import Transport
from holdfast.errors import NotFound, Refused, TransientError, Unavailable, ValidationError
from holdfast.model.submitting.spec import Entrypoint
from holdfast.model.work.undo import UndoRecord
from holdfast.wire import attempt_calls
from holdfast.wire.attempt_calls import COMPENSATED_PATH
from holdfast.worker.running.attempt_outcome import failure
from holdfast.worker.running.dependency_results import (
    PATIENCE_SECONDS,
    JobResults,
    decode_results,
    fetch_results,
)
from holdfast.worker.running.function import BadCall, decoded
from holdfast.worker.running.runnable import Runnable, lease_of

# Of results of other jobs among the arguments; what is beyond is left out.
RESULTS_BYTES_MAX = 8 << 20


class CompensatedCall(NamedTuple):
    """The arguments of a call, as far as they can be had, results of other jobs among them."""

    args: list[Any]
    kwargs: dict[str, Any]
    pickle: str | None = None
    is_cut: bool = False


class CompensatedCalls:
    """Completes the records of compensations. The tasks of one job share a call: it is kept."""

    def __init__(self, transport: Transport, codec: PayloadCodec | None = None) -> None:
        self._transport = transport
        self._codec = codec
        self._latest: tuple[str, CompensatedCall] | None = None

    async def complete(self, attempt: Runnable) -> msgspec.Raw:
        """Give the input of an attempt, with the call that it undoes if it does. Raises BadCall."""
        job_id = attempt.job.compensates_job_id
        if job_id is None:
            return attempt.input
        if self._latest is None or self._latest[0] != job_id:
            self._latest = job_id, await self._fetch(lease_of(attempt))
        call = self._latest[1]
        record = msgspec.json.decode(attempt.input, type=UndoRecord)
        whole = msgspec.structs.replace(
            record,
            args=call.args,
            kwargs=call.kwargs,
            pickle=call.pickle,
            truncated=record.truncated or call.is_cut,
        )
        return msgspec.Raw(msgspec.json.encode(whole))

    async def _fetch(self, lease: Lease) -> CompensatedCall:
        try:
            found = await self._transport.insist(
                "GET",
                COMPENSATED_PATH,
                attempt_calls.CompensatedCall,
                headers=lease.headers(),
                seconds_max=PATIENCE_SECONDS,
            )
        except NotFound:  # retention has been there; what else is known has to do
            return CompensatedCall([], {}, is_cut=True)
        except (Refused, Unavailable) as error:
            problem = TransientError(f"the call that it undoes cannot be read: {error}")
            raise BadCall(failure(problem, "input")) from error
        entrypoint = decoded(found.entrypoint, self._codec)
        if entrypoint.pickle is not None:
            # The positions of results are within: only user code could put them there.
            return CompensatedCall([], {}, entrypoint.pickle, is_cut=bool(entrypoint.results))
        return await self._fill_in(entrypoint, lease)

    async def _fill_in(self, entrypoint: Entrypoint, lease: Lease) -> CompensatedCall:
        """Fill in what other jobs returned, as JSON; what cannot be had is left out."""
        values: dict[str, msgspec.Raw] = {}
        room = RESULTS_BYTES_MAX
        for job_id in {position.job for position in entrypoint.results}:
            value = await self._read_value(entrypoint, job_id, lease)
            if value is not None and len(bytes(value)) <= room:
                room -= len(bytes(value))
                values[job_id] = value
        found = [
            (position.path, values[position.job])
            for position in entrypoint.results
            if position.job in values
        ]
        given = replace_all({"args": entrypoint.args, "kwargs": entrypoint.kwargs}, found)
        return CompensatedCall(**given, is_cut=len(found) < len(entrypoint.results))

    async def _read_value(
        self, entrypoint: Entrypoint, job_id: str, lease: Lease
    ) -> msgspec.Raw | None:
        positions = [position for position in entrypoint.results if position.job == job_id]
        asked = msgspec.structs.replace(entrypoint, results=positions)
        try:
            found = await fetch_results(self._transport, asked, lease)
        except BadCall as problem:
            if problem.outcome.error_class != ValidationError.__name__:
                raise
            return None  # gone, or too large
        return _as_json(decode_results(found[job_id], self._codec))


def _as_json(fetched: JobResults) -> msgspec.Raw | None:
    """Write down what a job has returned; nothing of what was pickled."""
    if any(result.pickled for result in fetched.results):
        return None
    texts = [bytes(r.result) if r.state == SUCCEEDED else b"null" for r in fetched.results]
    return msgspec.Raw(b"[%b]" % b",".join(texts) if fetched.is_list else texts[0])

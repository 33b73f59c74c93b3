"""`client.schedules`: jobs that are submitted again and again."""

from collections.abc import Coroutine
from datetime import datetime, timedelta
from typing import Any

import msgspec

from holdfast.client.both import both
from holdfast.client.codec import encode_request
from holdfast.client.namespaces.namespace import Namespace, repeatable
from holdfast.client.pages import COUNT_MAX, read_some
from holdfast.errors import Invalid
from holdfast.model.shapes import as_invalid
from holdfast.model.submitting.schedules import CatchUp, Overlap
from holdfast.wire.requests import JobRequest, Nothing
from holdfast.wire.schedules import (
    LIST_PATH,
    BackfillAnswer,
    BackfillRequest,
    FiringListQuery,
    FiringPage,
    RunNowAnswer,
    RunNowRequest,
    ScheduleDetails,
    ScheduleListQuery,
    SchedulePage,
    ScheduleRequest,
    schedule_path,
)
from holdfast.wire.status import Changed


class Schedules(Namespace):
    """Schedules, by their names."""

    @both
    def list(self, *, count_max: int = COUNT_MAX) -> Coroutine[Any, Any, SchedulePage]:
        """List schedules by name, with their next and last firings."""
        read, query = self._client.read, ScheduleListQuery()
        return read_some(read, LIST_PATH, SchedulePage, query=query, count_max=count_max)

    @both
    def get(self, name: str) -> Coroutine[Any, Any, ScheduleDetails]:
        """Read a schedule, with the job that it submits."""
        return self._client.read(schedule_path(name), ScheduleDetails)

    @both
    def set(
        self,
        name: str,
        job: JobRequest | dict[str, Any],
        *,
        cron: str | None = None,
        every: timedelta | float | None = None,
        start_at: datetime | None = None,
        end_at: datetime | None = None,
        jitter: timedelta | float = 0.0,
        late_max: timedelta | float = 60.0,
        tz: str = "UTC",
        catch_up: CatchUp = "skip",
        catch_up_max: int = 10,
        overlap: Overlap = "skip",
        if_version: int | None = None,
    ) -> Coroutine[Any, Any, ScheduleDetails]:
        """Set all of a schedule: the job, such as `function.spec(...)`, and when it is submitted.

        What is left out is the default, whatever the schedule was before.
        """
        given = {
            "spec": job,
            "cron": cron,
            "every": None if every is None else _seconds(every),
            "start_at_ms": _ms("start_at", start_at),
            "end_at_ms": _ms("end_at", end_at),
            "jitter": _seconds(jitter),
            "late_max": _seconds(late_max),
            "tz": tz,
            "catch_up": catch_up,
            "catch_up_max": catch_up_max,
            "overlap": overlap,
            "if_version": if_version,
        }
        try:
            request = msgspec.convert(given, ScheduleRequest)
        except msgspec.ValidationError as error:
            raise as_invalid(error, "schedule") from error
        spec = encode_request(self._client.codec, request.spec)
        request = msgspec.structs.replace(request, spec=spec)
        return self._client.change(schedule_path(name), request, ScheduleDetails, method="PUT")

    @both
    async def delete(self, name: str) -> bool:
        """Delete a schedule; what it has submitted goes on. False if there was none."""
        path = schedule_path(name)
        return (await self._client.change(path, None, Changed, method="DELETE")).changed

    @both
    async def pause(self, name: str) -> bool:
        """Have a schedule fire no more; False if it was paused before."""
        return await self._ask(name, "pause")

    @both
    async def resume(self, name: str) -> bool:
        """Have a schedule fire again, from its next instant on; False if it was not paused."""
        return await self._ask(name, "resume")

    @both
    async def run_now(self, name: str, *, idempotency_key: str | None = None) -> str:
        """Fire a schedule at this moment, paused or not; returns the id of its job."""
        body = RunNowRequest(repeatable(idempotency_key))
        path = f"{schedule_path(name)}:run-now"
        return (await self._client.change(path, body, RunNowAnswer)).job_id

    @both
    def backfill(
        self,
        name: str,
        first: datetime,
        last: datetime,
        *,
        overlap: Overlap | None = None,
        dry_run: bool = False,
    ) -> Coroutine[Any, Any, BackfillAnswer]:
        """Fire the instants of a range that have passed and have no job; twice is harmless."""
        from_ms, until_ms = _ms("first", first), _ms("last", last)
        assert from_ms is not None, "a range has a beginning"
        assert until_ms is not None, "a range has an end"
        body = BackfillRequest(from_ms, until_ms, overlap, dry_run)
        return self._client.change(f"{schedule_path(name)}:backfill", body, BackfillAnswer)

    @both
    def firings(self, name: str, *, count_max: int = COUNT_MAX) -> Coroutine[Any, Any, FiringPage]:
        """List what the instants of a schedule have come to, the newest first."""
        path, query = f"{schedule_path(name)}/firings", FiringListQuery()
        return read_some(self._client.read, path, FiringPage, query=query, count_max=count_max)

    async def _ask(self, name: str, verb: str) -> bool:
        path = f"{schedule_path(name)}:{verb}"
        return (await self._client.change(path, Nothing(), Changed)).changed


def _seconds(duration: timedelta | float) -> float:
    return duration.total_seconds() if isinstance(duration, timedelta) else duration


def _ms(field: str, moment: datetime | None) -> int | None:
    if moment is None:
        return None
    if moment.tzinfo is None:
        raise Invalid(field, f"{moment.isoformat()} has no time zone; give it one, such as UTC")
    return round(moment.timestamp() * 1000)

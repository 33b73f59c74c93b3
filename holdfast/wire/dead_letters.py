"""Dead letters, and the replays that run them again."""

from datetime import datetime

import msgspec

from holdfast.wire.graphs import ResumedJob
from holdfast.wire.raw import absent_is_null
from holdfast.wire.requests import DeadLetterFilter, Request, TaskIdText


class DeadLetter(msgspec.Struct, frozen=True, kw_only=True):
    """A task that will not be tried again, and why."""

    task_id: str
    type: str
    queue: str | None = None
    reason_code: str
    stage: str | None = None
    error_class: str | None = None
    last_error: str | None = None
    attempts: int
    last_owner: str | None = None
    last_lease_expires_at: datetime | None = None
    correlation_id: str
    dead_lettered_at: datetime
    input: msgspec.Raw = absent_is_null()
    replayed_as: str | None = None
    replayed_at: datetime | None = None
    discarded_at: datetime | None = None
    discarded_by: str | None = None
    # Whether the replay runs with another input than this one.
    input_edited: bool = False


class DeadLetterPage(msgspec.Struct, frozen=True):
    """Some dead letters, by id."""

    dead_letters: list[DeadLetter]
    next_page_token: str | None = None


class Replayed(msgspec.Struct, frozen=True):
    """Dead letters of one job, and the new job that runs them again (null in a dry run).

    Those that are no canary, where there is one, start when all canaries have succeeded. At a pace,
    the first task starts `start_delay` seconds later, and the others `start_rate` per second.
    """

    replay_of: str
    task_ids: list[str]
    job_id: str | None = None
    is_canary: bool = False
    input_edited: bool = False
    start_delay: float | None = None
    start_rate: float | None = None


class ReplayAnswer(msgspec.Struct, frozen=True):
    """What a replay did, or would do.

    `killed_in_vain` jobs waited for those in `waited_for`, directly or not, and were killed because
    these failed. With `resume` they go on as the jobs in `resumed`; `not_resumed` says for which
    replayed jobs what waited for them does not, and why.
    """

    replays: list[Replayed]
    dry_run: bool = False
    killed_in_vain: int = 0
    waited_for: list[str] = []
    resumed: list[ResumedJob] = []
    not_resumed: dict[str, str] = {}


class ReplayRequest(Request, frozen=True):
    """Which dead letters to submit again: exact ids, or all that a filter matches.

    With `rebind_outputs` they write the newest open version of a dataset where the version that
    their job named by its number is not open any more. The first `canary` of them go first, and
    the others when these have succeeded; `rate` of them start in a second. A single one may get
    another `input` than its own. With `resume`, what waited for their jobs in vain goes on with the
    replays, where these run all that did not succeed.
    """

    task_ids: list[TaskIdText] | None = None
    filter: DeadLetterFilter | None = None
    dry_run: bool = False
    idempotency_key: str | None = None
    rebind_outputs: bool = False
    canary: int | None = None
    rate: float | None = None
    resume: bool = False
    input: msgspec.Raw | msgspec.UnsetType = msgspec.UNSET


class DiscardRequest(Request, frozen=True):
    """Which dead letters need nothing more; exact ids only."""

    task_ids: list[TaskIdText]
    idempotency_key: str | None = None

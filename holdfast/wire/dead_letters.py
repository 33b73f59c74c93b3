"""Dead letters, and the replays that run them again."""

from datetime import datetime

import msgspec

from holdfast.wire.raw import absent_is_null


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
    """What a replay did, or would do."""

    replays: list[Replayed]
    dry_run: bool = False

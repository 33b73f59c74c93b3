"""What lists and their pages ask for and show, beyond single jobs and tasks."""

from datetime import datetime
from typing import Annotated

import msgspec
from msgspec import Meta

from holdfast.model.work.ids import INDEX_MAX
from holdfast.wire.raw import absent_is_null
from holdfast.wire.requests import DeadLetterFilter, JobIdText, PageSize, Request

TaskIndex = Annotated[int, Meta(ge=0, le=INDEX_MAX)]


class JobAttemptQuery(Request, frozen=True):
    """Which attempts of a job to list: those of tasks from `task_from` on."""

    task_from: TaskIndex = 0
    page_size: PageSize = 100
    page_token: str | None = None


class WorkerAttemptQuery(Request, frozen=True):
    """Which attempts to list: those that ended on a worker, all or those that did not succeed."""

    worker: str
    unsuccessful: bool = False
    page_size: PageSize = 100
    page_token: str | None = None


class JobLogQuery(Request, frozen=True):
    """Which output of a job to read: of all tasks, or of one.

    `tail` begins with the last page instead of the first; `older_page_token` of an answer asks for
    the page before it. Both are for the output of all tasks.
    """

    task_index: TaskIndex | None = None
    page_size: PageSize = 100
    page_token: str | None = None
    tail: bool = False
    older_page_token: str | None = None


class DeadLetterListQuery(DeadLetterFilter, frozen=True):
    """Which dead letters to list; settled ones have been replayed or discarded.

    By id, the oldest job first, or the `newest` first.
    """

    settled: bool = False
    page_size: PageSize = 100
    page_token: str | None = None
    newest: bool = False


class LetterSummaryQuery(Request, frozen=True):
    """Which dead letters to sum up; what is left out matches all."""

    reason_code: str | None = None
    stage: str | None = None
    type: str | None = None
    queue: str | None = None
    job_id: JobIdText | None = None


class JobAttempt(msgspec.Struct, frozen=True, kw_only=True):
    """One attempt of one task of a job, as a timeline shows it."""

    task_index: int
    attempt_id: int
    worker_id: str
    state: str
    created_at_ms: int
    started_at_ms: int | None = None
    finished_at_ms: int | None = None
    is_worker_failure: bool = False


class WorkerAttempt(msgspec.Struct, frozen=True, kw_only=True):
    """One attempt that has ended on a worker; of its error, the beginning."""

    task_id: str
    attempt_id: int
    job_id: str
    job_name: str
    job_type: str
    state: str
    created_at_ms: int
    started_at_ms: int | None = None
    finished_at_ms: int
    exit_code: int | None = None
    error: str | None = None
    error_class: str | None = None
    stage: str | None = None
    is_worker_failure: bool = False


class WorkerAttemptPage(msgspec.Struct, frozen=True):
    """Some attempts that ended on a worker, the newest first; a short page may not be the last."""

    attempts: list[WorkerAttempt]
    next_page_token: str | None = None


class JobAttemptPage(msgspec.Struct, frozen=True):
    """Some attempts of the tasks of a job, by task and number."""

    attempts: list[JobAttempt]
    next_page_token: str | None = None


class LogStretch(msgspec.Struct, frozen=True, kw_only=True):
    """Some output of one attempt among that of its job; a line may end in a later stretch.

    One that has grown since it was read comes again under its offset, whole.
    """

    task_id: str
    attempt: int
    offset: int
    stored_at_ms: int
    content: bytes


class JobLogPage(msgspec.Struct, frozen=True):
    """The output of a job's tasks in the order in which it was stored.

    `next_page_token` leads on even where nothing more is there yet; it is null once `is_complete`
    tells that nothing more will come. `older_page_token` leads back from a page that was asked for
    by `tail`, or by such a token; it is null if nothing stands before it.
    """

    stretches: list[LogStretch]
    next_page_token: str | None = None
    is_complete: bool = False
    older_page_token: str | None = None


class TaskInput(msgspec.Struct, frozen=True):
    """What a task was given; null where its job has no inputs."""

    task_id: str
    input: msgspec.Raw = absent_is_null()


class LetterCell(msgspec.Struct, frozen=True):
    """How many dead letters have one reason and come from one stage."""

    reason_code: str
    stage: str | None
    count: int


class LetterGroup(msgspec.Struct, frozen=True, kw_only=True):
    """Dead letters whose errors are the same but for numbers, ids and names in them.

    `task_ids` are the first of them, as many as a replay by ids may name at once.
    """

    fingerprint: str
    error_class: str | None
    example: str | None
    count: int
    types: list[str]
    newest_at: datetime
    task_ids: list[str]


class DeadLetterSummary(msgspec.Struct, frozen=True, kw_only=True):
    """The dead letters that wait for a decision: by reason and stage, and by error.

    Of a very large number the newest are counted, and fewer of them are gathered into groups: then
    `is_truncated`.
    """

    total: int
    is_truncated: bool
    cells: list[LetterCell]
    groups: list[LetterGroup]


class RerunAnswer(msgspec.Struct, frozen=True, kw_only=True):
    """A job submitted again; in a dry run, without an id."""

    replay_of: str
    job_id: str | None
    num_tasks: int
    dry_run: bool = False

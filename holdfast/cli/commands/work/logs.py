"""`holdfast logs`: what tasks have written."""

from itertools import groupby
from typing import TYPE_CHECKING, Annotated

from cyclopts import Parameter

from holdfast.cli.connect import open_client
from holdfast.cli.ids import check_id, find_task
from holdfast.cli.moments import parse_moment
from holdfast.cli.output.task_output import (
    Output,
    follow_task,
    read_chunks,
    with_left_out,
    with_reasons,
    write_chunks,
    write_time,
)
from holdfast.cli.output.text import local_times
from holdfast.cli.output.write import remark, write_json
from holdfast.cli.settings import Follow, Json, Server, check_limit
from holdfast.errors import Invalid

if TYPE_CHECKING:
    from collections.abc import Iterator

    from holdfast.client.client import Client
    from holdfast.wire.logs import LogLinePage
    from holdfast.wire.status import LogChunk

LINES_SHOWN = 1000
TASKS_MAX = 10_000_000


def show_logs(
    an_id: Annotated[
        str, Parameter(name="ID", help="A job, a task or an attempt, such as 4182.3.")
    ],
    /,
    *,
    follow: Follow = False,
    attempt: Annotated[int | None, Parameter(help="Which attempt. Default: the latest.")] = None,
    tail: Annotated[
        int | None, Parameter(help="So many lines before the end; of each task, if it is a job.")
    ] = None,
    timestamps: Annotated[
        bool,
        Parameter(name=["--timestamps", "-t"], negative="", help="When each line was stored."),
    ] = False,
    grep: Annotated[
        str | None, Parameter(help="Search all attempts: lines with this text.")
    ] = None,
    since: Annotated[str | None, Parameter(help="Search: from a time on, or 10m, 2h ago.")] = None,
    until: Annotated[str | None, Parameter(help="Search: before a time, or 10m ago.")] = None,
    limit: Annotated[
        int | None, Parameter(name=["--limit", "-n"], help="Search: how many lines. Default: 1000.")
    ] = None,
    server: Server = None,
    as_json: Json = False,
) -> int:
    """Write what a task has written, or all tasks of a job: each line with its task then, as [3].

    With -f it goes on, into each next attempt, until the job or the task has ended. With --grep,
    --since or --until all attempts are searched, and each line begins with its attempt's id.
    """
    searched = Search(grep, since=since, until=until, limit=limit)
    if tail is not None and tail < 1:
        raise Invalid("--tail", "is no number of lines; give 1 or more")
    if searched.is_asked_for(follow=follow, tail=tail):
        with open_client(server) as client:
            page = searched.run(client, an_id, attempt)
        write_json(page) if as_json else _write_found(page, with_times=timestamps)
        return 0
    with open_client(server) as client:
        job_id = None if "." in an_id else _find_tasks(client, check_id(an_id))
        if job_id is not None:
            if attempt is not None:
                raise Invalid("attempt", f"goes with one task, such as {an_id}.0")
            chunks = _read_job(client, job_id, follow=follow, tail=tail)
        else:
            chunks = _read_task(client, an_id, attempt, follow=follow, tail=tail)
        if not as_json:
            has_many = job_id is not None
            shown = with_reasons(client, chunks, has_many_tasks=has_many) if follow else chunks
            if not write_chunks(shown, has_many_tasks=has_many, with_times=timestamps):
                remark(f"holdfast: {_describe_silence(client, an_id, attempt, job_id=job_id)}")
        elif follow:
            for chunk in chunks:
                if chunk.content or chunk.is_complete:
                    write_json(chunk, indented=False)
        else:
            _write_document(chunks, has_many_tasks=job_id is not None)
    return 0


class Search:
    """What lines of all attempts are looked for."""

    def __init__(
        self, text: str | None, *, since: str | None, until: str | None, limit: int | None
    ) -> None:
        self._text = text
        self._since = parse_moment(since, "--since")
        self._until = parse_moment(until, "--until")
        self._limit = limit

    def is_asked_for(self, *, follow: bool, tail: int | None) -> bool:
        """Tell whether lines are searched for, and refuse what does not go along with it."""
        if (self._text, self._since, self._until) == (None, None, None):
            if self._limit is not None:
                raise Invalid("--limit", "goes with --grep, --since or --until")
            return False
        if follow:
            raise Invalid("-f", "goes without --grep, --since and --until; leave out one of them")
        if tail is not None:
            raise Invalid(
                "--tail", "goes without --grep, --since and --until; --limit bounds those"
            )
        return True

    def run(self, client: "Client", an_id: str, attempt: int | None) -> "LogLinePage":
        """Search the output of a job, of a task, or of one attempt."""
        limit = LINES_SHOWN if self._limit is None else self._limit
        check_limit(limit)
        job_id, task_index = an_id, None
        if "." in an_id:
            task_id, chosen = _choose_attempt(client, an_id, attempt)
            job_id, _, index = task_id.partition(".")
            task_index, attempt = int(index), chosen
        return client.jobs.search_logs(
            job_id,
            self._text,
            since=self._since,
            until=self._until,
            task_index=task_index,
            attempt=attempt,
            count_max=limit,
        )


def _write_found(page: "LogLinePage", *, with_times: bool) -> None:
    output = Output()
    for line in page.lines:
        time = write_time(line.stored_at_ms) if with_times else ""
        output.write(f"{time}{line.task_id}.{line.attempt}: {line.text}\n".encode())
    if page.next_page_token is not None:
        remark("there are more; --limit shows more of them")
    elif not page.lines:
        remark("holdfast: no line matches")


def _find_tasks(client: "Client", job_id: str) -> str | None:
    """Tell a job with many tasks, whose id is given back, from one that means its only task."""
    return job_id if client.jobs.get(job_id).num_tasks > 1 else None


def _describe_silence(
    client: "Client", an_id: str, attempt: int | None, *, job_id: str | None
) -> str:
    """Say why there is no output: what has not started is not what has written nothing."""
    if job_id is not None:
        has_started = client.jobs.get(job_id).started_at_ms is not None
        return f"no task of job {job_id} has {'written anything' if has_started else 'started yet'}"
    task_id, chosen = _choose_attempt(client, an_id, attempt)
    task = client.tasks.get(task_id)
    number = task.current_attempt_id if chosen is None else chosen
    is_over = task.finished_at_ms is not None
    if number >= 0:
        so_far = "" if is_over or number < task.current_attempt_id else " yet"
        return f"attempt {number} of task {task_id} has written nothing{so_far}"
    if is_over:
        return f"task {task_id} has ended without being started: there is no output"
    reason = f": {local_times(task.pending_reason)}" if task.pending_reason else ""
    return f"task {task_id} has not started yet{reason}"


def _read_task(
    client: "Client", an_id: str, attempt: int | None, *, follow: bool, tail: int | None
) -> "Iterator[LogChunk]":
    task_id, chosen = _choose_attempt(client, an_id, attempt)
    if follow and chosen is None:
        return follow_task(client, task_id, tail=tail)
    return read_chunks(client, task_id, attempt=chosen, follow=follow, tail=tail)


def _choose_attempt(client: "Client", an_id: str, attempt: int | None) -> tuple[str, int | None]:
    """Find the task that is meant, and the attempt, if the id or an option names one."""
    task_id, typed = find_task(client, an_id)
    if attempt is not None and typed not in (None, attempt):
        raise Invalid("attempt", f"is {attempt}, but the id says {typed}; give one of the two")
    return task_id, typed if attempt is None else attempt


def _read_job(
    client: "Client", job_id: str, *, follow: bool, tail: int | None
) -> "Iterator[LogChunk]":
    """Read the latest attempt of each task, one task after the other, or all as they write."""
    from holdfast.cli.output.job_output import follow_job

    tasks = client.tasks.list(job_id, count_max=TASKS_MAX).tasks
    begun = {task.task_index: task.current_attempt_id for task in tasks}
    if follow:
        yield from follow_job(client, job_id, since=begun, tail=tail)
        return
    for index, attempt in begun.items():
        task_id = f"{job_id}.{index}"
        if attempt >= 0:
            yield from read_chunks(client, task_id, attempt=attempt, follow=False, tail=tail)


def _write_document(chunks: "Iterator[LogChunk]", *, has_many_tasks: bool) -> None:
    """Write logs as one document: that of the task, or a list; their bytes are base64."""
    import msgspec

    logs = []
    for _, pieces in groupby(with_left_out(chunks), key=lambda chunk: chunk.task_id):
        listed = list(pieces)
        start = listed[0].offset
        whole = b"".join(chunk.content for chunk in listed)
        times = [time for chunk in listed for time in chunk.times]
        logs.append(msgspec.structs.replace(listed[-1], offset=start, content=whole, times=times))
    write_json({"logs": logs} if has_many_tasks else logs[0])

"""`holdfast jobs` and `job`: what there is, and how it stands."""

from typing import TYPE_CHECKING, Annotated, Any

from cyclopts import Parameter

from holdfast.cli.commands.work.task import describe_progress, describe_usage
from holdfast.cli.connect import open_client
from holdfast.cli.output.text import age, decimal, first_line, local_times, moment, size, took
from holdfast.cli.output.write import (
    Column,
    remark,
    state,
    write_fields,
    write_json,
    write_line,
    write_table,
    write_title,
)
from holdfast.cli.settings import Json, Server, check_limit
from holdfast.model.work.ids import parse_job_id

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from holdfast.wire.status import JobStatus, TaskStatus

JOBS_SHOWN = 50
TASKS_SHOWN = 20
_JOB_COLUMNS = (
    Column("id", right=True),
    Column("job", flexible=True),
    Column("state"),
    Column("tasks", right=True),
    Column("queue", spare=True),
    Column("submitted"),
    Column("took", right=True, spare=True),
    Column("error", flexible=True),
)
_TASK_COLUMNS = (
    Column("task"),
    Column("state"),
    Column("attempts", right=True),
    Column("started"),
    Column("took", right=True, spare=True),
    Column("worker", flexible=True, spare=True),
    Column("remark", flexible=True),
)


def list_jobs(
    *,
    state: Annotated[
        tuple[str, ...],
        Parameter(
            negative="",
            help="In this state, such as running; repeat it, or name several with commas. "
            "unsuccessful: every end but succeeded.",
        ),
    ] = (),
    name: Annotated[str | None, Parameter(help="With a name that begins so.")] = None,
    type: Annotated[str | None, Parameter(help="Of this type.")] = None,
    owner: Annotated[str | None, Parameter(help="Of this owner.")] = None,
    queue: Annotated[str | None, Parameter(help="In this queue.")] = None,
    parent: Annotated[str | None, Parameter(help="Children of this job.")] = None,
    label: Annotated[str | None, Parameter(help="With this label, as key=value.")] = None,
    correlation_id: Annotated[str | None, Parameter(help="With this correlation id.")] = None,
    fingerprint: Annotated[
        str | None, Parameter(help="With this kind of error, as `holdfast overview` names it.")
    ] = None,
    worker: Annotated[
        str | None, Parameter(help="That this worker has run something of, of late.")
    ] = None,
    limit: Annotated[int, Parameter(name=["--limit", "-n"], help="How many.")] = JOBS_SHOWN,
    server: Server = None,
    as_json: Json = False,
) -> int:
    """List jobs, the newest first."""
    check_limit(limit)
    filters = {
        "state": ",".join(state) or None,
        "name": name,
        "type": type,
        "owner": owner,
        "queue": queue,
        "parent": parent,
        "label": label,
        "correlation_id": correlation_id,
        "fingerprint": fingerprint,
        "worker": worker,
    }
    with open_client(server) as client:
        page = client.jobs.list(**filters, count_max=limit)
    if as_json:
        write_json(page)
        return 0
    if not page.jobs:
        remark("no jobs match" if any(filters.values()) else "no jobs")
        return 0
    write_table(_JOB_COLUMNS, [_job_row(job) for job in page.jobs])
    if page.next_page_token is not None:
        remark(f"there are more; --limit {limit * 2} shows more of them")
    return 0


def show_job(
    job_id: Annotated[str, Parameter(name="ID", help="A job's id, such as 4182.")],
    /,
    *,
    limit: Annotated[
        int, Parameter(name=["--limit", "-n"], help="How many of its tasks.")
    ] = TASKS_SHOWN,
    server: Server = None,
    as_json: Json = False,
) -> int:
    """Show one job with its tasks."""
    import msgspec

    parse_job_id(job_id, "id")
    check_limit(limit)
    with open_client(server) as client:
        job = client.jobs.get(job_id, totals=True)
        page = client.tasks.list(job_id, count_max=limit)
    if as_json:
        write_json(msgspec.structs.replace(job, tasks=page.tasks))
        return 0
    write_title(f"Job {job.job_id}  {job.name}", state(job.state))
    write_fields(_job_fields(job))
    write_line("")
    write_table(_TASK_COLUMNS, [_task_row(task) for task in page.tasks])
    if page.next_page_token is not None:
        remark(f"there are {job.num_tasks} tasks; --limit shows more of them")
    return 0


def _job_row(job: "JobStatus") -> "Sequence[str]":
    return (
        job.job_id,
        job.name,
        state(job.state),
        _count_tasks(job),
        job.queue or "",
        age(job.submitted_at_ms),
        took(job.started_at_ms, job.finished_at_ms),
        first_line(job.error),
    )


def _count_tasks(job: "JobStatus") -> str:
    live = job.tasks_pending + job.tasks_assigned + job.tasks_building + job.tasks_running
    return f"{job.num_tasks - live}/{job.num_tasks}"


def _job_fields(job: "JobStatus") -> dict[str, str]:
    cancelled = ""
    if job.cancelled_by is not None:
        cancelled = f"{job.cancel_mode}, by {job.cancelled_by}: {job.cancel_reason}"
    spec = job.spec or {}
    return {
        "type": "" if job.type == job.name else job.type,
        "owner": job.owner,
        "queue": job.queue or "",
        "needs": _tell_needs(spec) if spec.get("resources") or not job.queue else "",
        "gang": _tell_gang(spec),
        "where": _tell_where(spec),
        "priority": str(job.priority) if job.priority else "",
        "labels": "  ".join(f"{key}={value}" for key, value in job.labels.items()),
        "submitted": moment(job.submitted_at_ms),
        "started": moment(job.started_at_ms),
        "finished": moment(job.finished_at_ms),
        "took": took(job.started_at_ms, job.finished_at_ms),
        "tasks": job.status_message.removeprefix("Tasks: "),
        "failures": str(job.failure_count) if job.failure_count else "",
        "preemptions": str(job.preemption_count) if job.preemption_count else "",
        "used": describe_usage(job.resource_usage),
        "cancelled": cancelled,
        "because": "" if cancelled else "\n".join(cause.message for cause in job.causes),
        "exit code": "" if job.exit_code is None else str(job.exit_code),
        "error": first_line(job.error),
        "waits for": _tell_order(job),
        **_tell_terms(job),
        "graph": job.graph_id or "",
        "parent": job.parent_job_id or "",
        "replay of": job.replay_of or "",
        "undoes": job.compensates_job_id or "",
        "undone by": _tell_undo(job),
        "correlation": job.correlation_id,
        "trace": job.trace_id or "",
    }


def _tell_undo(job: "JobStatus") -> str:
    """Name the job that undoes this one, and say how that went."""
    if job.compensated_by is None:
        return ""
    said = {None: "not yet", True: "done", False: "failed"}
    return f"{job.compensated_by} ({said[job.is_compensated]})"


def _tell_order(job: "JobStatus") -> str:
    """Say what a job's tasks wait for, or how many of the jobs it depends on."""
    if job.finished_at_ms is not None:
        return ""
    # A chain is not among what the spec depends on; its reason says more.
    if not job.unmet_dependencies or (job.spec or {}).get("chain") is not None:
        if job.pending_reason is None:
            return ""
        tasks = "1 task" if job.tasks_pending == 1 else f"{job.tasks_pending} tasks"
        return f"{tasks}: {local_times(job.pending_reason)}"
    count = len((job.spec or {}).get("depends_on", ()))
    return f"{job.unmet_dependencies} of {count} jobs; `holdfast graph {job.job_id}` shows them"


def _tell_terms(job: "JobStatus") -> dict[str, str]:
    """Say by when a job has to start, how it is unique, and which schedule it is of."""
    terms, told = job.terms, dict[str, str]()
    if terms is None:
        return told
    if terms.expires_at_ms is not None:
        told["expires"] = f"{moment(terms.expires_at_ms)}, what nobody has started"
    if terms.unique is not None:
        states = " or ".join(each.replace("_", " ") for each in terms.unique.states)
        key = "it holds its key" if terms.unique.holds_key else "it has let go of its key"
        told["unique"] = f"by {terms.unique.by}, while {states}; {key} {terms.unique.key or ''}"
    if terms.firing is not None:
        told["schedule"] = f"{terms.firing.schedule}, for {moment(terms.firing.instant_ms)}"
    return told


def _tell_needs(spec: "Mapping[str, Any]") -> str:
    """Say what a job asks for, for each task."""
    asked = spec.get("resources") or {}
    words = [f"{decimal(asked.get('cpu', 1.0))} cpu"]
    words += [f"{size(asked[name])} {name}" for name in ("memory", "disk") if asked.get(name)]
    if asked.get("gpu"):
        words.append(f"{asked['gpu']} gpu {asked.get('gpu_model') or ''}".rstrip())
    words += [f"port {name}" for name in asked.get("ports", ())]
    return ", ".join(words)


def _tell_gang(spec: "Mapping[str, Any]") -> str:
    gang = spec.get("coscheduling")
    if gang is None:
        return ""
    group_by = gang.get("group_by")
    hosts = {"spread": ", each on a host of its own", "pack": ", on one host"}
    within = f", within one {group_by}" if group_by else ""
    return "all tasks start together" + hosts.get(gang.get("hosts"), "") + within


def _tell_where(spec: "Mapping[str, Any]") -> str:
    """Say what a placed job asks of its workers."""
    from holdfast.model.workers.resources import Constraint

    constraints = [
        Constraint(each["attribute"], each.get("op", "="), each.get("value"))
        for each in spec.get("constraints", ())
    ]
    return "; ".join(map(str, constraints))


def _task_row(task: "TaskStatus") -> "Sequence[str]":
    return (
        task.task_id,
        state(task.state),
        str(task.current_attempt_id + 1),
        age(task.started_at_ms),
        took(task.started_at_ms, task.finished_at_ms),
        task.worker_id or "",
        first_line(_remark(task)),
    )


def _remark(task: "TaskStatus") -> str | None:
    """Choose what is worth knowing of a task: what it waits for, what went wrong, how far it is."""
    if task.pending_reason or task.error:
        waits = local_times(task.pending_reason or "")
        return "; ".join(filter(None, (waits, task.error)))
    return describe_progress(task)

"""Which job, task or attempt a typed id means."""

from typing import TYPE_CHECKING, Annotated

from cyclopts import Parameter

from holdfast.errors import Invalid
from holdfast.model.work.ids import parse_attempt_id, parse_job_id, parse_task_id

if TYPE_CHECKING:
    from holdfast.client.client import Client

Ids = Annotated[str, Parameter(name="ID", help="Ids of jobs and tasks, such as 4182 and 4182.3.")]


def check_id(text: str) -> str:
    """Refuse what is neither a job's nor a task's id."""
    match text.count("."):
        case 0:
            return str(parse_job_id(text, "id"))
        case 1:
            return str(parse_task_id(text, "id"))
    raise Invalid("id", f"{text!r} is no job or task; write it like 4182 or 4182.3")


def check_ids(ids: tuple[str, ...]) -> list[str]:
    """Refuse to begin with anything while an id among them cannot be one."""
    if not ids:
        raise Invalid("ID", "give ids of jobs or tasks, such as 4182 or 4182.3")
    return [check_id(text) for text in ids]


def find_task(client: "Client", text: str) -> tuple[str, int | None]:
    """Find the task that is meant, and the attempt if one is; a job means its only task."""
    if text.count(".") == 2:
        found = parse_attempt_id(text, "id")
        return f"{found.job_id}.{found.task_index}", found.attempt
    if "." in check_id(text):
        return text, None
    job = client.jobs.get(text)
    if job.num_tasks != 1:
        raise Invalid(
            "id", f"job {text} has {job.num_tasks} tasks; name one of them, like {text}.0"
        )
    return f"{text}.0", None

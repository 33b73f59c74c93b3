"""Ids that people can type: job 4182, task 4182.3, attempt 4182.3.1."""

import re
from typing import NamedTuple

from holdfast.errors import Invalid

JOB_ID_MAX = 2**63 - 1
INDEX_MAX = 2**31 - 1
WORKER_ID_LENGTH_MAX = 128

_NUMBER = r"(0|[1-9][0-9]{0,18})"
_JOB = re.compile(_NUMBER)
_TASK = re.compile(rf"{_NUMBER}\.{_NUMBER}")
_ATTEMPT = re.compile(rf"{_NUMBER}\.{_NUMBER}\.{_NUMBER}")
_WORKER = re.compile(r"[A-Za-z0-9][A-Za-z0-9._:@/-]*")


class TaskId(NamedTuple):
    """One task of one job."""

    job_id: int
    task_index: int

    def __str__(self) -> str:
        return f"{self.job_id}.{self.task_index}"


class AttemptId(NamedTuple):
    """One attempt of one task."""

    job_id: int
    task_index: int
    attempt: int

    def __str__(self) -> str:
        return f"{self.job_id}.{self.task_index}.{self.attempt}"


def parse_job_id(text: str, field: str = "job_id") -> int:
    """Read a job id such as 4182."""
    if not _JOB.fullmatch(text):
        raise Invalid(field, f"{text!r} is not a job id; write it like 4182")
    return check_job_id(int(text), field)


def parse_task_id(text: str, field: str = "task_id") -> TaskId:
    """Read a task id such as 4182.3."""
    match = _TASK.fullmatch(text)
    if not match:
        raise Invalid(field, f"{text!r} is not a task id; write it like 4182.3")
    return check_task_id(TaskId(int(match[1]), int(match[2])), field)


def parse_attempt_id(text: str, field: str = "attempt_id") -> AttemptId:
    """Read an attempt id such as 4182.3.1."""
    match = _ATTEMPT.fullmatch(text)
    if not match:
        raise Invalid(field, f"{text!r} is not an attempt id; write it like 4182.3.1")
    task_id = check_task_id(TaskId(int(match[1]), int(match[2])), field)
    return AttemptId(*task_id, check_index(int(match[3]), field))


def check_job_id(job_id: int, field: str = "job_id") -> int:
    """Refuse a number that no job can have."""
    if type(job_id) is not int or not 0 < job_id <= JOB_ID_MAX:
        raise Invalid(field, f"{job_id!r} is not a job id; it is a whole number from 1 to 2^63-1")
    return job_id


def check_index(index: int, field: str) -> int:
    """Refuse a number that no task index and no attempt number can be."""
    if type(index) is not int or not 0 <= index <= INDEX_MAX:
        raise Invalid(field, f"{index!r} is not a whole number from 0 to 2^31-1")
    return index


def check_task_id(task_id: TaskId, field: str = "task_id") -> TaskId:
    """Refuse a pair of numbers that no task can have."""
    check_job_id(task_id.job_id, field)
    check_index(task_id.task_index, field)
    return task_id


def check_worker_id(worker_id: str, field: str = "worker_id") -> str:
    """Refuse what cannot name a worker's incarnation."""
    if not isinstance(worker_id, str) or not _WORKER.fullmatch(worker_id):
        raise Invalid(field, f"{worker_id!r} is not a worker id; use letters, digits and ._:@/-")
    if len(worker_id) > WORKER_ID_LENGTH_MAX:
        raise Invalid(field, f"is longer than {WORKER_ID_LENGTH_MAX} characters; shorten it")
    return worker_id

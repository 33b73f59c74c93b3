"""Ids and fences, spread into the arrays and values that statements take."""

import os
from collections.abc import Sequence
from typing import Any
from uuid import UUID

from holdfast.model.work.fence import Fence


def id_columns(task_ids: Sequence[tuple[int, int]]) -> dict[str, list[Any]]:
    """Spread the ids of tasks into two arrays."""
    return {
        "job_ids": [task_id[0] for task_id in task_ids],
        "task_indexes": [task_id[1] for task_id in task_ids],
    }


def attempt_columns(attempts: Sequence[tuple[tuple[int, int], int]]) -> dict[str, list[Any]]:
    """Spread attempts, each a task and its number, into three arrays."""
    return {
        **id_columns([task_id for task_id, _ in attempts]),
        "attempts": [attempt for _, attempt in attempts],
    }


def fence_columns(fences: Sequence[Fence]) -> dict[str, list[Any]]:
    """Spread fences into four arrays."""
    return {
        "job_ids": [fence[0][0] for fence in fences],
        "task_indexes": [fence[0][1] for fence in fences],
        "attempts": [fence[1] for fence in fences],
        "tokens": [fence[2] for fence in fences],
    }


def fence_values(fence: Fence) -> dict[str, Any]:
    """Name the four values of one fence."""
    return {
        "job_id": fence.task_id.job_id,
        "task_index": fence.task_id.task_index,
        "attempt": fence.attempt,
        "token": fence.lease_token,
    }


def new_tokens(count: int) -> list[UUID]:
    """Make lease tokens that nobody can guess.

    All by one call: a Postgres without OpenSSL opens the system's random device for each.
    """
    noise = os.urandom(16 * count)
    return [UUID(bytes=noise[at : at + 16], version=4) for at in range(0, len(noise), 16)]

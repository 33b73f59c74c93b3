"""Both faces of a method: each test of a namespace is run with either."""

import asyncio
from collections.abc import Callable
from typing import ParamSpec, TypeVar

import msgspec
import pytest

from holdfast.client.both import Bound
from holdfast.client.client import Client
from holdfast.model.submitting.spec import Entrypoint
from holdfast.wire.requests import JobRequest

Given = ParamSpec("Given")
Answer = TypeVar("Answer")


class Face:
    """One of the two ways to call a method."""

    def __init__(self, *, is_awaited: bool) -> None:
        self._is_awaited = is_awaited

    def __call__(
        self, method: Bound[Given, Answer], *args: Given.args, **kwargs: Given.kwargs
    ) -> Answer:
        """Call it and give its answer."""
        if self._is_awaited:
            return asyncio.run(method.aio(*args, **kwargs))
        return method(*args, **kwargs)


@pytest.fixture(params=[False, True], ids=["blocking", "awaited"])
def call(request: pytest.FixtureRequest) -> Face:
    """Call methods by one face, then by the other."""
    return Face(is_awaited=request.param)


@pytest.fixture
def submit(client: Client) -> Callable[..., str]:
    """A way to submit jobs into the queue of the worker by hand."""

    def submit_tasks(count: int = 1) -> str:
        inputs = [msgspec.Raw(str(number).encode()) for number in range(count)]
        request = JobRequest(entrypoint=Entrypoint(function="m:f"), queue="q", inputs=inputs)
        return client.jobs.submit(request).job_id

    return submit_tasks

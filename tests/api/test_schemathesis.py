"""Every route against its own description: what is drawn from it is answered as it says.

Requests that fit the description and requests that do not go to a real server. None may be answered
with a 5xx, an undocumented status, or content of another shape; what does not fit is refused. A few
of each are drawn with every change; at night every boundary of every field is tried, which is
thousands of requests for some routes.
"""

import asyncio
import threading
from collections.abc import Iterator
from concurrent.futures import Future
from typing import Any

import pytest
import schemathesis
from hypothesis import HealthCheck, settings
from schemathesis.checks import not_a_server_error
from schemathesis.pytest.lazy import LazySchema
from schemathesis.schemas import BaseSchema
from schemathesis.specs.openapi import checks

from holdfast.api.app import ROUTES
from holdfast.api.openapi import build_document
from holdfast.embedded import EmbeddedPostgres
from holdfast.server import Address, serve
from holdfast.services.runtime import Options
from holdfast.wire.requests import WAIT_MS_MAX
from tests.conftest import run_sql
from tests.databases import TEMPLATE

MOMENT_MS = 20
ENDLESS = ("/api/events/stream", "/api/changes/stream")
CHECKS = [
    not_a_server_error,
    checks.status_code_conformance,
    checks.content_type_conformance,
    checks.response_schema_conformance,
    checks.response_headers_conformance,
    checks.negative_data_rejection,
    checks.unsupported_method,
]


# Which answer for each thing by itself: what is wrong with one is said in the answer.
ONE_BY_ONE = {"declare_schedules"}


def hurry(case: schemathesis.Case[Any]) -> None:
    """Wait for a moment only where a long wait was drawn, or would be meant."""
    for values in (case.body, case.query):
        if isinstance(values, dict):
            drawn = str(values.get("wait_ms", ""))
            if drawn.isdecimal() and MOMENT_MS < int(drawn) <= WAIT_MS_MAX:
                values["wait_ms"] = MOMENT_MS
    if case.path == "/api/tasks/{task_id}/logs":
        case.query.setdefault("wait_ms", MOMENT_MS)


def describe_unguarded() -> dict[str, Any]:
    """Describe the routes of a server that asks for no tokens; test_roles.py has the others."""
    document = build_document(ROUTES)
    for operations in document["paths"].values():
        for operation in operations.values():
            del operation["security"]
    return document


OPERATION_IDS = [e.answer.__name__ for e in ROUTES if e.path not in ENDLESS]
# Too large is a refusal too, and has a status of its own.
REFUSALS = ["400", "404", "405", "409", "413", "415"]
# Read by each test: in a process that collects them, the cases of all routes are a gigabyte.
description = schemathesis.pytest.from_fixture("schema")
description_with_boundaries = schemathesis.pytest.from_fixture("schema_with_boundaries")


def read_schema(*, has_boundaries: bool) -> BaseSchema:
    """Read the description anew: what was drawn from it goes with the test."""
    schema = schemathesis.openapi.from_dict(describe_unguarded())
    schema.config.checks.negative_data_rejection.expected_statuses = REFUSALS
    schema.config.phases.coverage.enabled = has_boundaries
    return schema


@pytest.fixture
def schema() -> BaseSchema:
    """What is drawn with every change."""
    return read_schema(has_boundaries=False)


@pytest.fixture
def schema_with_boundaries() -> BaseSchema:
    """What is tried at night."""
    return read_schema(has_boundaries=True)


@pytest.fixture(scope="module")
def server_url(
    postgres: EmbeddedPostgres, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[str]:
    """A real server, in a thread of its own, on a database of its own."""
    name = "schemathesis"
    objects = tmp_path_factory.mktemp("objects")
    create = f"create database {name} template {TEMPLATE}"
    asyncio.run(run_sql(postgres.url("postgres"), create))
    started: Future[tuple[str, asyncio.AbstractEventLoop, asyncio.Event]] = Future()

    async def run() -> None:
        stopping = asyncio.Event()
        options = Options(postgres.url(name), object_store=str(objects))
        async with serve(options, Address(port=0)) as server:
            started.set_result((server.url, asyncio.get_running_loop(), stopping))
            await stopping.wait()

    thread = threading.Thread(target=asyncio.run, args=(run(),))
    thread.start()
    url, loop, stopping = started.result(timeout=60)
    yield url
    loop.call_soon_threadsafe(stopping.set)
    thread.join(timeout=60)
    assert not thread.is_alive()
    asyncio.run(run_sql(postgres.url("postgres"), f"drop database {name} with (force)"))


def make_test(operation_id: str, description: LazySchema) -> Any:
    """Make the test of one route."""

    @settings(
        max_examples=5,
        derandomize=True,
        deadline=None,
        database=None,
        suppress_health_check=list(HealthCheck),
    )
    @description.include(operation_id=operation_id).parametrize()
    def keeps_to_its_description(case: schemathesis.Case[Any], server_url: str) -> None:
        hurry(case)
        left_out: list[Any] = [checks.negative_data_rejection] if operation_id in ONE_BY_ONE else []
        case.call_and_validate(base_url=server_url, checks=CHECKS, excluded_checks=left_out)

    return keeps_to_its_description


# Each has a name of its own: tests that share one would be taken for one when they are shared out.
for operation_id in OPERATION_IDS:
    globals()[f"test_{operation_id}_keeps_to_its_description"] = make_test(
        operation_id, description
    )
    globals()[f"test_{operation_id}_keeps_to_its_boundaries"] = pytest.mark.nightly(
        make_test(operation_id, description_with_boundaries)
    )


def test_every_route_but_the_endless_ones_is_tried() -> None:
    names = {name for name in globals() if name.endswith("_keeps_to_its_description")}
    assert len(names) == len(ROUTES) - len(ENDLESS)

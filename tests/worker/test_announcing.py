"""Announcing functions to a server that is there, refuses, or does not know the route."""

import json
import sys
from types import ModuleType
from typing import Any

import msgspec
import pytest

from holdfast.client.functions.describing import describe
from holdfast.client.task import task
from holdfast.model.submitting.spec import KeyOfInput
from holdfast.model.workers.worker_credentials import WorkerCredential
from holdfast.worker import announcing
from holdfast.worker.announcing import announce, announce_all, declare
from tests.client import app, peer
from tests.client.peer import Say

TAKEN = Say(200, b'{"changed": ["x"], "refused": {"a:b": "lease: is out of range"}}')
ANNOUNCER = WorkerCredential("w", "s" * 32)
OLDER = Say(404, b'{"error": {"code": "not_found", "message": "there is no such route"}}')


async def test_what_is_not_taken_is_logged_and_no_failure(
    caplog: pytest.LogCaptureFixture,
) -> None:
    with peer.listening() as server:
        server.script = [Say(None), TAKEN, OLDER]
        await announce(server.url, ANNOUNCER, [])
        assert server.heard == []
        await announce(server.url, ANNOUNCER, [describe(app.greet)])
        [_, heard] = server.heard
        assert heard.headers["Holdfast-Worker"] == ANNOUNCER.header
        assert json.loads(heard.body)["functions"][0]["path"] == "tests.client.app:greet"
        assert "a:b was not taken, its options are unknown: lease" in caplog.text
        await announce(server.url, ANNOUNCER, [describe(app.greet)])
        assert "functions could not be announced" in caplog.text


async def test_more_than_a_server_takes_at_once_is_announced_in_parts() -> None:
    """What is refused of one part does not keep the next from being announced."""
    one = describe(app.greet)
    large = msgspec.structs.replace(one, doc="x" * announcing.BYTES_PER_REQUEST_MAX)
    with peer.listening() as server:
        server.script = [TAKEN, OLDER, TAKEN]
        await announce(server.url, ANNOUNCER, [one] * 501 + [large, one])
    sent = [len(json.loads(heard.body)["functions"]) for heard in server.heard]
    assert sent == [500, 1, 1, 1]


DECLARED = Say(
    200,
    b'{"changed": [], "retired": ["a:old"], "refused": {"a:b": "cron: wrong number of fields"}}',
)


def nightly() -> None:
    """Do what is done each night."""


async def test_schedules_are_declared_with_all_modules_that_may_have_had_one(
    caplog: pytest.LogCaptureFixture,
) -> None:
    caplog.set_level("INFO")
    scheduled = task(schedule="0 3 * * *", tz="Europe/Berlin", queue="q")(nightly)
    with peer.listening() as server:
        server.script = [DECLARED, OLDER, OLDER]
        await declare(server.url, ANNOUNCER, [], modules=[])
        assert server.heard == []
        await declare(server.url, ANNOUNCER, [app.greet, scheduled], modules=["app.emptied"])
        body = json.loads(server.heard[0].body)
        own = "tests.worker.test_announcing"
        assert body["modules"] == ["app.emptied", "tests.client.app", own]
        [declared] = body["schedules"]
        assert declared["function"] == "tests.worker.test_announcing:nightly"
        assert declared["terms"] == {"cron": "0 3 * * *", "tz": "Europe/Berlin"}
        assert declared["spec"]["queue"] == "q"
        assert "schedule a:old retires" in caplog.text
        assert "the schedule of a:b was not taken: cron" in caplog.text
        await declare(server.url, ANNOUNCER, [app.greet], modules=[])
        assert "could not be declared" not in caplog.text
        await declare(server.url, ANNOUNCER, [scheduled], modules=[])
        assert "1 schedules could not be declared" in caplog.text


async def test_a_module_that_was_imported_is_named_though_no_function_is_left_in_it(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    for name in ("jobs_of_old", "no name", "x" * 201):
        monkeypatch.setitem(sys.modules, name, ModuleType(name))
    with peer.listening() as server:
        server.script = [DECLARED]
        await announce_all(server.url, ANNOUNCER, [])
        [heard] = server.heard
    body = json.loads(heard.body)
    assert body["schedules"] == []
    assert {"jobs_of_old", "tests.client.app"} <= set(body["modules"])
    # What cannot declare anything is not worth a word.
    assert not {"no name", "x" * 201, "json", "__main__", "holdfast"} & set(body["modules"])


async def test_more_modules_than_a_server_takes_at_once_are_named_in_parts() -> None:
    scheduled = task(schedule="0 3 * * *")(nightly)
    spare = [f"app.m{number:05}" for number in range(announcing.MODULES_PER_REQUEST_MAX)]
    with peer.listening() as server:
        server.script = [DECLARED, DECLARED]
        await declare(server.url, ANNOUNCER, [scheduled], modules=spare)
    bodies = [json.loads(heard.body) for heard in server.heard]
    assert [len(body["modules"]) for body in bodies] == [len(spare), 1]
    # Each schedule goes with its module: a part without it would retire it.
    assert [len(body["schedules"]) for body in bodies] == [0, 1]
    assert bodies[1]["modules"] == ["tests.worker.test_announcing"]


def of_a_tenant(tenant: str = "acme", order: dict[str, int] = {}) -> None:  # noqa: B006
    """Do what is done for a tenant each night."""


async def test_a_schedule_whose_key_leads_to_nothing_does_not_stop_the_others(
    caplog: pytest.LogCaptureFixture,
) -> None:
    nights: Any = {"schedule": "0 3 * * *", "queue": "q"}
    keyed = task(**nights, concurrency_key=KeyOfInput("tenant"))(of_a_tenant)
    broken = task(**nights, concurrency_key=KeyOfInput("order.id"))(of_a_tenant)
    with peer.listening() as server:
        server.script = [DECLARED]
        await declare(server.url, ANNOUNCER, [broken, keyed], modules=[])
        [declared] = json.loads(server.heard[0].body)["schedules"]
    assert declared["spec"]["concurrency_key"] == "acme"
    assert "of_a_tenant was not taken: concurrency_key.input: names 'order.id'" in caplog.text

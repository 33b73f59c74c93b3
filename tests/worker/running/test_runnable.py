"""What an attempt's code knows of itself, and how it reaches the server."""

from datetime import UTC, datetime, timedelta

import pytest

from holdfast.errors import Invalid, Unavailable
from holdfast.model.submitting.order import Output
from holdfast.wire.status import Changed
from holdfast.worker.running.runnable import connect, identify
from tests.worker.claims import an_attempt

NOWHERE = "http://127.0.0.1:1"


def test_an_attempt_is_known_by_its_task_number_and_token() -> None:
    attempt = an_attempt(outputs=[Output(dataset="d", version=3)], environment={"A": "b"})
    identity = identify(attempt, NOWHERE)
    assert identity.lease == (attempt.task_id, attempt.number, attempt.lease_token)
    assert (identity.server, identity.job_name, identity.num_tasks) == (NOWHERE, "sample", 1)
    assert (identity.outputs, identity.environment) == (attempt.job.outputs, {"A": "b"})
    assert identity.deadline is None


def test_a_timeout_is_a_deadline_from_now_on() -> None:
    before = datetime.now(UTC)
    identity = identify(an_attempt(timeout=60.0), NOWHERE)
    assert identity.deadline is not None
    assert before + timedelta(seconds=60) <= identity.deadline
    assert identity.deadline <= datetime.now(UTC) + timedelta(seconds=60)


def test_calls_run_on_a_thread_of_their_own() -> None:
    connection = connect(NOWHERE)
    call = connection.transport.call("GET", "/", Changed, seconds_max=0.5)
    with pytest.raises(Unavailable):
        connection.loop_thread.run(call)
    connection.loop_thread.stop(connection.transport.__aexit__())
    late = connection.transport.call("GET", "/", Changed)
    with pytest.raises(Invalid, match="closed"):
        connection.loop_thread.run(late)

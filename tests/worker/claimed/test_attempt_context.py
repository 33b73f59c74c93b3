"""What a function in this process is told of its attempt, which is looked up when it asks."""

from datetime import UTC, datetime, timedelta

from holdfast.client.context import Connection
from holdfast.wire.requests import Progress
from holdfast.worker.claimed.attempt import Attempt
from holdfast.worker.claimed.attempt_context import AttemptContext
from holdfast.worker.processes.clock import boot_clock
from tests.worker.claims import an_attempt

SERVER = "http://127.0.0.1:1"


def make_context(attempt: Attempt) -> AttemptContext:
    return AttemptContext(attempt, SERVER, None, connection=_nobody)


def test_it_says_which_attempt_it_is() -> None:
    attempt = an_attempt()
    context = make_context(attempt)
    assert (context.task_id, context.attempt) == attempt.key
    assert context.identity.lease == (*attempt.key, attempt.lease_token)
    assert context.identity.server == SERVER
    assert context.identity is context.identity
    job = attempt.job
    assert (context.correlation_id, context.trace_id) == (job.correlation_id, job.trace_id)
    assert context.environment == job.environment


def test_its_deadline_counts_from_the_moment_at_which_its_code_began() -> None:
    attempt = an_attempt(timeout=60.0)
    attempt.started_at = boot_clock() - 20.0
    context = make_context(attempt)
    assert context.deadline is not None
    left = context.deadline - datetime.now(UTC)
    assert timedelta(seconds=30) < left <= timedelta(seconds=40)
    assert make_context(an_attempt()).deadline is None


def test_it_notes_progress_and_sees_that_it_should_stop() -> None:
    attempt = an_attempt()
    context = make_context(attempt)
    context.progress(0.5, "half")
    assert attempt.progress == Progress(0.5, "half")
    assert context.cancelled is False
    assert attempt.ask_to_stop("soft", boot_clock())
    assert context.cancelled is True


def _nobody() -> Connection:
    raise AssertionError("nobody is called here")

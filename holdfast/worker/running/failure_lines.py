"""One line in the worker's own log for each attempt that fails."""

import logging
from contextvars import Context
from functools import partial

from holdfast.model.work.outcomes import NOT_RETRYABLE
from holdfast.tracing.current import Subject, describe
from holdfast.worker.running.attempt_outcome import Outcome

log = logging.getLogger("holdfast.attempts")
LINE_LENGTH_MAX = 500


def log_failure(attempt: Subject, outcome: Outcome) -> None:
    """Log how an attempt failed; other ends are no news for whoever looks after the worker."""
    if outcome.status not in ("failed", "worker_failed") or outcome.put_off is not None:
        return
    # In a context of its own: the attempt did not write this.
    line = partial(log.warning, "%s", describe_failure(attempt, outcome), extra=describe(attempt))
    Context().run(line)


def describe_failure(attempt: Subject, outcome: Outcome) -> str:
    """Say in a line which attempt failed, of what type, why, and that it is final, if it is."""
    error = (outcome.error or f"exit code {outcome.exit_code}").strip()
    reason = error.splitlines()[0] if error else "no reason given"
    error_class = outcome.error_class
    if error_class is not None and not reason.startswith(error_class):
        reason = f"{error_class}: {reason}"
    if len(reason) > LINE_LENGTH_MAX:
        reason = f"{reason[: LINE_LENGTH_MAX - 1]}…"
    is_final = outcome.status == "failed" and error_class in NOT_RETRYABLE
    end = "failed" if outcome.status == "failed" else "could not be run here"
    about = f"task {attempt.task_id} ({attempt.job.type}) attempt {attempt.number}"
    return f"{about} {end}: {reason}{' (not retried)' if is_final else ''}"

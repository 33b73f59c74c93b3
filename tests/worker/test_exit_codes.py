"""A supervisor can tell a worker that ended itself from one that was refused or replaced."""

from holdfast.cli.app import EXIT_NO, EXIT_UNAVAILABLE
from holdfast.cli.commands.processes.worker import EXIT_REPLACED
from holdfast.worker.exit_codes import EXIT_BROKEN, EXIT_OVERRUN, EXIT_UNSTOPPABLE


def test_a_worker_to_be_started_again_is_told_from_every_other_end() -> None:
    own = {EXIT_OVERRUN, EXIT_UNSTOPPABLE, EXIT_BROKEN}
    assert {0, EXIT_NO, EXIT_UNAVAILABLE, EXIT_REPLACED}.isdisjoint(own)
    assert max(own) < 128, "above are those of signals"

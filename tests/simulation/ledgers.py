"""A ledger of the simulation by itself, with nobody who listens but a list."""

from datetime import datetime
from typing import Any

from holdfast.model.submitting.spec import Limits, Submission
from holdfast.rules.submitting.submission import complete_submission, parse_spec
from holdfast.simulation.ledger import Job, Lease, Ledger, Move


class Heard:
    """What a ledger has told of."""

    def __init__(self) -> None:
        self.moves: list[Move] = []
        self.released: list[Lease] = []
        self.ended: list[Job] = []

    def on_move(self, move: Move) -> None:
        """Note a move."""
        self.moves.append(move)

    def on_release(self, lease: Lease, now: datetime) -> None:
        """Note that a lease is given up."""
        self.released.append(lease)

    def on_job_end(self, job: Job, now: datetime) -> None:
        """Note that a job has ended."""
        self.ended.append(job)


def make_ledger(heard: Heard | None = None) -> Ledger:
    """Make an empty ledger."""
    return Ledger(1, heard or Heard())


def submission(fields: dict[str, Any], tasks: int | None = None) -> Submission:
    """Complete a submission as a server does."""
    inputs = None if tasks is None else ("null",) * tasks
    return complete_submission(Submission(parse_spec(fields), inputs), Limits())

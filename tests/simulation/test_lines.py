"""Lines of tasks that are alike."""

from holdfast.simulation.buckets import Buckets
from holdfast.simulation.ledger import Job
from holdfast.simulation.lines import Lines
from tests.simulation.ledgers import make_ledger, submission
from tests.simulation.small_plans import COMMAND, START


def test_what_is_alike_stands_in_one_line_and_what_was_cancelled_in_none() -> None:
    ledger = make_ledger()
    lines = Lines(Buckets({}), {"": "owner"})
    jobs: list[Job] = []
    for owner in ("ann", "ben", "ann"):
        jobs.append(ledger.submit(submission(COMMAND | {"owner": owner}), START))
        lines.add(jobs[-1].tasks[0])
    assert [len(group.look(9)) for group in lines] == [2, 1]
    ledger.cancel(jobs[0], "hard", START, reason="not wanted")
    assert [group.look(9) for group in lines] == [jobs[2].tasks, jobs[1].tasks]
    lines.remove(jobs[2].tasks)
    assert [group.look(9) for group in lines] == [jobs[1].tasks]

"""Members of real gangs find each other by their variables, in every round."""

import os
import signal
import sys
from pathlib import Path

from holdfast.store.database import Database
from tests.audits import assert_audit_is_silent
from tests.waiting import eventually
from tests.worker.placed import ring_member
from tests.worker.placed_workplace import PlacedWorkplace


async def test_the_round_after_a_loss_closes_the_ring_of_those_that_have_not_succeeded(
    placed: PlacedWorkplace, tmp_path: Path, database: Database
) -> None:
    placed.employ()
    program = ring_member.__file__
    first = await placed.place(
        {"command": [sys.executable, "-I", "-S", program, str(tmp_path)]},
        replicas=4,
        coscheduling={},
        resources={"ports": ["ring"], "cpu": 0.1},
        max_retries_failure=1,
        backoff={"base": 0.0},
    )
    members = [first.replace(".0", f".{index}") for index in range(4)]
    await placed.reach(first, "SUCCEEDED")
    await eventually(lambda: all((tmp_path / str(index)).exists() for index in (1, 2, 3)))
    os.kill(int((tmp_path / "2").read_text()), signal.SIGKILL)
    for member in members:
        await placed.reach(member, "SUCCEEDED")
    assert await placed.log(first) == b"ring of 0 1 2 3\n"
    assert await placed.log(members[1]) == b"ring of 1 2 3\n"
    assert [len(await placed.attempts(member)) for member in members] == [1, 2, 2, 2]
    await assert_audit_is_silent(database)

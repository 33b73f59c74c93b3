"""Devices that placed attempts were given: what their processes see, also after a restart."""

from pathlib import Path
from typing import Any

import msgspec

from tests.audits import assert_audit_is_silent
from tests.waiting import eventually
from tests.worker.living import await_process
from tests.worker.placed.test_adoption import come_back
from tests.worker.placed.test_life import begin
from tests.worker.placed_workplace import ROOM, PlacedWorkplace


async def test_a_command_sees_the_devices_that_it_was_given_and_no_others(
    placed: PlacedWorkplace,
) -> None:
    placed.employ(capacity=msgspec.structs.replace(ROOM, gpu=3), has_devices=True)
    script = "echo $CUDA_VISIBLE_DEVICES:$ROCR_VISIBLE_DEVICES:$HOLDFAST_DEVICES"
    environment = {"CUDA_VISIBLE_DEVICES": "0,1,2,3,4,5,6,7"}
    # Who runs at the same time has others; who asks for none has none, whatever it was told.
    first = await placed.place({"shell": f"{script}; sleep 600"}, resources={"gpu": 1})
    await eventually(lambda: placed.log(first))
    pair = await placed.place({"shell": script}, resources={"gpu": 2}, environment=environment)
    none = await placed.place({"shell": script}, environment=environment)
    assert await placed.outcome(pair) == await placed.outcome(none) == ("SUCCEEDED", 0, None)
    assert await placed.log(first) == b"0:0:0\n"
    assert await placed.log(pair) == b"1,2:1,2:1,2\n"
    assert await placed.log(none) == b"::\n"
    await placed.cancel(first, "hard")


async def test_where_no_devices_are_known_nothing_is_hidden(placed: PlacedWorkplace) -> None:
    placed.employ()
    script = "echo ${CUDA_VISIBLE_DEVICES-unset} ${HOLDFAST_DEVICES-unset}"
    task_id = await placed.place({"shell": script}, environment={"CUDA_VISIBLE_DEVICES": "4"})
    assert (await placed.outcome(task_id))[0] == "SUCCEEDED"
    assert await placed.log(task_id) == b"4 unset\n"


async def test_adopted_attempts_keep_their_devices(
    placed: PlacedWorkplace, tmp_path: Path, database: Any
) -> None:
    has = {"capacity": msgspec.structs.replace(ROOM, gpu=2), "has_devices": True}
    first = placed.employ(**has)
    task_id = await begin(placed, tmp_path, resources={"gpu": 1})
    await first.crash()
    await come_back(placed, first, **has)
    other = await placed.place({"shell": "echo $HOLDFAST_DEVICES"}, resources={"gpu": 1})
    await placed.reach(other, "SUCCEEDED")
    assert await placed.log(other) == b"1\n"
    assert await_process(tmp_path / "task").environ()["CUDA_VISIBLE_DEVICES"] == "0"
    [lease] = await placed.about("leases", task_id)
    assert lease["devices"] == '["0"]'
    (tmp_path / "go").touch()
    await placed.reach(task_id, "SUCCEEDED")
    await assert_audit_is_silent(database)

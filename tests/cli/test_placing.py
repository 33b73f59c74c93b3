"""What placed work is asked for on the command line, and when a job is placed at all."""

from pathlib import Path
from typing import Any

import pytest

from holdfast.cli.placing import NO_PLACING, PlacedFlags, with_workspace
from holdfast.cli.spec import JobFlags, describe_command, find_user
from holdfast.client.bundle import pack
from holdfast.client.client import Client
from holdfast.errors import Invalid
from holdfast.model.submitting.spec import Entrypoint
from holdfast.model.workers.resources import Constraint, Coscheduling, Resources
from holdfast.wire.requests import JobRequest
from tests.cli.conftest import Service


def test_flags_of_placed_work_become_fields_of_its_spec(tmp_path: Path) -> None:
    (tmp_path / "packages").write_text("torch\n")
    flags = PlacedFlags(
        gang=True,
        group_by="rack",
        cpu=2,
        memory="4GB",
        disk="1.5GiB",
        gpu="2:H100",
        port=("http", "rpc"),
        hosts="spread",
        constraint=("region=eu", "gpu_gb>=40"),
        requirement=("numpy==2.1",),
        requirements=str(tmp_path / "packages"),
    )
    assert flags.fields() == {
        "resources": Resources(2, 4 * 10**9, 3 << 29, 2, "H100", ["http", "rpc"]),
        "constraints": [Constraint("region", "=", "eu"), Constraint("gpu_gb", ">=", 40)],
        "coscheduling": Coscheduling("rack", "spread"),
        "requirements": ["numpy==2.1", "torch"],
    }


def test_without_them_there_is_nothing_to_say() -> None:
    assert NO_PLACING.fields() == {}
    assert NO_PLACING.find_given() is None


@pytest.mark.parametrize(
    ("given", "name"),
    [
        ({"placed": True}, "placed"),
        ({"gang": True}, "gang"),
        ({"group_by": "rack"}, "group-by"),
        ({"gpu": "1"}, "gpu"),
        ({"port": ("http",)}, "port"),
        ({"workspace": Path("here")}, "workspace"),
        ({"requirements": "-"}, "requirements"),
    ],
)
def test_any_of_them_has_the_job_placed(given: dict[str, Any], name: str) -> None:
    assert PlacedFlags(**given).find_given() == name
    with pytest.raises(Invalid, match=f"{name}: is for placed work, and queue q for claimed"):
        JobFlags(queue="q").fields(PlacedFlags(**given))


def test_amounts_alone_go_with_a_queue_that_is_named() -> None:
    amounts = PlacedFlags(cpu=2.0, memory="1GB", disk="2GB")
    claimed = JobFlags(queue="q").fields(amounts)
    resources = Resources(cpu=2.0, memory=10**9, disk=2 * 10**9)
    assert (claimed["queue"], claimed["resources"]) == ("q", resources)
    assert "queue" not in JobFlags().fields(amounts)
    assert amounts.find_given() == "cpu"


def test_a_job_is_in_a_queue_or_placed() -> None:
    entrypoint = Entrypoint(command=["ls"])
    owner = find_user()
    queued = JobRequest(entrypoint=entrypoint, queue="default", replicas=2, owner=owner)
    assert describe_command(["ls"], JobFlags(replicas=2)) == queued
    placed = describe_command(["ls"], JobFlags(scheduling_timeout=9), PlacedFlags(placed=True))
    assert placed == JobRequest(entrypoint=entrypoint, scheduling_timeout=9, owner=owner)


def test_members_that_share_something_are_a_gang() -> None:
    assert PlacedFlags(group_by="rack").fields() == {"coscheduling": Coscheduling("rack")}
    assert PlacedFlags(gang=True).fields() == {"coscheduling": Coscheduling()}


@pytest.mark.parametrize(
    ("given", "problem"),
    [
        ({"memory": "4XB"}, "memory: '4XB' is not a size; write"),
        ({"disk": "lots"}, "disk: 'lots' is not a size; write"),
        ({"gpu": "two"}, "gpu: 'two' is not a number of GPUs; write"),
        ({"gpu": "0"}, "gpu: is none at all; leave it out"),
        ({"constraint": ("rack~r1",)}, "constraint: 'rack~r1' is not a constraint; write"),
    ],
)
def test_what_cannot_be_asked_for_is_refused_with_its_flag(
    given: dict[str, Any], problem: str
) -> None:
    with pytest.raises(Invalid, match=problem):
        PlacedFlags(**given).fields()


def test_a_workspace_is_uploaded_and_named_by_its_content(service: Service, tmp_path: Path) -> None:
    folder = tmp_path / "folder"
    folder.mkdir()
    (folder / "train.py").write_text("print('hello')")
    request = JobRequest(entrypoint=Entrypoint(command=["ls"]))
    with Client(service.url) as client:
        assert with_workspace(client, request, NO_PLACING) is request
        named = with_workspace(client, request, PlacedFlags(workspace=folder))
        with pytest.raises(Invalid, match=r"workspace: .* is not a folder"):
            with_workspace(client, request, PlacedFlags(workspace=tmp_path / "none"))
    assert named.bundle == pack(folder, tmp_path / "bundle.zip").hash

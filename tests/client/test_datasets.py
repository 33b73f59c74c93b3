"""Datasets as their readers and writers hold them, on a real server."""

from typing import Any

import pytest

import holdfast as hf
from holdfast.client import datasets
from holdfast.client.client import Client
from holdfast.model.submitting.spec import Entrypoint
from holdfast.wire.requests import JobRequest
from tests.client import app
from tests.client.hand import Hand


def fill(client: Client, hand: Hand, version: int, *keys: str) -> None:
    """Have a job write entries to a version."""
    output = hf.Output("events", version)
    app.double.with_options(outputs=[output]).submit(1)
    claim = hand.claim()
    entries = [{"partition_key": key, "uri": f"{key}{version}"} for key in keys]
    hand.commit(claim, entries)


async def test_a_dataset_is_held_by_both_faces(
    client: Client, hand: Hand, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(datasets, "PER_PAGE", 1)
    events = client.create_dataset("events", {"team": "search"})
    assert repr(events) == "Dataset(events)"
    with pytest.raises(hf.NotFound, match="current version of dataset"):
        events.current()
    first = events.open_version()
    fill(client, hand, first.number, "a", "b")
    assert events.cut_over(first.number, reason="first").changed
    current = await events.current.aio()
    second = await events.open_version.aio(based_on=1)
    fill(client, hand, second.number, "c")
    assert [e.key for e in second.entries()] == ["a", "b", "c"]
    assert (await events.cut_over.aio(2)).previous == 1
    assert [e.uri async for e in current.entries.aio()] == ["a1", "b1"]
    assert repr(current) == "DatasetVersion(events, 1)"
    assert [(d.kind, d.key) for d in events.compare(1, "current")] == [("added", "c")]
    assert [v.version for v in events.versions()] == [2, 1]
    assert second.status().entries == 3
    assert [c.version for c in events.cut_overs(1)] == [2]
    assert (events.drop(1), events.drop(1)) == (True, False)
    assert [d.current_version for d in client.datasets("ev")] == [2]
    client.create_dataset("events.raw")
    assert [d.name for d in await client.datasets.aio()] == ["events", "events.raw"]


def test_a_cut_over_whose_answer_was_lost_is_not_made_twice(client: Client) -> None:
    events = client.create_dataset("events")
    for _ in range(2):
        events.open_version()
    first = events.cut_over(1, idempotency_key="k")
    events.cut_over(2)
    assert events.cut_over(1, idempotency_key="k") == first
    assert events.current().number == 2
    with pytest.raises(hf.KeyReused):
        events.cut_over(2, idempotency_key="k")


def test_what_a_cut_over_starts_is_put_listed_and_removed(client: Client, hand: Hand) -> None:
    events = client.dataset("events")
    with pytest.raises(hf.NotFound, match="there is no dataset events"):
        events.on_cut_over("double", app.double, 2)
    client.create_dataset("events")
    events.open_version()
    request = JobRequest(entrypoint=Entrypoint(command=["true"]), queue="elsewhere")
    events.on_cut_over("double", app.double, 2)
    events.on_cut_over("true", request)
    with pytest.raises(hf.Invalid, match="args: go with a function only"):
        events.on_cut_over("true", request, 2)
    assert [trigger.name for trigger in events.triggers()] == ["double", "true"]
    assert (events.remove_trigger("true"), events.remove_trigger("true")) == (True, False)
    events.cut_over(1)
    claim = hand.claim()
    assert b'"HOLDFAST_DATASET_VERSION":"1"' in bytes(claim.job)
    hand.finish(claim, 4)


def test_refusals_of_datasets_are_exceptions_again(client: Client, hand: Hand) -> None:
    events = client.create_dataset("events")
    version = events.open_version().number
    job: Any = app.double.with_options(outputs=[hf.Output("events")]).submit(1)
    with pytest.raises(hf.IllegalMove, match=f"not ended \\({job.id}\\)"):
        events.cut_over(version)
    with pytest.raises(hf.Invalid, match="no dataset others") as refused:
        app.double.with_options(outputs=[hf.Output("others")]).submit(1)
    assert refused.value.field == "outputs[0].dataset"
    assert events.cut_over(version, force=True).changed
    hand.finish(hand.claim(), 2)

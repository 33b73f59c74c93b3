"""The names of events, ours and others'."""

import asyncpg
import pytest

from holdfast.api.event_names import ALIASES, TYPES, find_note, parse_event_types
from holdfast.errors import Invalid, TooLarge
from tests.api.face import Face
from tests.cluster import Cluster
from tests.store.raw import Raw
from tests.world import World


@pytest.mark.parametrize("name", TYPES)
def test_an_events_own_name_is_its_name(name: str) -> None:
    assert parse_event_types(name) == (name,)
    assert parse_event_types(name.upper()) == (name,)


@pytest.mark.parametrize(
    ("alias", "names"),
    [
        ("job_claimed", "claimed placed"),
        ("job_started", "started"),
        ("job_succeeded", "succeeded"),
        ("job_failed", "failed"),
        ("job_cancelled", "killed"),
        ("job_dead_lettered", "dead_lettered"),
        ("job_compensated", "compensated"),
    ],
)
def test_the_names_of_other_systems_are_understood(alias: str, names: str) -> None:
    assert parse_event_types(alias) == tuple(names.split())


def test_renewals_and_heartbeats_are_understood_though_they_are_no_events() -> None:
    assert parse_event_types("job_lease_renewed") == ("lease_renewed",)
    assert parse_event_types("job_heartbeat") == ("heartbeat",)
    assert len(ALIASES) == 9


def test_events_of_user_code_are_asked_for_together_or_by_their_kind() -> None:
    assert parse_event_types("USER") == ("user",)
    assert parse_event_types("user:Loaded") == ("user:Loaded",)
    for name in ("user:", "user:\x00"):
        with pytest.raises(Invalid):
            parse_event_types(name)
    with pytest.raises(TooLarge):
        parse_event_types("user:" + "x" * 257)


def test_notes_are_told_from_events() -> None:
    for kind in ("heartbeat", "user", "user:succeeded"):
        assert find_note((kind,)) == kind
    assert find_note(("succeeded",)) is None
    assert find_note(None) is None


def test_none_is_all_and_nonsense_is_refused() -> None:
    assert parse_event_types(None) is None
    with pytest.raises(Invalid, match="type: 'job_eaten' is not a type of event; use one of"):
        parse_event_types("job_eaten")


async def test_the_list_of_names_is_the_databases(database_url: str) -> None:
    connection = await asyncpg.connect(database_url)
    try:
        rows = await Raw(connection).rows(
            "select unnest(enum_range(null::holdfast.event_type))::text"
        )
    finally:
        await connection.close()
    assert tuple(row[0] for row in rows) == TYPES


async def test_a_placement_is_found_as_a_claim(quiet_face: Face, world: World) -> None:
    cluster = Cluster(world)
    await cluster.add("w1")
    job_id = await world.submit(queue=None)
    assert len(await cluster.place()) == 1
    for where in (f"/api/tasks/{job_id}.0/events", f"/api/jobs/{job_id}/events", "/api/events"):
        [event] = (await quiet_face.get(f"{where}?type=job_claimed")).json["events"]
        assert (event["type"], event["actor"], event["job_id"]) == (
            "placed",
            "scheduler",
            str(job_id),
        )

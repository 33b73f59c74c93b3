"""`client.events`: what happened to all jobs."""

from datetime import UTC, datetime

from holdfast.client.client import Client
from tests.client.peer import Peer, Say

EMPTY = Say(body=b'{"events": [], "next_page_token": null}')


async def test_events_of_all_jobs_are_searched_by_both_faces(stranger: Peer) -> None:
    stranger.script = [EMPTY]
    since = datetime(2026, 11, 16, 12, tzinfo=UTC)
    with Client(stranger.url) as client:
        assert client.events.list().events == []
        found = await client.events.list.aio(
            type="failed", since=since, until=since, correlation_id="order 7", count_max=5
        )
    assert found.next_page_token is None
    plain, full = (heard.path for heard in stranger.heard)
    assert plain == "/api/events?page_size=1000"
    time = "2026-11-16T12:00:00%2B00:00"
    assert full == (
        f"/api/events?type=failed&since={time}&until={time}&correlation_id=order+7&page_size=5"
    )

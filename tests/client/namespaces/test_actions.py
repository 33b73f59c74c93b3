"""`client.actions` on a real server."""

from datetime import UTC, datetime, timedelta

from holdfast.client.client import Client
from tests.client.namespaces.conftest import Face


def test_what_was_done_is_listed(call: Face, client: Client) -> None:
    call(client.queues.pause, "mail")
    [done] = call(client.actions.list, action="pause_queue", subject="queue:mail").actions
    assert done.actor == call(client.queues.list).queues[0].paused_by
    assert call(client.actions.list, actor="nobody").actions == []
    later = datetime.now(UTC) + timedelta(hours=1)
    assert call(client.actions.list, since=later).actions == []

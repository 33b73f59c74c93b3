"""`client.limits` on a real server."""

import pytest

from holdfast.client.client import Client
from holdfast.errors import Invalid, NotFound
from tests.client.namespaces.conftest import Face


def test_a_limit_is_put_read_and_deleted(call: Face, client: Client) -> None:
    changed = call(client.limits.put, "mail", "queue", slots=5, only_for="mail")
    assert (changed.changed, changed.limit.most, changed.limit.only_for) == (True, 5.0, "mail")
    rate = call(client.limits.put, "api@eu", "key", rate="100/minute", burst=20).limit
    assert (rate.kind, rate.most, rate.period, rate.burst) == ("bucket", 100.0, 60.0, 20.0)
    window = call(client.limits.put, "w", "owner", rate="5/10s", window=True, in_queue="q").limit
    assert (window.kind, window.period, window.in_queue) == ("window", 10.0, "q")
    listed = call(client.limits.list)
    assert [limit.name for limit in listed.limits] == ["api@eu", "mail", "w"]
    assert call(client.limits.get, "api@eu").limit == rate
    assert call(client.limits.get, "mail", value="none").buckets == []
    for limit in listed.limits:
        assert call(client.limits.delete, limit.name)
    assert not call(client.limits.delete, "mail")
    with pytest.raises(NotFound):
        call(client.limits.get, "mail")


def test_a_limit_is_of_slots_or_of_a_rate(call: Face, client: Client) -> None:
    with pytest.raises(Invalid, match="slots: or a rate"):
        call(client.limits.put, "mail", "queue")
    with pytest.raises(Invalid, match="slots: or a rate"):
        call(client.limits.put, "mail", "queue", slots=1, rate="1/s")
    with pytest.raises(Invalid, match="rate: 'often' is not a rate"):
        call(client.limits.put, "mail", "queue", rate="often")

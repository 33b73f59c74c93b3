"""`client.shares` on a real server."""

from holdfast.client.client import Client
from holdfast.wire.shares import ShareRuleRequest
from tests.client.namespaces.conftest import Face


def test_a_rule_is_set_and_taken_back(call: Face, client: Client) -> None:
    stored = call(client.shares.set, "team/mail:eu", ShareRuleRequest(weights={"ann": 2.0}))
    assert (stored.queue, stored.by, stored.weights) == ("team/mail:eu", "owner", {"ann": 2.0})
    call(client.shares.set, None, ShareRuleRequest("key"))
    assert [rule.queue for rule in call(client.shares.list).rules] == [None, "team/mail:eu"]
    [alone] = call(client.shares.list, "team/mail:eu").rules
    assert alone.by == "owner"
    assert call(client.shares.unset, None)
    assert call(client.shares.unset, "team/mail:eu")
    assert not call(client.shares.unset, "team/mail:eu")

"""`client.tokens` on a real server."""

from holdfast.client.client import Client
from tests.client.namespaces.conftest import Face


def test_a_token_is_made_rotated_and_revoked(call: Face, client: Client) -> None:
    made = call(client.tokens.create, "me@home", ["read", "data"], queues=["q"])
    assert made.token.startswith(f"hf_{made.token_id}_")
    again = call(client.tokens.rotate, "me@home", grace_seconds=5)
    assert again.token != made.token
    [token] = call(client.tokens.list).tokens
    assert (token.name, token.roles, token.queues) == ("me@home", ["data", "read"], ["q"])
    call(client.tokens.revoke, made.token_id)
    assert call(client.tokens.list).tokens == []
    assert len(call(client.tokens.list, revoked=True).tokens) == 1

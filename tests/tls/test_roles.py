"""Who calls a worker: only the certificate of a server says that it is one."""

from holdfast.tls.contexts import build_client_context, build_server_context
from holdfast.tls.roles import is_server
from tests.certificates import TestAuthority, shake_hands


def test_only_a_server_is_a_server(authority: TestAuthority) -> None:
    listener = build_server_context(authority.issue("w", role="worker"), authority.ca_file)
    for role, expected in (("server", True), ("worker", False), ("client", False)):
        mine = authority.issue(f"my-{role}", role=role)  # type: ignore[arg-type]
        _, end = shake_hands(listener, build_client_context(authority.ca_file, mine))
        assert is_server(end.getpeercert()) is expected
    assert not is_server(None)

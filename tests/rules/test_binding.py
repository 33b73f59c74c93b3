"""A server listens beyond loopback only with tokens, and with TLS here or at a proxy."""

import pytest

from holdfast.errors import Invalid
from holdfast.rules.binding import check_bind, check_database

ELSEWHERE = ["0.0.0.0", "::", "192.0.2.1", "2001:db8::1"]


@pytest.mark.parametrize("host", ["127.0.0.1", "127.8.8.8", "::1", "localhost"])
def test_loopback_asks_for_nothing(host: str) -> None:
    check_bind(host, requires_tokens=False, has_tls=False, behind_proxy=False)


@pytest.mark.parametrize("host", ELSEWHERE)
@pytest.mark.parametrize(("has_tls", "behind_proxy"), [(True, False), (False, True)])
def test_tokens_and_tls_or_a_proxy_are_enough(host: str, has_tls: bool, behind_proxy: bool) -> None:
    check_bind(host, requires_tokens=True, has_tls=has_tls, behind_proxy=behind_proxy)


@pytest.mark.parametrize("host", [*ELSEWHERE, "example.com", ""])
def test_what_is_lacking_is_named(host: str) -> None:
    with pytest.raises(Invalid, match=r"--require-tokens .*tokens create.*--behind-proxy"):
        check_bind(host, requires_tokens=False, has_tls=False, behind_proxy=False)
    with pytest.raises(Invalid, match="--require-tokens") as refused:
        check_bind(host, requires_tokens=False, has_tls=True, behind_proxy=False)
    assert "proxy" not in str(refused.value)
    with pytest.raises(Invalid, match="--behind-proxy") as refused:
        check_bind(host, requires_tokens=True, has_tls=False, behind_proxy=False)
    assert "--require-tokens" not in str(refused.value)


def test_a_name_is_no_address_to_listen_on() -> None:
    with pytest.raises(Invalid, match="use one, such as"):
        check_bind("example.com", requires_tokens=True, has_tls=True, behind_proxy=False)


@pytest.mark.parametrize("hosts", [[], ["/run/postgres"], ["127.0.0.1"], ["::1", "localhost"]])
def test_a_database_on_this_machine_needs_no_tls(hosts: list[str]) -> None:
    check_database(hosts, None, is_trusted=False)


@pytest.mark.parametrize("sslmode", ["require", "verify-ca", "verify-full"])
def test_a_database_elsewhere_is_reached_by_tls(sslmode: str) -> None:
    check_database(["db.example"], sslmode, is_trusted=False)


@pytest.mark.parametrize("sslmode", [None, "disable", "allow", "prefer"])
def test_a_database_elsewhere_without_tls_is_refused_unless_its_network_is_trusted(
    sslmode: str | None,
) -> None:
    check_database(["db.example"], sslmode, is_trusted=True)
    with pytest.raises(Invalid, match=r"db.example .*verify-full.*--trust-database-network"):
        check_database(["127.0.0.1", "db.example"], sslmode, is_trusted=False)

"""Addresses are shown without secrets, and name the place."""

import pytest

from holdfast.model.addresses import has_password, postgres_address, postgres_hosts, without_secrets


@pytest.mark.parametrize(
    ("url", "shown"),
    [
        ("http://me:secret@host:8/x", "http://me@host:8/x"),
        ("http://:secret@host", "http://host"),
        ("http://127.0.0.1:7878", "http://127.0.0.1:7878"),
        ("postgresql://me:secret@a,b:7/x?password=secret&ssl=on", "postgresql://me@a,b:7/x?ssl=on"),
        ("postgresql://p@/x?host=/run/a&port=5432", "postgresql://p@/x?host=/run/a&port=5432"),
        ("postgresql://me:half/secret@host/x", "a URL that cannot be read"),
        ("http://[::1", "a URL that cannot be read"),
    ],
)
def test_a_url_is_shown_without_its_secrets(url: str, shown: str) -> None:
    assert without_secrets(url) == shown


@pytest.mark.parametrize(
    ("url", "address"),
    [
        ("postgresql://me:secret@db/x", "db:5432"),
        ("postgresql://me:secret@db:6432/x", "db:6432"),
        ("postgresql://a:1,b,[::1],[::2]:3/x", "a:1, b:5432, [::1]:5432, [::2]:3"),
        ("postgresql:///x?host=db&port=7", "db:7"),
        ("postgresql://p@/x?host=/run/a&port=5432", "/run/a"),
        ("postgresql:///x", "the address of PGHOST, or the local one"),
        ("postgresql://me:half/secret@host/x", "a URL that cannot be read"),
    ],
)
def test_where_a_postgres_is_looked_for_has_a_name(url: str, address: str) -> None:
    assert postgres_address(url) == address


@pytest.mark.parametrize(
    ("url", "hosts"),
    [
        ("postgresql://me:secret@db/x", ["db"]),
        ("postgresql://a:1,b,[::1],[::2]:3/x", ["a", "b", "::1", "::2"]),
        ("postgresql://p@/x?host=/run/a&port=5432", ["/run/a"]),
        ("postgresql:///x", []),
        ("postgresql://me:half/secret@host/x", []),
    ],
)
def test_the_hosts_of_a_postgres_are_listed_without_ports(url: str, hosts: list[str]) -> None:
    assert postgres_hosts(url) == hosts


@pytest.mark.parametrize(
    ("url", "has"),
    [
        ("postgresql://me:secret@db/x", True),
        ("postgresql://db/x?password=secret", True),
        ("postgresql://me:half/secret@host/x", True),
        ("postgresql://me@db:5432/x?sslmode=require", False),
        ("postgresql:///x", False),
    ],
)
def test_a_password_in_a_url_is_seen(url: str, has: bool) -> None:
    assert has_password(url) is has

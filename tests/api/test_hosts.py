"""Who may call: by which names, and from which pages."""

from typing import Any

import pytest

from holdfast.api.app import build_app
from holdfast.api.errors import ForeignHost, ForeignOrigin
from holdfast.api.hosts import KNOWN_MAX, Hosts, is_secure_page
from holdfast.errors import HoldfastError, Invalid
from holdfast.services.runtime import Runtime
from tests.api.asgi import call

ALLOWED = ("Jobs.example", "grafana.example:8443", "[fd00::1]")


def refusal(host: str | None, origin: str | None = None) -> type[HoldfastError] | None:
    """Ask twice, since the second time the host may be known."""
    hosts = Hosts(ALLOWED)
    return [_refusal(hosts, host, origin) for _ in range(2)][-1]


def _refusal(hosts: Hosts, host: str | None, origin: str | None) -> type[HoldfastError] | None:
    told = {b"host": host, b"origin": origin}
    try:
        hosts.check({name: text.encode() for name, text in told.items() if text is not None})
    except HoldfastError as error:
        return type(error)
    return None


@pytest.mark.parametrize(
    "host",
    [
        "localhost",
        "localhost:7878",
        "LOCALHOST:7878",
        "holdfast.localhost",
        "127.0.0.1:7878",
        "127.9.8.7",
        "[::1]",
        "[::1]:7878",
        "jobs.example",
        "jobs.example:443",
        "JOBS.example",
        "grafana.example:8443",
        "[fd00::1]:80",
    ],
)
def test_names_of_loopback_and_allowed_hosts_are_this_server(host: str) -> None:
    assert refusal(host) is None
    assert refusal(host, f"https://{host}") is None


@pytest.mark.parametrize(
    "host",
    [
        "evil.example",
        "evil.example:7878",
        "localhost.evil.example",
        "evil-localhost",
        "127.0.0.1.evil.example",
        "128.0.0.1",
        "0.0.0.0",
        "10.0.0.1:7878",
        "::1",
        "[::2]",
        "[fd00::2]",
        "[::1",
        "grafana.example",
        "grafana.example:80",
        "sub.jobs.example",
        "jobs.example:80:90",
        "jobs.example@evil.example",
        "",
        ":7878",
        "2130706433",
    ],
)
def test_any_other_name_is_not(host: str) -> None:
    """A page under that name may have been led here by its own name server."""
    assert refusal(host) is ForeignHost
    assert refusal(host, f"http://{host}") is ForeignHost


@pytest.mark.parametrize(
    ("host", "origin", "wanted"),
    [
        (None, None, None),
        (None, "http://localhost", ForeignOrigin),
        (None, "https://jobs.example", None),
        (None, "null", ForeignOrigin),
        ("localhost:7878", "http://localhost:7878", None),
        ("localhost:7878", "http://localhost:5173", ForeignOrigin),
        ("localhost:7878", "http://127.0.0.1:7878", ForeignOrigin),
        ("localhost:7878", "null", ForeignOrigin),
        ("localhost:7878", "", ForeignOrigin),
        ("localhost:7878", "https://evil.example", ForeignOrigin),
        ("127.0.0.1:7878", "https://jobs.example", None),
        ("127.0.0.1:7878", "https://jobs.example:8000", None),
        ("127.0.0.1:7878", "https://grafana.example", ForeignOrigin),
        ("jobs.example", "https://evil.example", ForeignOrigin),
        ("", "null", ForeignHost),
    ],
)
def test_a_page_is_heard_if_it_is_ours(
    host: str | None, origin: str | None, wanted: type[HoldfastError] | None
) -> None:
    assert refusal(host, origin) is wanted


def test_many_names_are_no_way_to_fill_the_memory() -> None:
    hosts = Hosts()
    for number in range(KNOWN_MAX + 10):
        assert _refusal(hosts, f"n{number}.localhost", None) is None
    assert len(hosts._known) == KNOWN_MAX
    assert _refusal(hosts, "n0.localhost", None) is None


async def test_a_refusal_names_the_setting(quiet: Runtime) -> None:
    async def ask(app: Any, host: str) -> tuple[int, bytes]:
        status, _, content = await call(app, "GET", "/api/jobs", headers={"host": host})
        return status, content

    status, content = await ask(build_app(quiet), "jobs.example")
    assert status == 403
    assert b'"forbidden"' in content
    assert b"jobs.example" in content
    assert b"--allowed-host" in content
    assert (await ask(build_app(quiet, ["jobs.example"]), "jobs.example"))[0] == 200


@pytest.mark.parametrize(
    ("origin", "is_secure"),
    [
        ("https://jobs.example", True),
        ("https://127.0.0.1:7878", True),
        ("http://127.0.0.1:7878", False),
        ("http://localhost", False),
        ("http://[::1]:7878", False),
    ],
)
def test_the_browser_says_whether_a_page_came_by_https(origin: str, is_secure: bool) -> None:
    assert is_secure_page({b"origin": origin.encode()}) is is_secure


def test_nobody_logs_in_by_plain_http_from_another_machine() -> None:
    with pytest.raises(Invalid, match=r"jobs\.example is called by plain HTTP"):
        is_secure_page({b"origin": b"http://jobs.example"})
    assert is_secure_page({})

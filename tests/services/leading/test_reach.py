"""Which addresses the leader calls: those the operator allows, whatever a worker says."""

import socket

import aiohttp
import pytest

from holdfast.errors import Invalid
from holdfast.operations.placed.worker_heartbeats import Prepared
from holdfast.services.leading.reach import Reach, read_networks
from holdfast.services.leading.worker_calls import CallFailed, send


@pytest.mark.parametrize(
    "address", ["http://127.0.0.1:1", "http://[::1]:1", "https://10.1.2.3:1", "http://localhost:1"]
)
async def test_allowed_networks_and_loopback_are_called(address: str) -> None:
    await Reach(["10.1.0.0/16"]).check(address)


@pytest.mark.parametrize(
    ("address", "problem"),
    [
        ("https://10.2.0.1:1", "10.2.0.1 is in no network .* with --worker-network"),
        ("https://169.254.169.254:80", "--worker-network"),
        ("https://[2001:db8::1]:1", "--worker-network"),
        ("http://10.1.2.3:1", "10.1.2.3 is another host, .* by https alone"),
        ("http://no.such.host.invalid:1", "is not known to this server"),
    ],
)
async def test_others_are_refused_with_a_remedy(address: str, problem: str) -> None:
    with pytest.raises(Invalid, match=problem) as refused:
        await Reach(["10.1.0.0/16"]).check(address)
    assert refused.value.field == "address"


@pytest.mark.parametrize("address", ["", "nonsense", "http://[::1", "http://h:x", "http://"])
async def test_what_is_no_address_is_left_to_others(address: str) -> None:
    await Reach().check(address)


async def call(reach: Reach, address: str) -> CallFailed:
    """Call an address in vain."""
    prepared = Prepared("w", address, "s", (1, 2), False, [])
    async with reach.open_lines(2.0, 9) as lines:
        with pytest.raises(CallFailed) as failed:
            await send(lines.to(address), prepared, b"{}", reach=reach)
    return failed.value


async def test_a_name_is_looked_up_again_by_the_call() -> None:
    nowhere = Reach(within=["10.0.0.0/8"])
    for address in ("http://localhost:1", "https://localhost:1"):
        failed = await call(nowhere, address)
        assert "--worker-network" in str(failed)
        assert failed.was_not_sent
    with pytest.raises(Invalid, match=r"1 is in no network"):
        await nowhere.check("http://localhost:1")


async def test_a_name_that_means_another_host_by_now_is_not_called_in_clear(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    means = "127.0.0.1"

    def look_up(host: str, port: int, *_: object, **__: object) -> list[tuple[object, ...]]:
        assert host == "worker.test"
        return [(socket.AF_INET, socket.SOCK_STREAM, 6, "", (means, port))]

    monkeypatch.setattr(socket, "getaddrinfo", look_up)
    reach = Reach(["192.0.2.0/24"])
    for address in ("http://worker.test:1", "https://worker.test:1"):
        await reach.check(address)
        assert "another host" not in str(await call(reach, address))
    means = "192.0.2.1"
    failed = await call(reach, "http://worker.test:1")
    assert "192.0.2.1 is another host, and those are called by https alone" in str(failed)
    assert failed.was_not_sent
    with pytest.raises(Invalid, match="another host"):
        await reach.check("http://worker.test:1")
    # The same name and port by TLS has been looked up meanwhile, and may mean that.
    await reach.check("https://worker.test:1")
    assert "another host" not in str(await call(reach, "https://worker.test:1"))


async def test_an_address_out_of_reach_is_not_called() -> None:
    prepared = Prepared("w", "http://192.0.2.1:1", "s", (1, 2), False, [])
    async with aiohttp.ClientSession() as session:
        with pytest.raises(CallFailed, match="--worker-network") as failed:
            await send(session, prepared, b"{}")
    assert failed.value.was_not_sent


@pytest.mark.parametrize("text", ["10.0.0.1/8", "example.com", "10.0.0.0/99", ""])
def test_what_is_no_network_is_refused(text: str) -> None:
    with pytest.raises(Invalid, match=r"worker_network: .*; write it like 10.0.0.0/8"):
        read_networks([text])

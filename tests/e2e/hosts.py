"""Hosts on one machine: network namespaces, each with an address, joined by a bridge.

A link is broken by giving a host a wrong hardware address for another: what it sends there is lost
without a word, as on a network that drops packets, in that direction alone.
"""

import subprocess
from collections.abc import Iterator, Mapping
from contextlib import ExitStack, contextmanager
from uuid import uuid4

NOBODY = "02:00:00:00:00:99"


def why_no_hosts() -> str | None:
    """Say why this machine cannot have network namespaces; None if it can."""
    name = f"hf-{uuid4().hex[:6]}"
    try:
        made = subprocess.run(
            ["ip", "netns", "add", name], check=False, capture_output=True, text=True
        )
    except FileNotFoundError:
        return "there is no program `ip`; install iproute2"
    if made.returncode:
        return f"`ip netns add` is refused: {made.stderr.strip()}"
    _ip("netns", "del", name)
    return None


class Host:
    """One namespace."""

    def __init__(self, space: str, address: str) -> None:
        self.space = space
        self.address = address

    def lose(self, other: "Host") -> None:
        """Lose whatever is sent from here to another host, silently."""
        _ip("-n", self.space, "neigh", "replace", other.address, "lladdr", NOBODY, "dev", "eth0",
            "nud", "permanent")  # fmt: skip

    def find(self, other: "Host") -> None:
        """Send to another host again."""
        _ip("-n", self.space, "neigh", "del", other.address, "dev", "eth0")

    def command(self, words: list[str]) -> list[str]:
        """Write a command that runs on this host."""
        return ["ip", "netns", "exec", self.space, *words]


@contextmanager
def hosts(addresses: Mapping[str, str]) -> Iterator[dict[str, Host]]:
    """Have hosts with these addresses, in one /24, for the time of a block."""
    mark = uuid4().hex[:6]
    bridge = f"hf-{mark}-net"
    with ExitStack() as stack:

        def add(space: str) -> None:
            _ip("netns", "add", space)
            stack.callback(_ip, "netns", "del", space)
            _ip("-n", space, "link", "set", "lo", "up")

        add(bridge)
        _ip("-n", bridge, "link", "add", "br0", "type", "bridge")
        _ip("-n", bridge, "link", "set", "br0", "up")
        made = {}
        for name, address in addresses.items():
            space = f"hf-{mark}-{name}"
            add(space)
            _ip("-n", bridge, "link", "add", name, "type", "veth", "peer", "name", "eth0",
                "netns", space)  # fmt: skip
            _ip("-n", bridge, "link", "set", name, "master", "br0", "up")
            _ip("-n", space, "addr", "add", f"{address}/24", "dev", "eth0")
            _ip("-n", space, "link", "set", "eth0", "up")
            made[name] = Host(space, address)
        yield made


def _ip(*words: str) -> None:
    subprocess.run(["ip", *words], check=True, capture_output=True)

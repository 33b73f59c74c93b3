"""Which ports an attempt gets: below the range from which the system hands out its own."""

from collections.abc import Sequence

PORT_MIN = 20_000
PORT_END = 32_000  # Linux hands out 32768 and up for outgoing connections
PORTS_PER_HOST = PORT_END - PORT_MIN


def choose_ports(names: Sequence[str], used: set[int], last: int = PORT_MIN - 1) -> dict[str, int]:
    """Choose a port for each name, and note it as used.

    Counting on from the last one given leaves a port alone for long after its end.
    """
    chosen: dict[str, int] = {}
    port = last
    for name in names:
        for _ in range(PORTS_PER_HOST):
            port = port + 1 if port + 1 < PORT_END else PORT_MIN
            if port not in used:
                break
        assert port not in used, "a host was given more ports than it has"
        used.add(port)
        chosen[name] = port
    return chosen

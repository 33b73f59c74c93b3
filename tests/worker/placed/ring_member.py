"""A member of a ring, which knows its neighbours by the variables of its gang alone.

The first member sends a token round; each adds its task index. In the first attempt, all but task
0 then leave their number and wait. Run as a program: `python -I -S ring_member.py FOLDER`.
"""

import os
import socket
import sys
import time
from pathlib import Path

CONNECT_SECONDS_MAX = 60.0


def main(folder: Path) -> None:
    """Close the ring; the first member prints who is in it."""
    rank, size = int(os.environ["HOLDFAST_GANG_RANK"]), int(os.environ["HOLDFAST_GANG_SIZE"])
    peers = os.environ["HOLDFAST_GANG_PEERS"].split(",")
    index = os.environ["HOLDFAST_TASK_INDEX"]
    assert (len(peers), peers[0]) == (size, os.environ["HOLDFAST_GANG_ADDRESS"])
    with (
        socket.create_server(("127.0.0.1", int(os.environ["HOLDFAST_PORT_RING"]))) as own,
        _connect(peers[(rank + 1) % size]) as following,
        own.accept()[0] as preceding,
    ):
        if rank == 0:
            following.sendall(index.encode() + b"\n")
            sys.stdout.write(f"ring of {preceding.makefile().readline()}")
            sys.stdout.flush()
        else:
            token = preceding.makefile().readline().strip()
            following.sendall(f"{token} {index}\n".encode())
    if os.environ["HOLDFAST_ATTEMPT"] == "0" and index != "0":
        (folder / index).write_text(str(os.getpid()))
        time.sleep(600)


def _connect(address: str) -> socket.socket:
    host, port = address.split(":")
    deadline = time.monotonic() + CONNECT_SECONDS_MAX
    while True:
        try:
            return socket.create_connection((host, int(port)))
        except ConnectionRefusedError:  # it has not come so far
            if time.monotonic() > deadline:
                raise
            time.sleep(0.02)


if __name__ == "__main__":
    main(Path(sys.argv[1]))

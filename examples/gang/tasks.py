"""A gang that adds up together: each step needs all members, and a lost one starts all again.

The member of rank 0 leads: it asks the others for their share of each step, and keeps a checkpoint.
"""

import os
import signal
import socket
import time
from contextlib import ExitStack

import holdfast as hf

STEPS = 30
# So that there is something to see, rank 2 dies here in the first round, as if by `kill -9`.
LOST_AT = 10


@hf.task(
    replicas=4,
    coscheduling=hf.Coscheduling(),
    resources=hf.Resources(cpu=0.1, ports=["meet"]),
    retries=2,
)
def train(*, ctx: hf.Context) -> int:
    """Add up the shares of all members, step by step; every member returns the sum."""
    rank, size = int(os.environ["HOLDFAST_GANG_RANK"]), int(os.environ["HOLDFAST_GANG_SIZE"])
    host, _, port = os.environ["HOLDFAST_GANG_ADDRESS"].rpartition(":")
    print(f"rank {rank} of {size}, attempt {ctx.attempt}", flush=True)
    if rank == 0:
        return lead(ctx, size, (host, int(port)))
    return follow(ctx, rank, (host, int(port)))


def lead(ctx: hf.Context, size: int, address: tuple[str, int]) -> int:
    """Go on from the last checkpoint, with everybody, until the last step is done."""
    step, total = ctx.checkpoint.load() or (0, 0)
    print(f"begins at step {step}", flush=True)
    with socket.create_server(address) as server, ExitStack() as stack:
        members = [stack.enter_context(server.accept()[0]).makefile("rw") for _ in range(size - 1)]
        while step < STEPS:
            shares = [ctx.task_index + 1, *(ask(member, step) for member in members)]
            step, total = step + 1, total + sum(shares)
            ctx.checkpoint.save([step, total])
        for member in members:
            member.write(f"done {total}\n")
            member.flush()
    return total


def ask(member, step: int) -> int:
    """Ask a member for its share; one that has gone ends the round for all."""
    member.write(f"{step}\n")
    member.flush()
    answer = member.readline()
    if not answer:
        raise hf.TransientError("a member has gone")
    return int(answer)


def follow(ctx: hf.Context, rank: int, address: tuple[str, int]) -> int:
    """Answer rank 0 until it says that all is done."""
    with connect(address) as connection, connection.makefile("rw") as leader:
        for line in leader:
            word, _, total = line.partition(" ")
            if word == "done":
                return int(total)
            if (rank, ctx.attempt, int(word)) == (2, 0, LOST_AT):
                os.kill(os.getpid(), signal.SIGKILL)
            leader.write(f"{ctx.task_index + 1}\n")
            leader.flush()
    raise hf.TransientError("rank 0 has gone")


def connect(address: tuple[str, int]) -> socket.socket:
    """Connect to rank 0, which may start a little later."""
    deadline = time.monotonic() + 60
    while True:
        try:
            return socket.create_connection(address)
        except ConnectionRefusedError:
            if time.monotonic() > deadline:
                raise
            time.sleep(0.05)

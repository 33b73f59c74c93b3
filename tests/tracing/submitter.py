"""Submits everything the tests look at, as a program of a user: `python submitter.py SERVER`."""

import json
import sys
import tempfile
from pathlib import Path
from typing import Any

import holdfast as hf
from tests.tracing.tasks import AT_ONCE, fail_once, in_a_child

FAIL_ONCE = 'printf %s "$TRACEPARENT" && test "$HOLDFAST_ATTEMPT" -gt 0'


def main(server: str) -> None:
    """Submit, wait for every end, and write the ids."""
    with hf.Client(server) as client, tempfile.TemporaryDirectory() as folder:
        Path(folder, "file").write_text("something to fetch")
        placed = client.run_command(
            FAIL_ONCE, type="placed", bundle=client.upload(folder), retries=1, backoff=AT_ONCE
        )
        jobs: dict[str, hf.Job[Any]] = {
            "function": fail_once.submit(),
            "child": in_a_child.submit(),
            "command": client.run_command(["printenv", "TRACEPARENT"], queue="traced"),
            "placed": placed,
        }
        for job in jobs.values():
            job.wait()
        sys.stdout.write(json.dumps({name: job.id for name, job in jobs.items()}))


if __name__ == "__main__":
    main(sys.argv[1])

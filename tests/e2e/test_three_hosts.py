"""From one machine to three: the page's own commands on network namespaces, and broken links."""

import json
import os
import re
import shlex
import subprocess
import sys
from collections import defaultdict
from collections.abc import Iterator
from contextlib import ExitStack
from itertools import pairwise
from pathlib import Path
from urllib.parse import urlsplit

import pytest

from tests.cli.program import eventually
from tests.e2e.hosts import Host, hosts, why_no_hosts

ROOT = Path(__file__).resolve().parents[2]
PAGE = (ROOT / "docs" / "network.md").read_text(encoding="utf-8")
ADDRESSES = {"db": "10.77.0.1", "one": "10.77.0.2", "two": "10.77.0.3"}
QUICK = "--heartbeat-seconds 0.5 --call-timeout-seconds 1 --lease-min 1"
LEASE = 5.0
# Writes down while it lives, by one clock, that it does.
PULSE = (
    "for beat in $(seq 60); do echo $HOLDFAST_TASK_INDEX $HOLDFAST_ATTEMPT $(cat /proc/uptime) "
    ">> PULSES; sleep 0.2; done"
)


class ThreeHosts:
    """What the page starts, on its hosts."""

    def __init__(
        self, made: dict[str, Host], folder: Path, database: str, *, stack: ExitStack
    ) -> None:
        self.db, self.one, self.two = made["db"], made["one"], made["two"]
        self.folder = folder
        self.pulses = folder / "pulses"
        self._stack = stack
        own = {name: text for name, text in os.environ.items() if not name.startswith("HOLDFAST_")}
        query = "sslmode=verify-full&sslrootcert=ca/ca.pem"
        self._variables = {
            **own,
            "PATH": f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}",
            "PYTHONPATH": str(ROOT),
            "HOLDFAST_DATABASE_URL": f"postgresql://postgres@10.77.0.1:5432{database}?{query}",
        }

    def run(self, host: Host, line: str, seconds: float = 120) -> str:
        """Run a line of the page on a host; returns what it writes."""
        words = host.command(["sh", "-c", line])
        ended = subprocess.run(
            words, cwd=self.folder, env=self._variables, capture_output=True, text=True,
            timeout=seconds, check=False,
        )  # fmt: skip
        assert ended.returncode == 0, f"{line}: {ended.stderr}"
        return ended.stdout

    def start(self, host: Host, line: str) -> None:
        """Start what goes on beside, until the test ends."""
        number = len(list(self.folder.glob("*.log")))
        log = self._stack.enter_context((self.folder / f"{number}.log").open("wb"))
        worker_dir = {"HOLDFAST_WORKER_DIR": str(self.folder / f"workers-{number}")}
        process = subprocess.Popen(
            host.command(shlex.split(line)),
            cwd=self.folder,
            env={**self._variables, **worker_dir},
            stdout=log,
            stderr=log,
        )
        self._stack.callback(_end, process)

    def export(self, line: str) -> None:
        """Take the variables of a line of the page for every later one."""
        self._variables |= dict(pair.split("=", 1) for pair in line.split()[1:])

    def submit(self, **more: object) -> str:
        """Start four tasks that write down that they live; returns the job's id."""
        self.pulses.write_text("")
        spec = {
            "entrypoint": {"shell": PULSE.replace("PULSES", str(self.pulses))},
            "replicas": 4, "resources": {"cpu": 1}, "lease": LEASE, "name": "pulse",
            **more,
        }  # fmt: skip
        (self.folder / "job.json").write_text(json.dumps(spec))
        job_id = self.run(self.one, "holdfast submit --spec job.json").split()[0]
        eventually(lambda: self.count_live() == 4 or None)
        return job_id

    def count_live(self) -> int:
        """Count tasks that have begun."""
        return len({line.split()[0] for line in self.pulses.read_text().splitlines()})

    def check(self, job_id: str) -> dict[str, set[str]]:
        """See that all succeed and never two attempts of a task at once; returns the attempts."""
        eventually(lambda: self.is_over(job_id) or None)
        spans: dict[str, dict[str, list[float]]] = defaultdict(lambda: defaultdict(list))
        for line in self.pulses.read_text().splitlines():
            task, attempt, uptime, _ = line.split()
            spans[task][attempt].append(float(uptime))
        for attempts in spans.values():
            ordered = sorted(attempts.values(), key=min)
            for earlier, later in pairwise(ordered):
                assert max(earlier) < min(later), f"two attempts lived at once: {attempts}"
        assert len(spans) == 4
        return {task: set(attempts) for task, attempts in spans.items()}

    def is_over(self, job_id: str) -> bool:
        """Tell whether a job has succeeded; asked while links may be broken."""
        told = json.loads(self.run(self.one, f"holdfast job {job_id} --json"))
        state = told["state"]
        assert not state.endswith(("FAILED", "KILLED", "UNSCHEDULABLE")), told
        return bool(state.endswith("SUCCEEDED"))


def lines() -> list[str]:
    """List the commands of the page."""
    blocks = re.findall(r"^```console\n(.*?)^```$", PAGE, re.MULTILINE | re.DOTALL)
    return [line.removeprefix("$ ") for block in blocks for line in block.splitlines()]


@pytest.fixture
def three(tmp_path: Path, database_url: str) -> Iterator[ThreeHosts]:
    """The system of the page, with four workers."""
    why = why_no_hosts()
    if why is not None:
        pytest.skip(f"three hosts need network namespaces: {why}")
    certificates = [line for line in lines() if line.startswith("holdfast ca ")]
    [server] = [line for line in lines() if line.startswith("holdfast server ")]
    [worker] = [line for line in lines() if "holdfast --token-file" in line]
    [export] = [line for line in lines() if line.startswith("export ")]
    tokens = [line for line in lines() if "holdfast tokens" in line]
    with ExitStack() as stack:
        made = stack.enter_context(hosts(ADDRESSES))
        system = ThreeHosts(made, tmp_path, urlsplit(database_url).path, stack=stack)
        for line in certificates:
            system.run(system.one, line)
        front = f"{sys.executable} -m tests.postgres_front 10.77.0.1 5432"
        system.start(system.db, f"{front} '{database_url}' ca/db.pem ca/db.key")
        eventually(lambda: system.run(system.one, "holdfast db migrate && echo done") or None)
        for line in tokens:
            system.run(system.one, line)
        for host in (system.one, system.two):

            def here(line: str, host: Host = host) -> str:
                line = line.removesuffix("&")
                if host is system.two:
                    line = line.replace("10.77.0.2", "10.77.0.3").replace("one", "two")
                return line

            system.start(host, f"{here(server)} {QUICK}")
            for name in ("a", "b"):
                system.start(host, here(worker.replace("one-a", f"one-{name}")))
        system.export(export)
        yield system


def _end(process: "subprocess.Popen[bytes]") -> None:
    process.terminate()
    try:
        process.wait(30)
    except subprocess.TimeoutExpired:
        process.kill()
        process.wait()


@pytest.mark.nightly
def test_a_gang_runs_over_three_hosts_and_starts_again_after_a_broken_link(
    three: ThreeHosts,
) -> None:
    [gang] = [line for line in lines() if line.startswith("holdfast run ")]
    printed = three.run(three.two, gang)
    assert {f"rank {rank} of 4" for rank in range(4)} <= set(re.findall(r"rank \d of \d", printed))

    # Between the leader and the workers of the other host, both ways: all of the gang ends, and
    # starts again together once all hosts are there.
    job_id = three.submit(coscheduling={})
    three.one.lose(three.two)
    three.two.lose(three.one)
    eventually(lambda: not is_any_alive(three) or None)
    three.one.find(three.two)
    three.two.find(three.one)
    rounds = three.check(job_id).values()
    assert min(map(len, rounds)) > 1, f"a member did not start again: {rounds}"
    assert len(set(map(max, rounds))) == 1, f"members ended in different rounds: {rounds}"
    three.run(three.one, "holdfast audit")  # ends with 0: nothing was found


@pytest.mark.nightly
def test_broken_links_of_each_kind_run_nothing_twice(three: ThreeHosts) -> None:
    # Both ways between the hosts, for tasks that need not start together.
    job_id = three.submit()
    three.one.lose(three.two)
    three.two.lose(three.one)
    eventually(lambda: sum(map(len, read_attempts(three).values())) > 4 or None)
    three.one.find(three.two)
    three.two.find(three.one)
    three.check(job_id)

    # One way: what one host sends to the other is lost.
    job_id = three.submit()
    three.two.lose(three.one)
    eventually(lambda: sum(map(len, read_attempts(three).values())) > 4 or None)
    three.two.find(three.one)
    three.check(job_id)

    # Between the servers and Postgres, for longer than a lease.
    job_id = three.submit()
    for host in (three.one, three.two):
        three.db.lose(host)
    eventually(lambda: not is_any_alive(three) or None)
    for host in (three.one, three.two):
        three.db.find(host)
    three.check(job_id)
    three.run(three.one, "holdfast audit")


def read_attempts(three: ThreeHosts) -> dict[str, set[str]]:
    """Read which attempts of each task have lived."""
    found = defaultdict(set)
    for line in three.pulses.read_text().splitlines():
        task, attempt, *_ = line.split()
        found[task].add(attempt)
    return found


def is_any_alive(three: ThreeHosts) -> bool:
    """Tell whether anything has written within the last two seconds."""
    now = float(Path("/proc/uptime").read_text().split()[0])
    return any(now - float(line.split()[2]) < 2 for line in three.pulses.read_text().splitlines())

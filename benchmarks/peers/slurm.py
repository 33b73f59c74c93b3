"""Slurm as a peer for placed work: a controller, four nodes and a munged, on loopback.

Nothing of the machine's own Slurm is used but its programs: configuration, key, sockets, state and
logs are in one folder, ports are free ones. docs/benchmarks.md says why it is tuned as it is.
"""

import getpass
import os
import secrets
import shlex
import shutil
import socket
import subprocess
import sys
import time
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack
from datetime import datetime
from pathlib import Path
from typing import IO

from benchmarks.peers import adopter
from benchmarks.peers.rounds import cpu_seconds

PROGRAMS = ("slurmctld", "slurmd", "munged", "sbatch", "srun", "sinfo")
# Daemons are not in everybody's PATH.
PATH = os.pathsep.join((os.environ["PATH"], "/usr/sbin", "/sbin"))
MUNGE_THREADS = 10
SUBMITTERS = 4
START_SECONDS_MAX = 30.0
WAIT_SECONDS_MAX = 170.0
LOOK_SECONDS = 0.05
SAID_LENGTH_MAX = 1000
CONFIGURATION = """
ClusterName=bench
SlurmctldHost={host}(127.0.0.1)
SlurmctldPort={ports[0]}
SlurmUser={user}
SlurmdUser={user}
CommunicationParameters=NoCtldInAddrAny,NoInAddrAny
AuthType=auth/munge
CredType=cred/munge
AuthInfo=socket={folder}/munge.socket
SlurmctldPidFile={folder}/slurmctld.pid
SlurmctldLogFile={folder}/slurmctld.log
SlurmctldDebug=info
StateSaveLocation={folder}/state
SlurmdPidFile={folder}/%n.pid
SlurmdLogFile={folder}/%n.log
SlurmdDebug=error
SlurmdSpoolDir={folder}/spool-%n
SlurmdParameters=config_overrides
MpiDefault=none
AccountingStorageType=accounting_storage/none
JobAcctGatherType=jobacct_gather/none
JobCompType=jobcomp/none
PriorityType=priority/basic
ProctrackType=proctrack/linuxproc
TaskPlugin=task/none
SelectType=select/cons_tres
SelectTypeParameters=CR_CPU
SchedulerType=sched/builtin
SchedulerParameters=batch_sched_delay=0
MessageTimeout=60
MinJobAge=2
MaxJobCount=20000
MaxArraySize=20001
ReturnToService=2
{nodes}
PartitionName=jobs Nodes=ALL Default=YES State=UP
PartitionName=gangs Nodes=ALL OverSubscribe=FORCE:{share} State=UP
"""


def is_installed() -> bool:
    """See whether Slurm and munge are here."""
    return all(shutil.which(program, path=PATH) for program in PROGRAMS)


class Slurm:
    """A cluster of its own, until `stop`."""

    def __init__(self, folder: Path, *, nodes: int, cores: int, share: int) -> None:
        self._folder = folder
        self._stack = ExitStack()
        self._daemons: dict[str, list[subprocess.Popen[bytes]]] = {}
        ports = _free_ports(nodes + 1)
        host = socket.gethostname().partition(".")[0]
        names = [
            f"NodeName=node{node} NodeHostname={host} NodeAddr=127.0.0.1"
            f" Port={ports[node + 1]} CPUs={cores}"
            for node in range(nodes)
        ]
        configuration = folder / "slurm.conf"
        configuration.write_text(
            CONFIGURATION.format(
                host=host,
                user=getpass.getuser(),
                folder=folder,
                ports=ports,
                cores=cores,
                share=share,
                nodes="\n".join(names),
            )
        )
        # A job gets the variables of its submitter: few, as it is best for Slurm.
        self._variables = {"PATH": PATH, "SLURM_CONF": str(configuration)}
        with ExitStack() as undoing:
            undoing.callback(self.stop)
            self._start_daemons(nodes)
            undoing.pop_all()

    def stop(self) -> None:
        """End all of it, and what it has started."""
        self._stack.close()

    def _start_daemons(self, nodes: int) -> None:
        folder = self._folder
        key = folder / "munge.key"
        key.touch(0o600)
        key.write_bytes(secrets.token_bytes(128))
        (folder / "state").mkdir()
        own = {"socket": "socket", "pid-file": "pid", "log-file": "log", "seed-file": "seed"}
        self._start(
            "munged",
            *("munged", "--foreground", "--force", f"--key-file={key}"),
            *(f"--{option}={folder}/munge.{name}" for option, name in own.items()),
            f"--num-threads={MUNGE_THREADS}",
        )
        self._wait_for((folder / "munge.socket").exists)
        self._start("slurmctld", "slurmctld", "-D")
        for node in range(nodes):
            (folder / f"spool-node{node}").mkdir()
            self._start("slurmd_and_steps", "slurmd", "-D", "-N", f"node{node}")
        self._wait_for(lambda: self._count_idle() == nodes)

    def _start(self, component: str, *command: str) -> None:
        output = self._stack.enter_context((self._folder / f"{component}.out").open("ab"))
        daemon = subprocess.Popen(
            [sys.executable, "-I", "-S", adopter.__file__, str(os.getpid()), *command],
            stdin=subprocess.DEVNULL,
            stdout=output,
            stderr=output,
            env=self._variables,
            cwd=self._folder,
        )
        self._stack.callback(daemon.wait)
        self._stack.callback(daemon.terminate)
        self._daemons.setdefault(component, []).append(daemon)

    def _wait_for(self, holds: Callable[[], bool]) -> None:
        try:
            _wait_until(holds, "Slurm is not ready", START_SECONDS_MAX)
        except RuntimeError as error:
            said = [path.read_text()[-SAID_LENGTH_MAX:] for path in self._folder.glob("*.out")]
            raise RuntimeError("\n".join((str(error), *said))) from None

    def _count_idle(self) -> int:
        command = ["sinfo", "--noheader", "--partition=jobs", "--states=idle", "--format=%D"]
        answer = self._run(command, check=False)
        return sum(map(int, answer.split()))

    def _run(self, command: Sequence[str], *, check: bool = True, text: str = "") -> str:
        done = subprocess.run(
            command,
            input=text,
            capture_output=True,
            text=True,
            check=False,
            env=self._variables,
            cwd=self._folder,
            timeout=WAIT_SECONDS_MAX,
        )
        if check and done.returncode != 0:
            raise RuntimeError(f"{command[0]} failed: {done.stderr}")
        return done.stdout

    def run_jobs(self, count: int) -> float:
        """Run one-task jobs as one array; seconds from its submission to the last end in the log.

        That is how Slurm takes many jobs best.
        """
        return self._run_to_end(count, lambda: self.submit("true", f"--array=0-{count - 1}"))

    def run_jobs_one_by_one(self, count: int) -> float:
        """Run as many jobs, each of an sbatch of its own."""
        return self._run_to_end(count, lambda: self._submit_many(count, "true"))

    def run_gangs(self, count: int, size: int, text: str) -> None:
        """Run gangs: jobs whose script has srun start a task on each of their nodes."""
        options = ("--partition=gangs", f"--nodes={size}", f"--ntasks={size}")
        script = f"srun --quiet sh -c {shlex.quote(text)}"
        self._run_to_end(count, lambda: self._submit_many(count, script, *options))

    def submit(self, text: str, *options: str) -> None:
        """Submit a script."""
        script = f"#!/bin/sh\n{text}\n"
        self._run(["sbatch", "--quiet", "--output=/dev/null", *options], text=script)

    def run_attached(self, text: str) -> None:
        """Run a command by srun, which stays until it has ended: nobody's batch, but soonest."""
        self._run(["srun", "--quiet", "sh", "-c", text])

    def cpu_seconds(self) -> dict[str, float]:
        """Read the CPU seconds of each component."""
        return {
            name: cpu_seconds(*(daemon.pid for daemon in daemons))
            for name, daemons in self._daemons.items()
        }

    def _run_to_end(self, count: int, submit: Callable[[], None]) -> float:
        with (self._folder / "slurmctld.log").open() as log:
            ends = Ends(log)
            began = time.time()
            submit()
            return ends.wait(count) - began

    def _submit_many(self, count: int, text: str, *options: str) -> None:
        with ThreadPoolExecutor(SUBMITTERS) as pool:
            for done in [pool.submit(self.submit, text, *options) for _ in range(count)]:
                done.result()


class Ends:
    """The ends of jobs as the controller writes them into its log."""

    def __init__(self, log: IO[str]) -> None:
        self._log = log
        log.seek(0, os.SEEK_END)
        self.count = 0
        self._last = ""
        self._part = ""

    def wait(self, count: int) -> float:
        """Wait for so many, and give the instant of the last."""
        _wait_until(lambda: self._read() >= count, "jobs of Slurm do not end", WAIT_SECONDS_MAX)
        # [2026-11-19T03:47:06.488] _job_complete: JobId=1 done
        return datetime.fromisoformat(self._last[1:24]).timestamp()

    def _read(self) -> int:
        *lines, self._part = (self._part + self._log.read()).split("\n")
        ends = [line for line in lines if "_job_complete: " in line and line.endswith(" done")]
        if ends:
            self.count, self._last = self.count + len(ends), ends[-1]
        return self.count


def _free_ports(count: int) -> list[int]:
    with ExitStack() as stack:
        taken = [stack.enter_context(socket.socket()) for _ in range(count)]
        for each in taken:
            each.bind(("127.0.0.1", 0))
        return [each.getsockname()[1] for each in taken]


def _wait_until(holds: Callable[[], bool], otherwise: str, seconds: float) -> None:
    ends_at = time.monotonic() + seconds
    while not holds():
        if time.monotonic() > ends_at:
            raise RuntimeError(f"{otherwise} within {seconds:.0f} s")
        time.sleep(LOOK_SECONDS)

"""Break Holdfast on purpose: `./run chaos --seed N --minutes M --profile NAME`.

First things break as the seed says; only what must never be is looked for. Then all is made well,
and all work has to end within a bound. At the end everything that is known is checked.
"""

import argparse
import asyncio
import logging
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Sequence
from contextlib import suppress
from pathlib import Path
from typing import NamedTuple

import psycopg

import holdfast as hf
from chaos import gather
from chaos.checker.history import Finding, History
from chaos.checker.report import check, table_of_hits, tell_story
from chaos.faults.hands import End, Hands
from chaos.faults.plan import PROFILES, Fault, draw
from chaos.layouts import LAYOUTS
from chaos.system import ROOM_TASKS, System, running
from chaos.workload import later_tasks, tasks
from chaos.workload.customers import SLOTS, Customer, Customers
from holdfast.errors import Unavailable
from tests.supervision import supervise

log = logging.getLogger("chaos")
LOOK_SECONDS = 0.02
SAMPLE_SECONDS = 0.5
HEAL_SECONDS_MAX = 120.0
PROBE_SECONDS = 2.0
WAIT_SECONDS = 0.5
STORIES_MAX = 5
HELD = """
select input ->> 'key', count(*)
  from holdfast.leases join holdfast.tasks using (job_id, task_index)
 where json_typeof(input) = 'object' and input ->> 'key' is not null group by 1
"""
LIMIT = "chaos-keys"
# As if servers had been there all the time: to start was no outage, after which leases are left
# alone for half a minute.
WATCHED = """
update holdfast.reaper set last_pass_at = holdfast.now(), outage_from = null, outage_until = null
"""
SCHEDULE = f"{later_tasks.__name__}:scheduled"


class Verdict(NamedTuple):
    """What a run has come to."""

    history: History
    findings: list[Finding]
    faults: tuple[Fault, ...]

    def lines(self) -> list[str]:
        """Write it down for people: numbers, what was hit in which state, findings, stories."""
        known = self.history
        ended = sum(mark.kind == "end" for mark in known.marks)
        takeovers = sum(attempt.state == 7 for attempt in known.attempts)
        lines = [
            f"{len(known.hits)} faults, {len(known.jobs)} jobs, {len(known.tasks)} tasks, "
            f"{len(known.attempts)} attempts, {takeovers} of them lost with their worker; "
            f"{ended} ends noted, {len(known.writes)} guarded writes, "
            f"{len(known.effects)} effects, {len(known.seen)} looks, {len(known.events)} events; "
            f"all ended {known.ended_at - known.healed_at:.1f} s after the last fault",
            *table_of_hits(known.hits),
        ]
        for finding in self.findings:
            lines.append(f"FINDING {finding.check}: {finding.subject}: {finding.text}")
        for subject in list(dict.fromkeys(each.subject for each in self.findings))[:STORIES_MAX]:
            lines += [f"the story of {subject}:", *tell_story(known, subject)]
        return lines


class Repeated(threading.Thread):
    """Does something again and again, beside all else; what goes wrong there ends the run."""

    def __init__(self, work: Callable[[], None], pause: float) -> None:
        super().__init__(daemon=True)
        self._work = work
        self._pause = pause
        self._is_closing = threading.Event()
        self._error: Exception | None = None

    def run(self) -> None:
        """Go on until told to close."""
        try:
            while not self._is_closing.wait(self._pause):
                self._work()
        except Exception as error:  # noqa: BLE001 whatever it is, `close` raises it
            self._error = error

    def close(self) -> None:
        """Do it no more; raises what went wrong, if anything did."""
        self._is_closing.set()
        self.join()
        if self._error is not None:
            raise self._error


class Runner:
    """One run."""

    def __init__(self, system: System, seed: int, faults: Sequence[Fault]) -> None:
        self._system = system
        self._faults = list(faults)
        self._customers = Customers(system.server_url, seed, system.layout.work)
        self._hands = Hands(system, self._customers)
        most = {"key-": SLOTS, "chain": 1, "unique-": 1, tasks.DEVICE: 1, tasks.ROOM: ROOM_TASKS}
        self._history = History(most=most, has_schedule=system.layout.has_later_work)
        self._beside = (
            Repeated(system.tend, LOOK_SECONDS),
            Repeated(self._sample, SAMPLE_SECONDS),
        )

    def run(self, seconds: float) -> tuple[History, list[Finding]]:
        """Break things for some time, heal, wait for the end of everything, and check."""
        history = self._history
        self._prepare()
        history.began_at = time.monotonic()
        for each in (*self._beside, self._customers):
            each.start()
        try:
            self._break(history.began_at, seconds)
            self._hands.heal()
            history.healed_at = time.monotonic()
            left = self._finish()
            history.ended_at = time.monotonic()
        finally:
            self._customers.close()
            for thread in self._beside:
                thread.close()
        self._system.stop()
        self._gather()
        findings = [Finding("customers", "the run", text) for text in self._customers.failures]
        findings += check(history)
        backward = self._hands.was_set_back
        findings += asyncio.run(gather.read_audit(self._system.ledger_url, backward=backward))
        if left and not findings:
            findings.append(Finding("ended", "the run", f"this is left: {left}"))
        return history, findings

    def _prepare(self) -> None:
        with hf.Client(self._system.server_url) as client:
            if self._system.layout.has_later_work:
                client.limits.put(LIMIT, "key", slots=SLOTS)
            client.create_dataset(tasks.DATASET).open_version()
        with self._system.connect() as connection:
            connection.execute(WATCHED)

    def _break(self, began: float, seconds: float) -> None:
        """Do what the plan says, when it says so."""
        ahead = list(self._faults)
        open_ends: list[tuple[float, End]] = []
        while (now := time.monotonic() - began) < seconds:
            if ahead and ahead[0].at <= now:
                fault = ahead.pop(0)
                log.info("%s", fault)
                end = self._hands.begin(fault)
                if end is not None:
                    open_ends.append((fault.at + fault.seconds, end))
            for due in [each for each in open_ends if each[0] <= now]:
                open_ends.remove(due)
                due[1]()
            time.sleep(LOOK_SECONDS)
        for _, end in open_ends:
            end()

    def _finish(self) -> dict[str, int]:
        """Probe each kind of work, then wait until nothing is left; returns what is."""
        self._customers.close()
        if self._system.layout.upgrades:
            self._system.finish_upgrade()
            self._system.await_ready()
        with hf.Client(self._system.server_url) as client:
            probe = Customer(self._customers, -1)
            try:
                probe.submit_each_kind(client)
            except (Unavailable, TimeoutError) as error:
                self._customers.failures.append(f"the probe was refused: {error}")
            time.sleep(PROBE_SECONDS)
            if self._system.layout.has_later_work:
                client.schedules.pause(SCHEDULE)
        ends_at = time.monotonic() + HEAL_SECONDS_MAX
        told: dict[str, int] = {}
        while (left := self._count_left()) and time.monotonic() < ends_at:
            if left != told:
                log.info("left: %s", left)
            told = left
            time.sleep(WAIT_SECONDS)
        return left

    def _count_left(self) -> dict[str, int]:
        with self._system.connect() as connection:
            return gather.count_left(connection)

    def _sample(self) -> None:
        """Look how many slots each key holds, and keep the most; Postgres may be away."""
        held = self._history.held
        with suppress(psycopg.OperationalError), self._system.connect() as connection:
            connection.execute("set statement_timeout = 1000")
            for key, count in connection.execute(HELD).fetchall():
                held[key] = max(held.get(key, 0), count)

    def _gather(self) -> None:
        history, customers = self._history, self._customers
        history.submitted = customers.acknowledged()
        history.seen, history.told = customers.seen, customers.told
        history.ends, history.cancels = customers.ends, customers.cancels
        history.hits, history.excuses = self._hands.hits, self._hands.excuses
        gather.read_record(history, self._system.record_url)
        gather.read_ledger(history, self._system.ledger_url)


def run_chaos(seed: int, profile: str, seconds: float, folder: Path) -> Verdict:
    """Make one run in a folder, where its logs stay."""
    faults = draw(seed, profile, seconds)
    with running(folder, LAYOUTS[profile]) as system:
        history, findings = Runner(system, seed, faults).run(seconds)
    return Verdict(history, findings, faults)


def main() -> int:
    """Read the arguments and run; the exit code is 1 if anything was found."""
    parser = argparse.ArgumentParser(prog="./run chaos", description=__doc__)
    parser.add_argument("--seed", type=int, required=True)
    parser.add_argument("--minutes", type=float, default=1.0)
    parser.add_argument("--profile", choices=sorted(PROFILES), default="queue")
    parser.add_argument("--plan", action="store_true", help="print what would break, and end")
    parser.add_argument("--folder", type=Path, help="where logs are kept; default: thrown away")
    given = parser.parse_args()
    if given.minutes <= 0 or given.minutes > 600:
        parser.error(f"--minutes {given.minutes:g}: must be above 0, and 600 at most")
    if given.folder is not None and given.folder.exists() and any(given.folder.iterdir()):
        parser.error(f"--folder {given.folder}: has something in it; name a new or an empty one")
    if given.plan:
        print(*draw(given.seed, given.profile, given.minutes * 60), sep="\n")
        return 0
    logging.basicConfig(level=logging.INFO, format="%(asctime)s %(message)s")
    supervise()
    with tempfile.TemporaryDirectory(prefix="chaos-") as temporary:
        folder = given.folder or Path(temporary)
        folder.mkdir(parents=True, exist_ok=True)
        verdict = run_chaos(given.seed, given.profile, given.minutes * 60, folder)
    print(f"profile {given.profile}, seed {given.seed}, {given.minutes:g} minutes")
    print(*verdict.lines(), sep="\n")
    print(f"{len(verdict.findings)} findings" if verdict.findings else "nothing was found")
    return 1 if verdict.findings else 0


if __name__ == "__main__":
    sys.exit(main())

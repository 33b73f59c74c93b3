"""Check the protocol models with spin: the sound ones hold, each broken one is caught.

    python protocol/check.py [--json] [--story]

First the order of locks (`protocol.locks`). Then the models: a sound one must be searched
exhaustively without an error; a broken variant, one macro away, must violate the very property it
is there for. Exit code 0: all as expected, 1: not, 2: spin or a C compiler is missing.
`docs/decisions/0002-protocol-model.md` says what is modelled and why.
"""

import argparse
import json
import os
import re
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path

# Run as a program, this file's folder comes first, not that of the package.
sys.path.insert(0, str(Path(__file__).parents[1]))

from protocol import locks

MODELS = Path(__file__).parent
SECONDS_MAX = 1200  # for one run; the longest takes a minute or two on an idle core
MEMORY_MB_MAX = 2000  # for one run; two run at a time
RUNS_AT_ONCE = 2
DEPTH_MAX = 100_000

PROPERTIES = {
    "PROCESSES": "never two processes of one task",
    "LEASES": "never two live leases",
    "RELEASE": "released means gone",
    "ACKNOWLEDGED": "what is acknowledged is stored, and as it was said",
    "KEPT": "an acknowledged success stays, and no attempt follows",
    "FINAL": "an attempt ends once, and what is finished stays so",
    "START": "an attempt starts at most once",
    "SLOTS": "no limit lets more start than it has slots",
    "DEVICES": "no device of two processes",
    "ONCE": "no claim is given more than it asked for",
    "TOLD": "what a claim is answered is committed",
    "ENDS": "every task ends if faults stop",
}
LEDGER = ("LEASES", "ACKNOWLEDGED", "KEPT", "FINAL")
SAFETY = ("PROCESSES", "RELEASE", *LEDGER)


@dataclass(frozen=True, slots=True)
class Check:
    """One run of spin: a model, the properties switched on, and at most one rule broken."""

    model: str
    properties: tuple[str, ...]
    variant: str = ""
    settings: tuple[str, ...] = ()

    @property
    def is_liveness(self) -> bool:
        return self.properties == ("ENDS",)

    @property
    def macros(self) -> list[str]:
        switches = ["LIVENESS"] if self.is_liveness else [f"CHECK_{p}" for p in self.properties]
        return [f"-D{name}" for name in (*switches, *self.settings, self.variant) if name]


# The longest first, so that two cores end together.
SOUND = (
    Check("placed", (*SAFETY, "START")),
    Check("placed", (*SAFETY, "START"), settings=("UNDELIVERED", "ATTEMPTS=2")),
    Check("placed", (*SAFETY, "START"), settings=("SEVERAL", "SOFT_CANCEL", "ATTEMPTS=2")),
    Check("placed", LEDGER, settings=("FROZEN_MACHINE", "ATTEMPTS=2")),
    Check("placed", ("ENDS",), settings=("FAULTS=3", "ATTEMPTS=2")),
    Check("claimed", LEDGER, settings=("FROZEN_MACHINE",)),
    Check("claimed", SAFETY),
    Check("claimed", ("ENDS",), settings=("FAULTS=3",)),
    Check("slots", ("SLOTS",)),
    Check("slots", ("ENDS",), settings=("FAULTS=2",)),
    Check("devices", ("DEVICES",)),
    Check("turn", ("ONCE", "TOLD")),
    Check("turn", ("ONCE", "TOLD"), settings=("KEYLESS",)),
)
BROKEN = (
    Check("claimed", ("PROCESSES",), "NO_FENCE"),
    Check("claimed", ("ACKNOWLEDGED",), "NO_FENCE"),
    Check("claimed", ("KEPT",), "NO_FENCE"),
    Check("claimed", ("ACKNOWLEDGED",), "NO_FENCE", ("FROZEN_MACHINE",)),
    Check("claimed", ("PROCESSES",), "RELEASE_AT_ONCE"),
    Check("claimed", ("RELEASE",), "RELEASE_AT_ONCE"),
    Check("claimed", ("LEASES",), "CLAIM_WHILE_ENDING"),
    Check("claimed", ("FINAL",), "ENDING_MAY_SUCCEED"),
    Check("claimed", ("ACKNOWLEDGED",), "ENDING_IS_ACCEPTED"),
    Check("claimed", ("PROCESSES",), "REPLACES_WHAT_RUNS"),
    Check("claimed", ("PROCESSES",), "DEADLINE_FROM_RECEIPT"),
    Check("claimed", ("PROCESSES",), "NO_MARGIN"),
    Check("claimed", ("ENDS",), "NO_REAPER", ("FAULTS=1",)),
    Check("placed", ("RELEASE",), "NO_FENCE", ("ATTEMPTS=2",)),
    Check("placed", ("PROCESSES",), "TAKEOVER_AT_THREE", ("ATTEMPTS=2",)),
    Check("placed", ("PROCESSES",), "RELEASE_AT_ONCE", ("ATTEMPTS=2",)),
    Check("placed", ("LEASES",), "CLAIM_WHILE_ENDING", ("ATTEMPTS=2",)),
    Check("placed", ("LEASES",), "CLAIM_WHILE_ENDING", ("FROZEN_MACHINE", "ATTEMPTS=2")),
    Check("placed", ("FINAL",), "ENDING_MAY_SUCCEED", ("ATTEMPTS=2",)),
    Check("placed", ("ACKNOWLEDGED",), "ENDING_IS_ACCEPTED", ("ATTEMPTS=2",)),
    Check("placed", ("KEPT",), "ENDING_IS_ACCEPTED", ("SOFT_CANCEL", "ATTEMPTS=2")),
    Check("placed", ("PROCESSES",), "DEADLINE_FROM_RECEIPT", ("ATTEMPTS=2",)),
    Check("placed", ("PROCESSES",), "STALE_DESIRED_SET", ("ATTEMPTS=2",)),
    Check("placed", ("PROCESSES",), "ANY_ANSWER_RENEWS", ("ATTEMPTS=2",)),
    Check("placed", ("PROCESSES",), "NO_MARGIN", ("ATTEMPTS=2",)),
    Check("placed", ("START",), "START_AGAIN", ("ATTEMPTS=2",)),
    Check("placed", ("START",), "DEPOSED_LEADER_READS", ("ATTEMPTS=2",)),
    Check("placed", ("PROCESSES",), "BROKEN_CALL_IS_NONE", ("UNDELIVERED", "ATTEMPTS=2")),
    Check("placed", ("PROCESSES",), "ADOPT_UNFENCED", ("ATTEMPTS=2",)),
    Check("placed", ("PROCESSES",), "REPLACES_WHAT_RUNS", ("ATTEMPTS=2",)),
    Check("placed", ("ACKNOWLEDGED",), "ACKNOWLEDGED_UNSTORED", ("SEVERAL", "ATTEMPTS=2")),
    Check("placed", ("ENDS",), "NO_REAPER", ("FAULTS=1", "ATTEMPTS=2")),
    Check("slots", ("SLOTS",), "NO_BUCKET_LOCK"),
    Check("slots", ("SLOTS",), "COUNT_BEFORE_LOCK"),
    Check("slots", ("SLOTS",), "FREED_AT_END"),
    Check("slots", ("SLOTS",), "NO_LIMITS_LOCK"),
    Check("slots", ("ENDS",), "NO_CHORE", ("FAULTS=0",)),
    Check("devices", ("DEVICES",), "DEVICE_FREED_AT_END"),
    Check("devices", ("DEVICES",), "FREED_WITH_ITS_WORKER"),
    Check("devices", ("DEVICES",), "DEPOSED_LEADER_PLACES"),
    Check("turn", ("ONCE",), "REPEAT_CLAIMS_AGAIN"),
    Check("turn", ("ONCE",), "KEY_TAKEN_LATER"),
    Check("turn", ("ONCE",), "LOOKS_WHILE_LENT", ("KEYLESS",)),
    Check("turn", ("TOLD",), "GIVEN_BEFORE_COMMIT"),
)


@dataclass(frozen=True, slots=True)
class Reading:
    """What a verifier's output says."""

    states: int
    depth: int
    errors: int
    violation: str  # the first line of the first error
    truncation: str  # why the search was not exhaustive, if it was not
    unreached: int  # steps of the model that no run takes


@dataclass(frozen=True, slots=True)
class Result:
    check: Check
    reading: Reading
    seconds: float
    problem: str
    story: tuple[str, ...] = ()

    @property
    def verdict(self) -> str:
        if self.problem:
            return f"UNEXPECTED: {self.problem}"
        return "counterexample, as expected" if self.check.variant else "holds"


class ToolMissing(Exception):
    """Spin or a C compiler cannot be found."""


class RunFailed(Exception):
    """A tool stopped before there was anything to read."""


TRUNCATIONS = ("max search depth too small", "reached -DMEMLIM bound", "out of memory", "hash full")
VIOLATIONS = ("assertion violated", "acceptance cycle", "invalid end state")


def parse_output(output: str) -> Reading:
    """Read a verifier's output; anything but a full and finished search is a truncation."""
    summary = re.search(r"depth reached (\d+),(?: \S+)* errors: (\d+)", output)
    stored = re.search(r"^\s*(\S+) states, stored", output, re.MULTILINE)
    lines = output.splitlines()
    violation = next(
        (x for x in lines if any(sign in x for sign in VIOLATIONS) and "pan:" in x), ""
    )
    errors = int(summary[2]) if summary else 0
    truncation = next((sign for sign in TRUNCATIONS if sign in output), "")
    if not truncation and (not summary or not stored):
        truncation = "no summary"
    elif not truncation and "Full statespace search" not in output:
        truncation = "not a full search"
    elif not truncation and "Search not completed" in output and not errors:
        truncation = "search not completed"
    steps = re.findall(r"^\t\S+:\d+, state \d+, \"(.*)\"$", output, re.MULTILINE)
    return Reading(
        states=int(float(stored[1])) if stored else 0,
        depth=int(summary[1]) if summary else 0,
        errors=errors,
        violation=violation,
        truncation=truncation,
        unreached=sum(step != "-end-" for step in steps),
    )


def find_problem(check: Check, reading: Reading) -> str:
    """Say what is not as expected; empty if all is."""
    if reading.truncation and not reading.errors:
        return reading.truncation
    if not check.variant:
        if reading.errors:
            return reading.violation or "an error"
        if reading.unreached and not check.is_liveness:
            return f"{reading.unreached} steps of the model are never taken"
        return ""
    wanted = "acceptance cycle" if check.is_liveness else "assertion violated"
    if not reading.errors:
        return "no counterexample"
    return "" if wanted in reading.violation else f"the wrong error: {reading.violation}"


@dataclass(frozen=True, slots=True)
class Tools:
    spin: str
    compiler: str


def find_tools() -> Tools:
    """Find spin and a C compiler; on Debian, as root, install what is missing."""
    if not find_any("spin") or not find_any("gcc", "cc"):
        install_on_debian()
    spin, compiler = find_any("spin"), find_any("gcc", "cc")
    missing = [name for name, found in (("spin", spin), ("gcc", compiler)) if not found]
    if not spin or not compiler:
        raise ToolMissing(
            f"{' and '.join(missing)} not found. On Debian: apt-get install {' '.join(missing)}."
            " Elsewhere: your system's package, or build spin from its source."
        )
    return Tools(spin, compiler)


def find_any(*names: str) -> str | None:
    return next((found for name in names if (found := shutil.which(name))), None)


def install_on_debian() -> None:
    """Install spin and gcc where that is ours to do; otherwise leave it to the message."""
    if os.geteuid() != 0 or not shutil.which("apt-get"):
        return
    wanted = [name for name in ("spin", "gcc") if not shutil.which(name)]
    print(f"installing {' '.join(wanted)}", file=sys.stderr)
    quiet = {**os.environ, "DEBIAN_FRONTEND": "noninteractive"}
    for command in (["apt-get", "update"], ["apt-get", "install", "-y", *wanted]):
        done = subprocess.run(
            command, env=quiet, capture_output=True, text=True, timeout=600, check=False
        )
        if done.returncode:
            print(f"{' '.join(command)}: {done.stderr.strip()}", file=sys.stderr)


def run_tool(command: Sequence[str], folder: Path, seconds: float = SECONDS_MAX) -> str:
    """Run a tool to its end and return what it printed."""
    try:
        done = subprocess.run(
            command, cwd=folder, capture_output=True, text=True, timeout=seconds, check=False
        )
    except subprocess.TimeoutExpired as late:
        raise RunFailed(f"{command[0]} took more than {seconds:.0f} s") from late
    if done.returncode:
        raise RunFailed(f"{command[0]}: {(done.stderr or done.stdout).strip()[:300]}")
    return done.stdout + done.stderr


def verify(check: Check, tools: Tools, folder: Path) -> Reading:
    """Make a verifier of the model and let it search."""
    for model in MODELS.glob("*.pml"):
        shutil.copy(model, folder)
    run_tool([tools.spin, "-a", *check.macros, f"{check.model}.pml"], folder)
    options = ["-O2", "-w", f"-DMEMLIM={MEMORY_MB_MAX}", "-DNOREDUCE"]
    if not check.is_liveness:
        options.append("-DSAFETY")
        if check.variant:
            options.append("-DBFS")  # breadth first finds the shortest counterexample
    run_tool([tools.compiler, *options, "-o", "pan", "pan.c"], folder)
    search = ["./pan", f"-m{DEPTH_MAX}", "-w24", *(["-a"] if check.is_liveness else [])]
    return parse_output(run_tool(search, folder))


def tell_story(check: Check, tools: Tools, folder: Path) -> tuple[str, ...]:
    """Replay the counterexample: the steps that lead to it, in words."""
    if not (folder / f"{check.model}.pml.trail").exists():
        return ()
    replay = [tools.spin, "-t", "-T", *check.macros, f"{check.model}.pml"]
    lines = run_tool(replay, folder).splitlines()
    end = next((at for at, line in enumerate(lines) if line.startswith("spin: ")), len(lines))
    return tuple(x for x in lines[:end] if x.strip() and not x.startswith(("ltl ", "Never claim")))


def run_check(check: Check, tools: Tools) -> Result:
    started = time.monotonic()
    with tempfile.TemporaryDirectory(prefix="holdfast-model-") as name:
        folder = Path(name)
        try:
            reading = verify(check, tools, folder)
            story = tell_story(check, tools, folder)
        except RunFailed as failure:
            nothing = Reading(0, 0, 0, "", str(failure), 0)
            return Result(check, nothing, time.monotonic() - started, str(failure))
    seconds = time.monotonic() - started
    return Result(check, reading, seconds, find_problem(check, reading), story)


def run_checks(checks: Sequence[Check], tools: Tools) -> Iterator[Result]:
    """Yield results in the order of the checks."""
    with ThreadPoolExecutor(RUNS_AT_ONCE) as pool:
        yield from pool.map(lambda check: run_check(check, tools), checks)


def describe(check: Check) -> str:
    switches = " ".join((check.variant or "sound", *check.settings))
    properties = " ".join(check.properties).lower()
    return f"{check.model:8}{switches:46}{properties:56}"


def print_result(result: Result, with_story: bool) -> None:
    reading = result.reading
    figures = f"{reading.states:>9} states  depth {reading.depth:>4}  {result.seconds:5.1f} s"
    print(f"{describe(result.check)}{figures}  {result.verdict}", flush=True)
    if with_story or (result.problem and result.story):
        print("".join(f"        {line}\n" for line in result.story), end="")


def as_record(result: Result) -> dict[str, object]:
    return {
        "model": result.check.model,
        "properties": result.check.properties,
        "variant": result.check.variant or None,
        "settings": result.check.settings,
        "states": result.reading.states,
        "depth": result.reading.depth,
        "seconds": round(result.seconds, 2),
        "as_expected": not result.problem,
        "verdict": result.verdict,
        "story": result.story,
    }


def check_locks() -> list[tuple[str, str, bool]]:
    """Look for circles of locks, in the order as it is and in each broken one; if as expected."""
    circles = {"sound": locks.find_cycle(locks.OPERATIONS)}
    circles |= {name: locks.find_cycle(locks.break_rule(name)) for name in locks.BROKEN}
    disorder = [*locks.list_disorder(locks.OPERATIONS)]
    found = [("sound", "; ".join(map(str, [*circles["sound"], *disorder])))]
    found += [(name, "; ".join(map(str, circles[name]))) for name in locks.BROKEN]
    return [(name, circle, bool(circle) == (name != "sound")) for name, circle in found]


def print_locks(variant: str, circle: str, is_expected: bool) -> None:
    how = ("a circle, as expected" if circle else "no circle") if is_expected else "UNEXPECTED"
    print(f"{'locks':8}{variant:46}{how}{f': {circle}' if circle else ''}", flush=True)


def parse_arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--json", action="store_true", help="one JSON object for programs")
    parser.add_argument("--story", action="store_true", help="tell each counterexample in words")
    return parser.parse_args()


def main() -> int:
    arguments = parse_arguments()
    try:
        tools = find_tools()
    except ToolMissing as missing:
        print(f"check: {missing}", file=sys.stderr)
        return 2
    if not arguments.json:
        print("".join(f"{name.lower():13} {what}\n" for name, what in PROPERTIES.items()))
    started = time.monotonic()
    orders = check_locks()
    for order in [] if arguments.json else orders:
        print_locks(*order)
    results = []
    for result in run_checks((*SOUND, *BROKEN), tools):
        results.append(result)
        if not arguments.json:
            print_result(result, arguments.story)
    wrong = sum(bool(result.problem) for result in results)
    wrong += sum(not is_expected for _, _, is_expected in orders)
    seconds = time.monotonic() - started
    if arguments.json:
        records = [as_record(result) for result in results]
        circles = {variant: circle for variant, circle, _ in orders}
        said = {"checks": records, "locks": circles, "unexpected": wrong}
        print(json.dumps(said | {"seconds": round(seconds, 1)}))
    else:
        print(f"{len(results)} checks, {wrong} not as expected, {seconds:.0f} s")
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())

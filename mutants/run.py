"""Plant bugs in the code, one by one, and see each of them turn tests red.

    ./run mutants [--only NAME ...] [--json] [--page] [--minutes 60] [--trust]

Everything happens in copies of the checkout: the working tree is not touched. First the tests are
run on the code as it is, since a test that is red anyway tells nothing. Exit code 0: each bug was
caught, or is listed as a survivor with a reason; 1: not; 2: a mutation does not fit the code.
"""

import argparse
import json
import signal
import sys
import time
from collections.abc import Sequence
from pathlib import Path

from mutants.catalogue import MUTATIONS
from mutants.mutation import Misfit, Mutation, mutate
from mutants.page import PAGE, write_page
from mutants.trial import Result, check_sound, try_all
from tests.prepared import prepared_cluster

ROOT = Path(__file__).resolve().parents[1]


def choose(names: Sequence[str]) -> list[Mutation]:
    """Find mutations by name, all of them if none is asked for."""
    known = {mutation.name: mutation for mutation in MUTATIONS}
    unknown = [name for name in names if name not in known]
    if unknown:
        raise Misfit(f"there is no mutation {unknown[0]}; there are {', '.join(sorted(known))}")
    return [known[name] for name in dict.fromkeys(names)] or list(MUTATIONS)


def as_record(result: Result) -> dict[str, object]:
    """Describe a result for programs."""
    return {
        "name": result.mutation.name,
        "does": result.mutation.does,
        "files": sorted({edit.file for edit in result.mutation.edits}),
        "red": result.failed,
        "seconds": round(result.seconds, 1),
        "as_expected": not result.problem,
        "verdict": result.verdict,
    }


def print_result(result: Result) -> None:
    """Print a line of the table, and beneath it what turned red, or what was planted in vain."""
    print(f"{result.mutation.name:46} {result.seconds:6.1f} s  {result.verdict}", flush=True)
    if result.problem:
        print(f"    {result.mutation.does}", flush=True)
    for name in result.red:
        print(f"    red: {name}", flush=True)


def parse_arguments() -> argparse.Namespace:
    """Read the options."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument(
        "--only", action="append", default=[], metavar="NAME", help="may be given again"
    )
    parser.add_argument("--json", action="store_true", help="one JSON object for programs")
    parser.add_argument("--page", action="store_true", help=f"write what was found into {PAGE}")
    parser.add_argument("--minutes", type=float, default=60.0, help="begin nothing after that")
    parser.add_argument("--trust", action="store_true", help="take it that all is green without")
    return parser.parse_args()


def main() -> int:
    """Try mutations, tell how it went."""
    arguments = parse_arguments()
    signal.signal(signal.SIGTERM, signal.default_int_handler)
    began = time.monotonic()
    try:
        mutations = choose(arguments.only)
        for mutation in mutations:
            mutate(mutation, ROOT)
    except Misfit as misfit:
        print(f"mutants: {misfit}", file=sys.stderr)
        return 2
    unsound = "" if arguments.trust else check_sound(ROOT, mutations)
    if unsound:
        print(f"mutants: {unsound}", file=sys.stderr)
        return 1
    results = []
    seconds_max = arguments.minutes * 60
    with prepared_cluster() as cluster:
        for result in try_all(ROOT, mutations, seconds_max=seconds_max, cluster=cluster):
            results.append(result)
            if not arguments.json:
                print_result(result)
            if arguments.page:  # as it goes: it may be ended before the last
                write_page(ROOT / PAGE, [result])
    wrong = sum(bool(result.problem) for result in results)
    seconds = time.monotonic() - began
    if arguments.json:
        records = [as_record(result) for result in results]
        print(json.dumps({"mutants": records, "unexpected": wrong, "seconds": round(seconds, 1)}))
    else:
        print(f"{len(results)} mutants, {wrong} not as expected, {seconds:.0f} s")
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())

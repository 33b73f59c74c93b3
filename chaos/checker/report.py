"""All checks together, the story of a task, and the table of what was hit in which state."""

from collections import Counter
from collections.abc import Callable, Iterable, Iterator

from chaos.checker import ledger_checks, subject_checks, work_checks
from chaos.checker.history import Finding, History, Hit

Check = Callable[[History], Iterator[Finding]]
CHECKS: tuple[Check, ...] = (
    work_checks.check_progress,
    work_checks.check_accepted,
    work_checks.check_ended,
    work_checks.check_one_start,
    work_checks.check_executions,
    work_checks.check_overlaps,
    work_checks.check_fences,
    work_checks.check_effects,
    work_checks.check_results,
    work_checks.check_linear,
    subject_checks.check_limits,
    subject_checks.check_order,
    subject_checks.check_acknowledged_cancels,
    subject_checks.check_schedules,
    subject_checks.check_datasets,
    subject_checks.check_sagas,
    subject_checks.check_gangs,
    ledger_checks.check_streams,
    ledger_checks.check_moves,
    ledger_checks.check_job_streams,
    ledger_checks.check_cancels,
    ledger_checks.check_rows,
    ledger_checks.check_counts,
    ledger_checks.check_nothing_is_left,
)
# Where a task can stand when something breaks.
STATES = ("waiting", "gated", "ready", "assigned", "building", "running", "ending")
STORY_LINES_MAX = 200


def check(history: History) -> list[Finding]:
    """Make every check."""
    return [finding for each in CHECKS for finding in each(history)]


def tell_story(history: History, task: str) -> list[str]:
    """Tell what is known of a task, in the order of time: marks, what callers saw, and faults."""
    told: list[tuple[float, str]] = []
    for mark in history.marks:
        if mark.task == task:
            told.append((mark.at, f"attempt {mark.attempt} on {mark.worker}: {mark.kind}"))
    for seen in history.seen:
        if seen.task == task:
            text = f"a caller sees {seen.state.name}, attempt {seen.attempt}"
            told.append((seen.returned, f"{text} (asked at {seen.invoked - history.began_at:.3f})"))
    if told:
        first, last = min(told)[0], max(told)[0]
        for hit in history.hits:
            if first - 10 <= hit.ended and hit.began <= last + 10:
                until = hit.ended - history.began_at
                told.append((hit.began, f"FAULT {hit.fault} {hit.target}, until {until:.3f}"))
    lines = [f"{at - history.began_at:9.3f}  {text}" for at, text in sorted(told)]
    job_id, _, index = task.partition(".")
    for event in sorted(history.events, key=lambda each: each.seq):
        if str(event.job_id) == job_id and str(event.task_index) == (index or "-1"):
            cause = f" ({event.cause})" if event.cause else ""
            ts = event.ts.time() if event.ts else "-"
            lines.append(
                f"  event {event.seq} at {ts}: attempt {event.attempt} {event.type}{cause}"
            )
    for write in history.writes:
        if write.task == task:
            lines.append(f"  write {write.number} of attempt {write.attempt} was let in")
    return lines[:STORY_LINES_MAX]


def table_of_hits(hits: Iterable[Hit]) -> list[str]:
    """Write down how many tasks each kind of fault has hit in which state; `.` is a gap."""
    counts: dict[str, Counter[str]] = {}
    times: Counter[str] = Counter()
    missed: Counter[str] = Counter()
    for hit in hits:
        times[hit.fault] += not hit.has_missed
        missed[hit.fault] += hit.has_missed
        found = {} if hit.has_missed else hit.states
        counts.setdefault(hit.fault, Counter()).update(found)
    width = max((len(fault) for fault in counts), default=5)
    lines = [f"{'fault':{width}}  times missed " + "".join(f"{state:>10}" for state in STATES)]
    for fault in sorted(counts):
        cells = "".join(f"{counts[fault][state] or '.':>10}" for state in STATES)
        lines.append(f"{fault:{width}}  {times[fault]:5} {missed[fault] or '.':>6} {cells}")
    return lines

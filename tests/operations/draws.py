"""What the random sequences draw from: jobs, ends, picks, and every kind of step."""

from typing import Any

from hypothesis import strategies as st

from holdfast.model.work.states import TaskState
from tests.operations.machine import START

# Picks count from the newest back, so that small numbers, which are drawn most, mean what is new.
PICKS = st.integers(0, 15)
QUEUES = ("a", "b")
MODES = st.sampled_from(["soft", "soft", "hard"])
INDEXES = st.integers(0, 2)
FORGERIES = st.sampled_from(["none"] * 12 + ["token", "attempt", "task"])
SPECS = st.fixed_dictionaries(
    {
        "queue": st.sampled_from(QUEUES),
        "priority": st.integers(-1, 1),
        "max_retries_failure": st.integers(0, 2),
        "max_retries_preemption": st.integers(0, 2),
        "on_exhausted": st.sampled_from(["fail", "dead_letter"]),
        "on_timeout": st.sampled_from(["fail", "fail", "kill"]),
        "backoff": st.sampled_from([{"base": 0.0}, {"base": 4.0}]),
        "grace": st.sampled_from([0.0, 8.0, 60.0]),
    },
    optional={
        "timeout": st.just(8.0),
        "scheduling_timeout": st.just(50.0),
        "max_task_failures": st.integers(0, 1),
        "not_before": st.just(START.timestamp() + 20),
        # What names gpus is placed.
        "resources": st.sampled_from([{"gpu": 0}, {"gpu": 1}, {"gpu": 2}, {"cpu": 1}, {"cpu": 2}]),
    },
)
ENDS = st.sampled_from(
    [
        *[("succeeded", "TransientError", "exec")] * 6,
        *[("failed", "TransientError", "exec")] * 3,
        ("failed", "TransientError", "exec"),
        ("failed", "TransientError", "fetch"),
        ("failed", "DependencyUnavailable", "output"),
        ("failed", "PermanentError", "exec"),
        ("failed", "ValidationError", "input"),
        ("killed", "TransientError", "exec"),
        ("worker_failed", "TransientError", "exec"),
        ("handed_back", "TransientError", "exec"),
    ]
)


# Every kind of step: how often it is drawn, and what it takes.
STEPS: dict[str, tuple[int, dict[str, st.SearchStrategy[Any]]]] = {
    "claim_from_queues": (
        8,
        {
            "worker": PICKS,
            "queues": st.permutations(QUEUES),
            "count": st.integers(1, 4),
            "starting": st.booleans(),
        },
    ),
    "claim_by_id": (3, {"worker": PICKS, "task": PICKS}),
    "report": (
        6,
        {
            "pick": PICKS,
            "forgery": FORGERIES,
            "state": st.sampled_from([TaskState.BUILDING, TaskState.RUNNING]),
        },
    ),
    "renew": (2, {"pick": PICKS, "forgery": FORGERIES}),
    "note": (2, {"pick": PICKS, "forgery": FORGERIES}),
    "complete": (16, {"pick": PICKS, "forgery": FORGERIES, "end": ENDS}),
    "complete_and_claim": (
        6,
        {"pick": PICKS, "end": ENDS, "worker": PICKS, "count": st.integers(1, 3)},
    ),
    "replace": (1, {"worker": PICKS}),
    "place": (4, {}),
    "restart": (1, {"keep": st.integers(0, 255)}),
    "lose": (1, {}),
    "submit": (
        4,
        {
            "fields": SPECS,
            "count": st.integers(1, 3),
            "fan_out": st.booleans(),
            "has_parent": st.booleans(),
        },
    ),
    "cancel_job": (3, {"pick": PICKS, "mode": MODES}),
    "cancel_task": (4, {"pick": PICKS, "mode": MODES}),
    "dead_letter": (1, {"pick": PICKS}),
    "pause_or_resume": (1, {"queue": st.sampled_from(QUEUES)}),
    "follow_up": (3, {}),
    "pass_unwatched": (3, {"seconds": st.sampled_from([1.0, 9.0, 13.0, 31.0])}),
    "pass_watched": (4, {"rounds": st.integers(1, 6)}),
    "reap": (1, {}),
    "requeue": (1, {}),
}
STEP = st.sampled_from(
    [name for name, (weight, _) in STEPS.items() for _ in range(weight)]
).flatmap(lambda name: st.tuples(st.just(name), st.fixed_dictionaries(STEPS[name][1])))

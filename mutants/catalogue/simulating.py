"""Bugs that nobody sees in one call or one rule alone: the worlds of tests/simulation do."""

from mutants.mutation import mutation

WORLDS = "simulation/test_protocol.py::test_nothing_breaks_in_some_hundred_worlds"

MUTATIONS = (
    mutation(
        "kill-margin-ignored",
        "Placed code runs to the last moment of its lease, and beyond it while it is being killed.",
        (
            "worker/placed/attempt.py",
            "        return self.expires_at - self.margin\n",
            "        return self.expires_at\n",
        ),
        red=(WORLDS,),
    ),
    mutation(
        "one-retry-too-many",
        "A task may fail once more than its submitter has said.",
        (
            "rules/retry.py",
            "failures <= terms.max_retries_failure",
            "failures <= terms.max_retries_failure + 1",
        ),
        red=(WORLDS,),
    ),
    mutation(
        "gang-member-left-behind",
        "After a loss, members of a gang that had not begun stay where they are.",
        (
            "rules/gang.py",
            "if job_is_live and member.state in OPEN_STATES and task_id not in own",
            "if job_is_live and member.state == TaskState.RUNNING and task_id not in own",
        ),
        red=(WORLDS,),
    ),
    mutation(
        "release-before-confirmation",
        "What a silent worker runs counts as gone before its lease is over.",
        (
            "rules/ending.py",
            "return AttemptEnd(loss, released=is_gone)",
            "return AttemptEnd(loss, released=True)",
        ),
        red=(WORLDS,),
    ),
    mutation(
        "older-call-is-obeyed",
        "A call that was late on its way begins again what has ended, or ends what has begun.",
        (
            "worker/placed/incarnation.py",
            "        if number <= self._last:\n",
            "        if number == self._last:\n",
        ),
        red=(WORLDS,),
    ),
    mutation(
        "killed-by-timeout-is-gone-at-once",
        "What took too long gives its room away while its process still ends.",
        (
            "rules/ending.py",
            "timed_out=True), released=False)",
            "timed_out=True))",
        ),
        red=(WORLDS,),
    ),
    mutation(
        "lease-counted-from-a-later-answer",
        "A worker takes its leases for longer than they are, by as long as a call is under way.",
        (
            "worker/placed/incarnation.py",
            "        self._sent_at[self._last] = now\n",
            "        self._sent_at[self._last] = now + 10.0\n",
        ),
        red=(WORLDS,),
    ),
    mutation(
        "shim-forgets-its-deadline",
        "Nobody ends what runs on a host that its server cannot reach.",
        (
            "worker/processes/command_deadline.py",
            "        if self._deadline <= now:\n",
            "        if self._deadline <= now - 60.0:\n",
        ),
        red=(WORLDS,),
    ),
)

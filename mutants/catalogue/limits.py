"""Bugs in limits and shares: how much may run at once, how fast, and whose turn it is."""

from mutants.mutation import mutation

_PASS = "store/schema/functions/pass_limits.sql"
_SHARES = "store/schema/functions/shares.sql"

MUTATIONS = (
    mutation(
        "limit-without-lock",
        "Claims at the same moment each see room, and more run than the limit allows.",
        (
            _PASS,
            "order by limit_buckets.bucket_id\n                   for no key update) as locked",
            "order by limit_buckets.bucket_id) as locked",
        ),
        red=("store/test_pass_limits.py::test_claimers_at_once_never_exceed_a_limit",),
    ),
    mutation(
        "second-limit-not-counted",
        "Of two limits that a task is under, the second lets any number through.",
        (
            _PASS,
            "where held[2] = any (bucket_ids) and held[2] is not null\n",
            "where held[2] = any (bucket_ids) and held[2] is null\n",
        ),
        red=("store/test_pass_limits.py::test_several_limits_hold_at_once",),
    ),
    mutation(
        "slot-of-an-ending-attempt-is-free",
        "The next task starts while the process of the last one still has the licence.",
        (
            _PASS,
            "where held[1] = any (bucket_ids) and held[1] is not null\n",
            "where held[1] = any (bucket_ids) and held[1] is not null and not ending\n",
        ),
        red=(
            "store/test_pass_limits.py"
            "::test_who_comes_while_an_attempt_is_ending_waits_for_its_slot",
        ),
    ),
    mutation(
        "slot-not-freed",
        "After a failure the next task waits for ever, though its slot is free.",
        (
            "operations/ending/attempts.py",
            "    await open_after(tx, runs)\n",
            "",
        ),
        red=("store/test_pass_limits.py::test_a_failure_frees_the_slot_for_whoever_is_next",),
    ),
    mutation(
        "slot-counted-twice",
        "A task that takes one slot takes two, and half of what may run does.",
        (
            _PASS,
            "rooms[ranks[position]] := rooms[ranks[position]] - slots[number];",
            "rooms[ranks[position]] := rooms[ranks[position]] - 2 * slots[number];",
        ),
        red=("store/test_pass_rates.py::test_a_task_counts_by_its_slots",),
    ),
    mutation(
        "slots-of-a-task-ignored",
        "A task that takes four slots is counted as one.",
        (
            _PASS,
            "select bucket_id, null, null, null, null, null, null, null, slots[number]\n",
            "select bucket_id, null, null, null, null, null, null, null, 1\n",
        ),
        red=(
            "store/test_pass_limits.py"
            "::test_a_task_that_takes_more_than_there_is_stands_in_nobodys_way",
        ),
    ),
    mutation(
        "large-task-is-passed-for-ever",
        "A task that needs several slots at once starves behind small ones.",
        (
            _PASS,
            "> (barrier_urgencies[rank], barrier_eligibles[rank], barrier_jobs[rank],",
            "< (barrier_urgencies[rank], barrier_eligibles[rank], barrier_jobs[rank],",
        ),
        red=(
            "store/test_pass_limits.py"
            "::test_a_retry_does_not_pass_one_that_waits_for_several_slots",
        ),
    ),
    mutation(
        "bucket-refilled-twice",
        "The same seconds fill a token bucket with each claim, and a rate is exceeded.",
        (
            _PASS,
            "filled_at = case when mine.kind = 'bucket' then spend_rates.now end,",
            "filled_at = case when mine.kind = 'bucket'\n"
            "                        then coalesce(limit_buckets.filled_at, spend_rates.now) end,",
        ),
        red=(
            "store/test_pass_rates.py"
            "::test_a_token_bucket_lets_start_what_it_holds_and_what_comes_in",
        ),
    ),
    mutation(
        "window-forgets-its-first-half",
        "Twice as many start in a minute as its limit allows.",
        (
            _PASS,
            "and limit_spent.slice > now - usage_limits.period * 1.01), 0) end as room,",
            "and limit_spent.slice > now - usage_limits.period * 0.5), 0) end as room,",
        ),
        red=(
            "store/test_pass_rates.py"
            "::test_a_window_remembers_all_of_its_period_for_those_who_come_later",
        ),
    ),
    mutation(
        "weight-ignored",
        "An owner with three times the weight gets no more than any other.",
        (
            _SHARES,
            "select shares.share_id, shares.pass, coalesce(share_weights.weight, 1) as weight,",
            "select shares.share_id, shares.pass, 1::float8 as weight,",
        ),
        red=("operations/sharing/test_lines.py::test_weights_decide_how_much_each_gets",),
    ),
    mutation(
        "turns-saved-up",
        "An owner who was away for a day has the queue for himself when he is back.",
        (
            _SHARES,
            "set idle_at = null, pass = greatest(mine.pass, excluded.pass)",
            "set idle_at = null, pass = mine.pass",
        ),
        red=(
            "operations/sharing/test_lines.py"
            "::test_nobody_saves_up_turns_while_he_has_nothing_in_line",
        ),
    ),
    mutation(
        "share-before-priority",
        "What is urgent waits for the turn of its owner.",
        (
            _SHARES,
            "order by urgency, pass, share_id limit 1;",
            "order by pass, urgency, share_id limit 1;",
        ),
        red=("operations/sharing/test_lines.py::test_priority_goes_before_any_share",),
    ),
    mutation(
        "new-limit-ignores-what-runs",
        "A limit of one that is set while three run lets a fourth start.",
        (
            "operations/usage_limits/put.py",
            "    await usage_limits.recount_slots(tx, stored.limit_id)\n",
            "",
        ),
        red=("operations/usage_limits/test_put.py::test_what_runs_counts_for_a_limit_that_is_new",),
    ),
)

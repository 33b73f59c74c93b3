"""Bugs in what is decided: budgets, gangs, states of jobs, schedules, rates."""

from mutants.mutation import mutation

MUTATIONS = (
    mutation(
        "retry-without-budget",
        "A task that always fails is retried for ever.",
        (
            "rules/retry.py",
            "if retryable and (is_free or failures <= terms.max_retries_failure):",
            "if retryable:",
        ),
        red=(
            "rules/test_retry.py::test_a_failure_is_retried_while_the_count_is_within_the_budget",
        ),
    ),
    mutation(
        "one-retry-too-few",
        "Of three retries that were asked for, two are made.",
        (
            "rules/retry.py",
            "failures <= terms.max_retries_failure):",
            "failures < terms.max_retries_failure):",
        ),
        red=(
            "rules/test_retry.py::test_a_failure_is_retried_while_the_count_is_within_the_budget",
        ),
    ),
    mutation(
        "loss-without-budget",
        "A task that kills every worker goes on to the next one for ever.",
        (
            "rules/retry.py",
            "if preemptions <= terms.max_retries_preemption and not loss.is_hopeless:",
            "if not loss.is_hopeless:",
        ),
        red=("rules/test_retry.py::test_a_loss_is_retried_while_the_count_is_within_the_budget",),
    ),
    mutation(
        "incurable-error-is-retried",
        "A task whose input is wrong runs as often as it may, each time for nothing.",
        (
            "rules/retry.py",
            "retryable = failure.error_class not in NOT_RETRYABLE",
            "retryable = True",
        ),
        red=(
            "rules/test_retry.py::test_an_error_that_no_retry_can_cure_finishes_with_budget_left",
        ),
    ),
    mutation(
        "backoff-without-ceiling",
        "After some failures a task waits for years.",
        (
            "rules/retry.py",
            "return min(backoff.ceiling, backoff.base * growth) * (0.5 + jitter)",
            "return backoff.base * growth * (0.5 + jitter)",
        ),
        red=("rules/test_backoff.py::test_the_delay_doubles_up_to_the_ceiling",),
    ),
    mutation(
        "cancelled-task-is-retried",
        "What was asked to stop fails on the way out, and starts again.",
        ("rules/retry.py", 'if cancel != "soft":', 'if cancel != "hard":'),
        red=(
            "rules/test_retry.py"
            "::test_after_a_soft_cancel_any_end_but_success_is_recorded_as_killed",
        ),
    ),
    mutation(
        "gang-half-restarted",
        "Of a gang only those restart that ran; the others wait for peers that never come.",
        (
            "rules/gang.py",
            "if job_is_live and member.state in OPEN_STATES and task_id not in own",
            "if job_is_live and member.state == TaskState.RUNNING and task_id not in own",
        ),
        red=("rules/test_gang.py::test_members_that_have_not_begun_restart_with_the_others",),
    ),
    mutation(
        "gang-charged-for-each-member",
        "One failure of a gang of eight costs eight retries.",
        (
            "rules/gang.py",
            "return TaskRetried(finished.state, *counters[:2], unseen, fate.delay)",
            "return TaskRetried(\n"
            "            finished.state, fate.failure_count, fate.preemption_count, unseen, "
            "fate.delay\n"
            "        )",
        ),
        red=("rules/test_gang.py::test_one_failure_restarts_everyone_at_the_price_of_one",),
    ),
    mutation(
        "job-of-dead-letters-succeeds",
        "A job whose tasks ended in the dead letters is shown as succeeded.",
        (
            "store/schema/functions/moves.sql",
            "when failed + case when fan_out then timed_out else 0 end + dead_lettered\n",
            "when failed + case when fan_out then timed_out else 0 end\n",
        ),
        red=(
            "store/test_job_state.py"
            "::test_the_database_derives_the_same_state_from_all_small_counts",
        ),
    ),
    mutation(
        "counts-without-a-state",
        "A task that succeeds stays among the running ones in the counts of its job, which "
        "never ends.",
        (
            "store/schema/functions/moves.sql",
            "running = jobs.running + coalesce(moves.running, 0),",
            "running = jobs.running + greatest(coalesce(moves.running, 0), 0),",
        ),
        red=(
            "ledger/test_moves.py"
            "::test_a_replica_that_failed_for_good_ends_the_job_and_its_siblings",
        ),
    ),
    mutation(
        "schedule-catches-up-beside-what-is-on-time",
        "After a pause a schedule that catches up with one fires twice.",
        ("rules/schedules/turn.py", "return 0 if has_newer else 1", "return 1"),
        red=(
            "rules/schedules/test_turn.py"
            "::test_turns_make_of_all_instants_what_the_plain_model_makes",
        ),
    ),
    mutation(
        "overlap-ignored",
        "A backup starts beside the one that has not ended.",
        (
            "rules/schedules/overlap.py",
            'if not open_jobs or overlap == "allow":',
            'if not open_jobs or overlap in ("allow", "skip"):',
        ),
        red=("operations/schedules/test_fire.py::test_who_overlaps_is_skipped",),
    ),
    mutation(
        "tokens-saved-up",
        "A rate that was not used for an hour lets an hour's worth through at once.",
        (
            "rules/limits/turns.py",
            "left = min(tokens, burst) - count",
            "left = tokens - count",
        ),
        red=(
            "rules/limits/test_turns.py"
            "::test_a_token_bucket_lets_no_more_through_than_its_burst_and_its_pace",
        ),
    ),
    mutation(
        "worker-dead-after-one-failure",
        "One lost heartbeat ends all that a healthy worker runs.",
        ("rules/health.py", "DEAD_AFTER_FAILURES = 3", "DEAD_AFTER_FAILURES = 1"),
        red=(
            "operations/placed/test_worker_heartbeats.py"
            "::test_failures_count_up_to_death_and_an_answer_begins_anew",
        ),
    ),
    mutation(
        "dependency-on-what-failed-holds",
        "A job starts although what it needed to succeed has failed before it was submitted.",
        (
            "rules/dependencies.py",
            "is_met = holds(condition, succeeded=state == JobState.SUCCEEDED) if ended else None",
            "is_met = True if ended else None",
        ),
        red=(
            "rules/test_dependencies.py"
            "::test_a_check_gives_the_first_cause_why_a_job_will_never_start",
        ),
    ),
)

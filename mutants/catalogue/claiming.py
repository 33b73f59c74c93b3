"""Bugs around claims, leases and fences: who may run a task, and who may speak for it."""

from mutants.mutation import mutation

MUTATIONS = (
    mutation(
        "claim-without-lock",
        "Two workers that ask at the same moment are given the same task.",
        (
            "store/schema/functions/turn.sql",
            "limit wanted.share\n                  for update of ready, tasks skip locked) as head",
            "limit wanted.share) as head",
        ),
        red=("races/test_claimers.py::test_64_claimers_of_one_queue_never_claim_a_task_twice",),
    ),
    mutation(
        "claim-of-a-replaced-worker",
        "A worker that was replaced since it is gone is given tasks all the same.",
        (
            "store/schema/functions/turn.sql",
            "where workers.worker_id = any (asking) and workers.lost_at is not null)\n"
            "               or is_bounded",
            "where workers.worker_id = any (asking) and workers.lost_at < '-infinity')\n"
            "               or is_bounded",
        ),
        red=("operations/claiming/test_turn.py::test_a_worker_that_was_replaced_is_given_nothing",),
    ),
    mutation(
        "start-without-token",
        "A worker that lost its lease starts the attempt of the worker that has it now.",
        (
            "store/sql/work/tasks.sql",
            "and leases.attempt = mine.attempt and leases.lease_token = mine.lease_token\n"
            "     where mine.state in ({ASSIGNED}, {BUILDING}) and not leases.ending",
            "and leases.attempt = mine.attempt\n"
            "     where mine.state in ({ASSIGNED}, {BUILDING}) and not leases.ending",
        ),
        red=(
            "operations/test_report.py::test_stale_tokens_and_attempts_conflict_and_change_nothing",
        ),
    ),
    mutation(
        "success-without-token",
        "Whoever knows the number of an attempt completes it, with a result of his own.",
        (
            "store/schema/functions/turn.sql",
            "and leases.attempt = mine.attempt and leases.lease_token = mine.lease_token\n"
            "         where not leases.ending\n    ),\n    moved as (",
            "and leases.attempt = mine.attempt\n"
            "         where not leases.ending\n    ),\n    moved as (",
        ),
        red=(
            "operations/ending/test_complete.py"
            "::test_a_strangers_success_does_not_end_a_running_attempt",
        ),
    ),
    mutation(
        "renewal-without-token",
        "A stranger keeps the lease of a dead worker alive, and its task hangs.",
        (
            "store/sql/work/leases.sql",
            "and leases.attempt = mine.attempt and leases.lease_token = mine.lease_token\n"
            "     order by mine.job_id, mine.task_index\n       for no key update",
            "and leases.attempt = mine.attempt\n"
            "     order by mine.job_id, mine.task_index\n       for no key update",
        ),
        red=("operations/test_renew.py::test_strangers_conflict_and_change_nothing",),
    ),
    mutation(
        "sql-completion-by-a-prefix-of-the-token",
        "A token that only begins like that of the lease completes the task by SQL.",
        (
            "store/schema/functions/complete.sql",
            "and leases.lease_token = complete.lease_token\n       for update",
            "and left(leases.lease_token::text, 8) = left(complete.lease_token::text, 8)\n   "
            "    for update",
        ),
        red=("store/test_sql_complete.py::test_a_stale_fence_is_refused_and_changes_nothing",),
    ),
    mutation(
        "renewal-revives-what-has-ended",
        "A worker is not told that its attempt was ended, and runs beside the next one.",
        (
            "operations/renew.py",
            '"hard" if ending else "soft" if cancelled else None',
            '"soft" if cancelled else None',
        ),
        red=("operations/test_renew.py::test_an_ending_lease_may_renew_and_is_told_to_stop",),
    ),
    mutation(
        "event-dropped",
        "Tasks move without an event, and who follows them never hears of it.",
        (
            "store/schema/triggers/tasks.sql",
            "create or replace trigger every_move_is_an_event after update on holdfast.tasks\n"
            "    referencing new table as moved for each statement execute function "
            "holdfast.write_task_events();",
            "",
        ),
        red=("store/test_schema.py::test_every_move_writes_exactly_one_event",),
    ),
    mutation(
        "requeue-before-release",
        "A retry starts while the process of the attempt before may still run.",
        (
            "store/sql/work/ready.sql",
            "where due.eligible_at <= (select holdfast.now())\n"
            "   and not exists (select from holdfast.leases\n"
            "                    where leases.job_id = due.job_id and leases.task_index = "
            "due.task_index)\n",
            "where due.eligible_at <= (select holdfast.now())\n",
        ),
        (
            "store/sql/work/ready.sql",
            "and coalesce(waiting.eligible_at, 'infinity') <= clock.now\n"
            "       and not exists (select from holdfast.leases\n"
            "                        where leases.job_id = any (array[mine.job_id]) and "
            "leases.task_index = mine.task_index)\n"
            "    returning",
            "and coalesce(waiting.eligible_at, 'infinity') <= clock.now\n    returning",
        ),
        red=("operations/ending/test_reap.py::test_a_timeout_that_fails_is_retried_once_released",),
    ),
    mutation(
        "cancel-releases-at-once",
        "A task that was cancelled hard frees its slot while its process still runs.",
        (
            "operations/ending/cancel.py",
            "end = AttemptEnd(Killed(reason), actor=actor, released=False)",
            "end = AttemptEnd(Killed(reason), actor=actor)",
        ),
        red=(
            "operations/ending/test_cancel.py"
            "::test_hard_ends_the_attempt_at_once_and_its_lease_is_ending",
        ),
    ),
    mutation(
        "lost-worker-releases-at-once",
        "What a silent worker had starts elsewhere while it may still run there.",
        (
            "rules/ending.py",
            "return AttemptEnd(loss, released=is_gone)",
            "return AttemptEnd(loss)",
        ),
        red=(
            "rules/test_ending.py::test_what_a_lost_worker_had_is_gone_if_the_worker_is",
            "operations/ending/test_lost_workers.py"
            "::test_what_a_dead_worker_ran_has_ended_and_is_released_with_its_lease",
        ),
    ),
    mutation(
        "timeout-releases-at-once",
        "A task that ran too long is retried while the first process goes on.",
        (
            "rules/ending.py",
            'error_class="Timeout", stage=None), released=False)',
            'error_class="Timeout", stage=None))',
        ),
        red=("rules/test_ending.py::test_other_deadlines_end_the_attempt_and_not_its_lease",),
    ),
    mutation(
        "reaper-ignores-an-outage",
        "After an hour without a database all that ran is charged, and ends in the dead letters.",
        (
            "rules/outage.py",
            "return watch.outage_from <= expires_at <= watch.outage_until",
            "return False",
        ),
        red=(
            "operations/ending/test_reap.py"
            "::test_after_an_outage_the_reaper_waits_and_then_charges_nothing",
        ),
    ),
    mutation(
        "reaper-does-not-wait-after-an-outage",
        "After an outage leases end before their workers could renew them.",
        (
            "rules/outage.py",
            "return watch.outage_until is not None and now < watch.outage_until",
            "return False",
        ),
        red=(
            "operations/ending/test_reap.py"
            "::test_a_worker_that_renews_after_an_outage_keeps_its_lease",
        ),
    ),
    mutation(
        "claim-key-not-kept",
        "A claim that is repeated after a lost answer is given more tasks, and the first "
        "ones idle.",
        (
            "store/schema/functions/turn.sql",
            "if num_keys < (select count(*) from unnest(claim_keys)",
            "if num_keys < (select 0 * count(*) from unnest(claim_keys)",
        ),
        red=(
            "operations/claiming/test_claim.py::test_a_repeat_under_a_key_returns_the_same_leases",
        ),
    ),
    mutation(
        "repeated-claim-of-what-has-ended",
        "A claim that is repeated hands out an attempt that has been ended meanwhile.",
        (
            "store/sql/work/leases.sql",
            "leases.claim_key = $claim_key and not leases.ending",
            "leases.claim_key = $claim_key",
        ),
        red=("operations/claiming/test_claim.py::test_a_repeat_leaves_out_leases_that_are_ending",),
    ),
    mutation(
        "paused-queue-is-claimed",
        "A queue that was paused goes on.",
        (
            "store/schema/functions/turn.sql",
            "for update of ready, tasks skip locked) as head\n"
            "         where not exists (select from holdfast.queues where queues.queue = "
            "wanted.queue)\n",
            "for update of ready, tasks skip locked) as head\n",
        ),
        red=(
            "operations/test_queues.py::test_a_paused_queue_hands_out_nothing_until_it_is_resumed",
        ),
    ),
    mutation(
        "turn-of-a-cancelled-job",
        "A task of a job that is cancelled at the same moment is handed out and runs on.",
        (
            "store/schema/functions/turn.sql",
            "bool_or(starts is not null) as must_be_live",
            "bool_and(false) as must_be_live",
        ),
        red=(
            "operations/claiming/test_turn.py"
            "::test_a_job_that_is_cancelled_meanwhile_undoes_the_turn",
        ),
    ),
    mutation(
        "batch-without-folding",
        "Of two reports of one attempt in a batch, one is lost or counted twice.",
        (
            "operations/ending/complete.py",
            "return refused, list(good.values())[::-1]",
            "return refused, [i for i, r in zip(completions, refused, strict=True) if r is None]",
        ),
        red=("operations/ending/test_complete.py::test_duplicates_in_one_batch_have_one_effect",),
    ),
    mutation(
        "another-story-is-accepted",
        "A worker that said failed, and then succeeded, is told that both are recorded.",
        (
            "operations/ending/complete.py",
            'if succeeded.get(item.fence) == (item.status == "succeeded")',
            "if item.fence in succeeded",
        ),
        red=(
            "operations/ending/test_complete.py::test_another_story_than_the_first_is_a_conflict",
        ),
    ),
    mutation(
        "success-of-an-ending-lease",
        "A task that was killed for its timeout succeeds after all, and twice.",
        (
            "store/schema/functions/turn.sql",
            "         where not leases.ending\n    ),\n    moved as (",
            "    ),\n    moved as (",
        ),
        red=(
            "operations/claiming/test_turn.py"
            "::test_what_holds_no_running_lease_is_left_and_nothing_happens_to_it",
        ),
        survives=(
            "Whoever makes a lease an ending one moves its task out of RUNNING in the same "
            "transaction, and under its lock; so the state alone keeps a success away."
        ),
    ),
)

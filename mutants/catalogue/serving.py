"""Bugs in servers: batches, bells, leaders, and who may do what."""

from mutants.mutation import mutation

MUTATIONS = (
    mutation(
        "acknowledged-before-it-is-durable",
        "What was acknowledged a moment before Postgres crashed is gone.",
        (
            "store/database.py",
            "set local jit = off;\n",
            "set local jit = off;\nset local synchronous_commit = off;\n",
        ),
        red=(
            "store/test_database.py"
            "::test_what_is_acknowledged_is_as_durable_as_its_postgres_makes_it",
        ),
    ),
    mutation(
        "batch-answered-before-its-commit",
        "A call is answered although the write that it went along with has failed.",
        (
            "ledger/batcher.py",
            "        except Exception as error:  # noqa: BLE001 - every caller gets the "
            "error that is its own\n"
            "            await self._retreat(batch, error)\n"
            "            return\n",
            "        except Exception:\n"
            "            answers = [None] * len(batch)  # type: ignore[list-item]\n",
        ),
        red=("ledger/test_batcher.py::test_a_bad_item_fails_alone_and_the_rest_is_written",),
    ),
    mutation(
        "bad-item-fails-its-batch",
        "One request that cannot be written fails all that came with it.",
        (
            "ledger/batcher.py",
            "if isinstance(error, Unavailable) and not is_lock_timeout:",
            "if not is_lock_timeout:",
        ),
        red=("ledger/test_batcher.py::test_a_bad_item_fails_alone_and_the_rest_is_written",),
    ),
    mutation(
        "call-between-two-writers-is-forgotten",
        "A request that comes while the last writer ends is not answered until the next one comes.",
        (
            "ledger/batcher.py",
            "        self._writers.discard(writer)\n        self._wake_writer()\n",
            "        self._writers.discard(writer)\n",
        ),
        red=("ledger/test_batcher.py::test_a_call_that_comes_while_all_writers_end_is_written",),
    ),
    mutation(
        "caller-that-has-left-is-written",
        "A claim whose caller has gone is made all the same, and its tasks wait for their leases.",
        (
            "ledger/batcher.py",
            "            if not entry.call.done.done():  # else its caller has gone away "
            "meanwhile\n"
            "                batch.append(entry)\n",
            "            batch.append(entry)\n",
        ),
        red=("ledger/test_batcher.py::test_an_item_whose_caller_has_gone_away_is_not_written",),
    ),
    mutation(
        "renewals-behind-writes",
        "Leases run out while a server waits for a lock.",
        (
            "services/writers.py",
            "= gather(renew.renew, own_slot)",
            "= gather(renew.renew)",
        ),
        red=("services/test_writers.py::test_renewals_go_on_while_every_write_is_held_up",),
    ),
    mutation(
        "looks-before-it-listens",
        "A task that is stored right after a poller has looked waits for the next poll.",
        (
            "api/claiming.py",
            "    with runtime.doorbells.listen(bells, request.max_tasks, wish) as listener:\n"
            "        try:\n"
            "            claims = await runtime.writers.claim(request)\n",
            "    claims = await runtime.writers.claim(request)\n"
            "    with runtime.doorbells.listen(bells, request.max_tasks, wish) as listener:\n"
            "        try:\n",
        ),
        red=("api/test_claiming.py::test_what_is_stored_between_a_look_and_the_wait_is_claimed",),
    ),
    mutation(
        "ring-leaves-with-its-listener",
        "A poller that gives up at the moment of a ring takes the news along, and nobody looks.",
        (
            "services/waking/doorbell.py",
            "            if listener.was_rung:\n                # It heard",
            "            if not listener.was_rung:\n                # It heard",
        ),
        red=(
            "services/waking/test_doorbell.py::test_who_leaves_without_looking_passes_the_news_on",
        ),
    ),
    mutation(
        "lent-claim-lost",
        "A poller whose claim was lent and came back empty waits on, beside a task that is ready.",
        (
            "services/waking/doorbell.py",
            "self.wake(rung=self.given is None)",
            "self.wake(rung=False)",
        ),
        red=("services/waking/test_doorbell.py::test_who_is_given_nothing_looks_by_himself",),
    ),
    mutation(
        "lender-leaves",
        "A poller goes home while its claim is being answered; the task waits for its lease.",
        (
            "services/waking/doorbell.py",
            "        while self._is_lent:\n            self._woken.clear()\n"
            "            await self._woken.wait()\n",
            "",
        ),
        red=("services/waking/test_doorbell.py::test_who_is_lent_stays_until_he_has_his_answer",),
    ),
    mutation(
        "stop-told-once-for-all",
        "A worker that was asked softly is never told that its time is over.",
        (
            "services/stops.py",
            "return stop.task_id, stop.attempt, stop.mode",
            'return stop.task_id, stop.attempt, "soft"',
        ),
        red=("services/test_stops.py::test_a_harder_stop_is_news_again",),
    ),
    mutation(
        "chore-ends-with-a-bug",
        "After one error a server never again ends leases that ran out.",
        (
            "services/chores.py",
            '        log.exception("%s failed", chore.name)\n',
            '        log.exception("%s failed", chore.name)\n        raise\n',
        ),
        red=(
            "services/test_chores.py::test_it_goes_on_after_a_broken_invariant_and_tells_it_whole",
        ),
    ),
    mutation(
        "deposed-leader-goes-on",
        "A server that was frozen goes on placing tasks beside the new leader.",
        (
            "store/sql/workers/cluster.sql",
            "where epoch = $epoch and leader = $leader for key share",
            "where $epoch > 0 and $leader <> '' for key share",
        ),
        red=("operations/placed/test_leadership.py::test_a_deposed_leader_can_do_nothing",),
    ),
    mutation(
        "answer-of-a-stranger-renews",
        "A worker names an attempt by a guessed token, and keeps it from being given elsewhere.",
        (
            "store/sql/workers/cluster.sql",
            "join holdfast.leases using (job_id, task_index, attempt, lease_token)\n"
            "     where leases.worker_id = mine.worker_id\n",
            "join holdfast.leases using (job_id, task_index, attempt)\n",
        ),
        red=(
            "operations/placed/test_worker_heartbeats.py"
            "::test_an_answer_speaks_for_leases_of_its_worker_alone",
        ),
    ),
    mutation(
        "placed-upon-a-worker-that-drains",
        "A worker that was asked to leave is given more, and never gets away.",
        (
            "store/sql/workers/cluster.sql",
            "where worker_id = any ($worker_ids::text[]) and lost_at is null and draining_at "
            "is null\n",
            "where worker_id = any ($worker_ids::text[]) and lost_at is null\n",
        ),
        red=(
            "operations/placed/test_place.py"
            "::test_a_worker_that_was_shut_after_the_plan_gets_nothing",
        ),
    ),
    mutation(
        "device-given-twice",
        "A GPU that a dead worker gave out is given again while the process may still use it.",
        (
            "store/sql/workers/cluster.sql",
            "where leases.placed and leases.devices is not null",
            "where leases.placed and leases.devices is not null and not leases.ending",
        ),
        red=(
            "operations/placed/test_giving.py"
            "::test_what_a_dead_worker_gave_out_waits_for_the_ends_of_its_leases",
        ),
    ),
    mutation(
        "adoption-without-token",
        "A worker adopts attempts whose leases it never had.",
        (
            "store/sql/workers/cluster.sql",
            "and leases.attempt = mine.attempt and leases.lease_token = mine.lease_token\n"
            "   and leases.placed",
            "and leases.attempt = mine.attempt and leases.placed",
        ),
        red=(
            "operations/test_register.py"
            "::test_live_attempts_are_adopted_and_ending_ones_only_bound",
        ),
    ),
    mutation(
        "adoption-from-anybody",
        "A worker takes what runs on another host from the worker that runs it.",
        (
            "store/sql/workers/cluster.sql",
            "and leases.placed and leases.worker_id = $replaces\n",
            "and leases.placed and $replaces <> ''\n",
        ),
        red=("operations/test_register.py::test_nobody_adopts_from_a_worker_it_does_not_replace",),
    ),
    mutation(
        "replaced-without-its-secret",
        "Whoever knows the id of a worker has all that it runs started elsewhere.",
        (
            "operations/register.py",
            "return not replaced.void and _is_secret_of(replaced, registration.replaces_secret)",
            "return not replaced.void",
        ),
        red=(
            "operations/test_register_secrets.py::test_a_worker_is_replaced_by_who_has_its_secret",
        ),
    ),
    mutation(
        "secret-of-a-worker-not-compared",
        "Whoever knows the id of a worker speaks for it, with any secret.",
        (
            "services/worker_credentials.py",
            "if not hmac.compare_digest(stored.secret_hash, shown.secret_hash):",
            "if len(stored.secret_hash) != len(shown.secret_hash):",
        ),
        red=("services/test_worker_credentials.py::test_what_is_not_the_workers_own_is_refused",),
    ),
    mutation(
        "revoked-token-is-good",
        "A token that was revoked opens the server until that is started again.",
        (
            "store/sql/access/tokens.sql",
            " where revoked_at is null and (expires_at is null or expires_at > holdfast.now())\n"
            " order by token_id;",
            " where expires_at is null or expires_at > holdfast.now()\n order by token_id;",
        ),
        red=(
            "services/test_callers.py::test_a_revoked_one_is_a_stranger_from_the_next_reading_on",
        ),
    ),
    mutation(
        "roles-not-checked",
        "A token that may only read cancels jobs.",
        (
            "api/route.py",
            "        caller.check_role(route.role, self._name)\n",
            "",
        ),
        red=("api/test_roles.py::test_every_route_refuses_who_may_not_call_it",),
    ),
    mutation(
        "owners-of-a-token-ignored",
        "A token for the jobs of one owner sees those of all.",
        (
            "api/route.py",
            '            await check_path(self._runtime, caller, scope["path_params"], '
            "what=self._name)\n",
            "",
        ),
        red=("api/test_roles.py::test_a_token_of_some_owners_or_queues_reaches_no_job_of_others",),
    ),
    mutation(
        "revoked-while-a-body-comes",
        "A request that takes an hour to come is obeyed after its token was revoked.",
        (
            "api/route.py",
            "if time.monotonic() - began_at >= ADMITTED_SECONDS:",
            "if time.monotonic() < began_at:",
        ),
        red=("api/test_roles.py::test_a_token_that_is_revoked_while_a_body_comes_changes_nothing",),
    ),
    mutation(
        "attempt-speaks-for-another",
        "Code of one task completes another one, whose token it has seen.",
        (
            "api/attempts.py",
            "if caller.attempt not in (None, fence):",
            "if caller.attempt is not None and not caller.attempt:",
        ),
        red=("api/test_attempts.py::test_it_names_no_lease_but_its_own",),
    ),
    mutation(
        "any-page-may-call",
        "A page of any site submits jobs through the browser of whoever reads it.",
        (
            "api/route.py",
            "        self._check_host(headers)\n",
            "",
        ),
        red=("api/test_route.py::test_a_page_of_another_site_cannot_call",),
    ),
    mutation(
        "cookie-alone-changes-something",
        "A page of another site cancels jobs in the name of who is logged in.",
        (
            "services/sessions.py",
            'if not hmac.compare_digest(hash_secret(csrf.decode("latin-1")), self.row.csrf_hash):',
            "if not self.row.csrf_hash:",
        ),
        red=("services/test_sessions.py::test_nothing_is_changed_by_a_cookie_alone",),
    ),
    mutation(
        "body-without-bound",
        "One request fills the memory of the server.",
        ("api/bodies.py", "        if size > bytes_max:\n", "        if size < 0:\n"),
        red=("api/test_bodies.py::test_it_is_bounded_by_what_it_says_and_by_what_comes",),
    ),
    mutation(
        "page-begins-with-the-last-row",
        "Who reads a list page by page sees a task twice.",
        (
            "store/sql/reads/work/tasks.sql",
            "select task_index from holdfast.tasks\n where job_id = $job_id and task_index > "
            "$after_index",
            "select task_index from holdfast.tasks\n where job_id = $job_id and task_index "
            ">= $after_index",
        ),
        red=("api/routes/work/test_tasks.py::test_tasks_are_listed_by_index_in_pages",),
    ),
    mutation(
        "page-leaves-out-a-row",
        "Who reads a list page by page never sees the job between two pages.",
        (
            "store/sql/reads/work/jobs.sql",
            "select job_id from holdfast.jobs where job_id < $before_job_id order by",
            "select job_id from holdfast.jobs where job_id < $before_job_id - 1 order by",
        ),
        red=("store/reads/work/test_jobs.py::test_jobs_are_listed_newest_first_and_pages_join",),
    ),
    mutation(
        "log-of-a-stranger",
        "A worker that lost its lease writes into the log of the attempt.",
        (
            "store/sql/work/attempts.sql",
            "  join holdfast.leases using (job_id, task_index, attempt, lease_token)\n cross "
            "join clock\n",
            "  join holdfast.leases using (job_id, task_index, attempt)\n cross join clock\n",
        ),
        red=("operations/test_logs.py::test_only_the_holder_of_the_lease_may_write",),
    ),
)

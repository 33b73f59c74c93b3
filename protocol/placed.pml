/*
 * Placed work: the server calls. One task, two workers, leaders that come and go.
 *
 *     leader (epoch, number)             worker (one incarnation)           process, under its shim
 *       |--- request n: wanted, acks ----->| refuses n unless it is new       |
 *       |    last answer stored: m         |--- start, kill ----------------->|
 *       |                                  | deadline = (answer m SENT) + what was left of the
 *       |                                  | lease when m was stored; margin off
 *       |<-- answer n: runs, has finished -|                                  |
 *     stores it: renews what runs, ends what finished, ends what is missing, releases what it had
 *     asked to stop and does not run. No answer in time: a failure; three of them: dead for ever,
 *     its attempts end at once, their leases run out.
 *
 * A worker gets one call at a time. When the call is over its request may still be under way, and
 * may arrive at any later time or again and again (`late`): from this leader or from one deposed.
 * Numbers are kept as their order: a call is newer than what is late, and what is late is either
 * lower than something the worker has seen (overtaken) or not. ledger.pml says what leases are.
 *
 * Properties as in claimed.pml. Broken: TAKEOVER_AT_THREE, RELEASE_AT_ONCE, DEADLINE_FROM_RECEIPT,
 * STALE_DESIRED_SET, ANY_ANSWER_RENEWS, START_AGAIN, NO_MARGIN.
 */

#define process_running(w) (process[w] == RUNNING)
#define process_stopping(w) (process[w] == STOPPING)
#include "ledger.pml"
#define TRANSIT_MAX (LEASE - MARGIN)    /* an answer that took longer grants nothing of use */

mtype:process = { NO_PROCESS, RUNNING, STOPPING };
mtype:call = { NO_CALL, REQUESTED, ANSWERED };

typedef Request {
    byte named;         /* the attempt this worker's unreleased lease belongs to */
    bool wanted;        /* run it, or stop it */
    byte good_for;      /* what is left of the lease, counted from the answer named */
    byte acknowledged   /* a completion that is stored, accepted or not */
};

/* The database, per worker. */
bool dead[WORKERS] = false;                 /* this incarnation, for ever */
bool answer_stored[WORKERS] = false;        /* at least one, of this incarnation */
byte answer_transit[WORKERS] = 0;           /* ticks between its sending and its storing */
bool reported[ATTEMPTS] = false;            /* the worker has acknowledged the attempt */
byte completion_stored[WORKERS] = NOBODY;

/* The network. */
mtype:call call[WORKERS] = NO_CALL;
Request request[WORKERS];
byte answer_runs[WORKERS] = NOBODY;
byte answer_finished[WORKERS] = NOBODY;
byte answer_age[WORKERS] = 0;
bool late[WORKERS] = false;
Request late_request[WORKERS];

/* The workers. */
mtype:process process[WORKERS] = NO_PROCESS;
mtype:outcome finished_as[WORKERS] = NONE;  /* kept until acknowledged */
byte known[WORKERS] = NOBODY;               /* started here; kept while requests name it */
#ifdef CHECK_START
bool started[ATTEMPTS] = false;             /* seen by the property alone */
#endif
#ifdef LIVENESS
bool called[WORKERS] = false;               /* one call a tick */
#endif

#define belongs(a, w) (unreleased(a) && lease_worker[a] == w && !incarnation_gone[a])
#define bound(w) (belongs(2, w) -> 2 : (belongs(1, w) -> 1 : (belongs(0, w) -> 0 : NOBODY)))
/* The workers are alike: whichever comes first is called 0. */
#define can_take(w) (answer_stored[w] && !dead[w] && (attempts_made > 0 || w == 0))

inline forget_traffic(a)
{
#ifdef CHECK_START
    started[a] = started[a] && unreleased(a);       /* CHECK_RELEASE covers the rest */
#endif
    reported[a] = reported[a] && unreleased(a)
}

inline clear_request(r)
{
    r.named = NOBODY;
    r.wanted = false;
    r.good_for = 0;
    r.acknowledged = NOBODY
}

/* ---- the leader's transactions ---- */

inline write_request(r, w)
{
    clear_request(r);
    r.named = bound(w);
    r.acknowledged = completion_stored[w];
    if
    :: r.named != NOBODY ->
        r.wanted = (lease[r.named] == LIVE);
        if
        :: r.wanted && answer_stored[w] ->
#ifdef ANY_ANSWER_RENEWS
            r.good_for = positive_difference(LEASE, answer_transit[w])
#else
#ifdef DEADLINE_FROM_RECEIPT
            r.good_for = lease_left[r.named]
#else
            r.good_for = positive_difference(lease_left[r.named], answer_transit[w])
#endif
#endif
        :: else
        fi
    :: else
    fi
}

inline store_completion(a, w)
{
    if
    :: a != NOBODY && belongs(a, w) && lease[a] == LIVE ->
        after_attempt(a, finished_as[w]);
        ended_by_worker[a] = true;
        release(a)
    :: a != NOBODY && belongs(a, w) && lease[a] == ENDING -> release(a)
    :: else
    fi;
    completion_stored[w] = a    /* a refused completion is acknowledged too */
}

/* The answer lacks what its own request named: it does not run, and never will. */
inline reconcile(a, w)
{
    if
    :: a != NOBODY && a != answer_runs[w] && a != answer_finished[w] && belongs(a, w) ->
        if
        :: request[w].wanted && reported[a] -> end_and_release(a)
        :: !request[w].wanted && lease[a] == ENDING -> release(a)
        :: else
        fi
    :: else
    fi
}

inline store_answer(w)
{
    answer_stored[w] = true;
    answer_transit[w] = answer_age[w];
    target = answer_runs[w];
    if
    :: target != NOBODY && belongs(target, w) -> lease_left[target] = LEASE; reported[target] = true
    :: else
    fi;
    store_completion(answer_finished[w], w);
    reconcile(request[w].named, w);
    target = 0
}

inline end_for_dead_worker(a)
{
    after_attempt(a, FAILED);
#ifdef TAKEOVER_AT_THREE
    release(a)
#else
    lease[a] = ENDING
#endif
}

inline declare_dead(w)
{
    dead[w] = true;
    target = bound(w);
    if
    :: target != NOBODY && lease[target] == LIVE -> end_for_dead_worker(target)
    :: else
    fi;
    target = 0
}

inline forget_late(w)
{
    late[w] = false;
    clear_request(late_request[w])
}

inline end_call(w)
{
    call[w] = NO_CALL;
    answer_runs[w] = NOBODY;
    answer_finished[w] = NOBODY;
    answer_age[w] = 0;
    clear_request(request[w])
}

/* A request that wants nothing can only kill, which processes do without it: it is not followed. */
inline leave_late(w)
{
    tell("the request to worker %d will be late, or comes twice\n", w);
    late[w] = true;
    late_request[w].named = request[w].named;
    late_request[w].wanted = request[w].wanted;
    late_request[w].good_for = request[w].good_for;
    late_request[w].acknowledged =
        (request[w].acknowledged == held[w] -> request[w].acknowledged : NOBODY)
}

#ifdef STALE_DESIRED_SET
#define refused_when_late(w) false
#else
#define refused_when_late(w) (call[w] == ANSWERED)      /* it has been seen */
#endif
#define worth_following(w) (request[w].wanted && request[w].good_for > MARGIN && !refused_when_late(w))

#define nothing_to_say(w) (finished && !any_unreleased && held[w] == NOBODY)

proctype CallsTo(byte w)
{
end:
    do
#ifdef LIVENESS
    :: d_step { call[w] == NO_CALL && !dead[w] && !called[w] -> called[w] = true;
#else
    :: d_step { call[w] == NO_CALL && !dead[w] && !nothing_to_say(w) ->
#endif
        tell("leader calls worker %d\n", w); call[w] = REQUESTED; write_request(request[w], w) }
    :: atomic { call[w] != NO_CALL ->
        if
        :: fault_allowed && worth_following(w) -> spend_fault(); leave_late(w)
        :: true
        fi;
        if
        :: d_step { call[w] == ANSWERED ->
            tell("answer of worker %d is stored\n", w); store_answer(w) }
        :: d_step { fault_allowed ->
            tell("call to worker %d fails, or its leader is deposed\n", w); spend_fault() }
        :: d_step { fault_allowed ->
            tell("call to worker %d fails for the third time: dead\n", w); spend_fault();
            declare_dead(w) }
        fi;
        d_step { end_call(w); check_properties() } }
#ifdef DEPOSED_LEADER_READS
    :: d_step { call[w] != ANSWERED && !late[w] && fault_allowed ->
        tell("a deposed leader reads what to send to worker %d\n", w); spend_fault();
        write_request(late_request[w], w); late[w] = late_request[w].good_for > MARGIN;
        if
        :: !late[w] -> forget_late(w)
        :: else
        fi }
#endif
    :: d_step { claimable && can_take(w) ->
        tell("the task is placed on worker %d\n", w); open_lease(w); check_properties() }
    od
}

proctype LeaseOf(byte a)
{
end:
    do
    :: d_step { unreleased(a) && lease_left[a] == 0 ->
        tell("reaper ends the lease of attempt %d\n", a); end_and_release(a); check_properties() }
    :: d_step { lease[a] == LIVE ->
        tell("hard cancel of attempt %d\n", a); end_attempt(a, KILLED); check_properties() }
    :: d_step { lease[a] == LIVE ->
        tell("run timeout of attempt %d, may be retried\n", a); end_attempt(a, FAILED);
        check_properties() }
    :: d_step { lease[a] == LIVE && incarnation_gone[a] ->
        tell("the old incarnation holding attempt %d is dead\n", a); end_for_dead_worker(a);
        check_properties() }
    :: d_step { unreleased(a) && incarnation_gone[a] && !listened_to(a) ->
        tell("the new incarnation knows attempt %d gone and replaces\n", a); end_and_release(a);
        check_properties() }
    od
}

/* ---- the workers ---- */

inline kill_process(w)
{
    process[w] = STOPPING;
    worker_left[w] = 0;
    kill_left[w] = KILL_TIME;
    set_work(w, 0)
}

inline process_gone(w, how)
{
    process[w] = NO_PROCESS;
    worker_left[w] = 0;
    kill_left[w] = 0;
    finished_as[w] = how;
    set_work(w, 0)
}

inline let_go(w)
{
    finished_as[w] = NONE;
    target = held[w];
    held[w] = NOBODY;
    completion_stored[w] = NOBODY;      /* to acknowledge it again would tell the worker nothing */
    forget_attempt(target);
    target = 0
}

inline obey(r, w)
{
    if
    :: finished_as[w] != NONE && r.acknowledged == held[w] ->
        if
        :: ended_by_worker[held[w]] -> check_acknowledgement(held[w], finished_as[w])
        :: else
        fi;
        let_go(w)
    :: else
    fi;
#ifdef START_AGAIN
    known[w] = NOBODY;
#else
    known[w] = (held[w] == NOBODY && known[w] != r.named -> NOBODY : known[w]);
#endif
    if
    :: process[w] == RUNNING && !(r.wanted && r.named == held[w]) -> kill_process(w)
    :: process[w] == RUNNING && r.wanted && r.named == held[w] ->
        worker_left[w] = larger(worker_left[w], r.good_for)
    :: process[w] == NO_PROCESS && held[w] == NOBODY && r.wanted && r.good_for > MARGIN &&
       known[w] == NOBODY ->
        tell("  and starts attempt %d\n", r.named);
#ifdef CHECK_START
        assert(!started[r.named]);
        started[r.named] = true;
#endif
        held[w] = r.named;
        known[w] = r.named;
        worker_left[w] = r.good_for;
        process[w] = RUNNING;
        set_work(w, WORK_MAX)
    :: else
    fi
}

inline answer(w)
{
    call[w] = ANSWERED;
    answer_runs[w] = (process_alive(w) -> held[w] : NOBODY);
    answer_finished[w] = (finished_as[w] != NONE -> held[w] : NOBODY);
    answer_age[w] = 0
}

/*
 * Processes outlive their worker; what it knew of finished ones is gone. To register and to adopt
 * is one transaction: a call written in between would not name the attempt, and so would kill it.
 */
inline restart(w)
{
    for (each : 0 .. ATTEMPTS - 1) {
        incarnation_gone[each] = incarnation_gone[each] ||
                                 (unreleased(each) && lease_worker[each] == w)
    }
    each = 0;
    end_call(w);
    forget_late(w);             /* every request names the incarnation it is meant for */
    dead[w] = false;
    answer_stored[w] = false;
    answer_transit[w] = 0;
    completion_stored[w] = NOBODY;
    known[w] = (process_alive(w) -> held[w] : NOBODY);
    if
    :: finished_as[w] != NONE -> let_go(w)
    :: else
    fi
}

proctype Worker(byte w)
{
end:
    do
    :: d_step { call[w] == REQUESTED ->
        tell("worker %d has the call\n", w);
        obey(request[w], w); answer(w);
#ifndef STALE_DESIRED_SET
        /* A lower number is refused whenever it comes, and so is this one when it comes again. */
        forget_late(w); request[w].good_for = 0; request[w].acknowledged = NOBODY;
#endif
        check_properties() }
    :: d_step { late[w] ->
        tell("worker %d has a late request\n", w);
        obey(late_request[w], w); forget_late(w); check_properties() }
    :: d_step { process[w] == RUNNING && worker_left[w] <= MARGIN ->
        tell("worker %d reaches its own deadline, kills\n", w); kill_process(w) }
    :: d_step { process[w] == STOPPING ->
        tell("worker %d sees the killed process gone\n", w); process_gone(w, FAILED) }
    :: d_step { process[w] == RUNNING ->
        tell("worker %d sees its process succeed\n", w); process_gone(w, SUCCEEDED) }
    :: d_step { process[w] == RUNNING ->
        tell("worker %d sees its process fail\n", w); process_gone(w, FAILED) }
    :: d_step { process[w] == RUNNING && fault_allowed ->
        tell("worker %d loses its process without a trace\n", w); spend_fault();
        process_gone(w, FAILED); let_go(w) }
    :: d_step { dead[w] || fault_allowed ->
        tell("worker %d begins a new incarnation\n", w);
        if
        :: !dead[w] -> spend_fault()
        :: else
        fi;
        restart(w) }
    :: d_step { (dead[w] || fault_allowed) && process[w] == RUNNING && lease[held[w]] == LIVE ->
        tell("worker %d begins a new incarnation and adopts\n", w);
        if
        :: !dead[w] -> spend_fault()
        :: else
        fi;
        restart(w); incarnation_gone[held[w]] = false; reported[held[w]] = true }
    od
}

/* ---- the clock ---- */

#define traffic(a) false
#define worker_can_act(w) (call[w] != NO_CALL || late[w] || dead[w] || !called[w] \
                           || (claimable && can_take(w)) \
                           || (process[w] == RUNNING && work_left[w] == 0))
/* A grant within the margin neither starts nor prolongs anything: it counts as nothing. */
#define age_grant(grant) grant = (grant > MARGIN + 1 -> grant - 1 : 0)

inline age_attempt(a) { skip }

inline age_worker(w)
{
#ifndef DEADLINE_FROM_RECEIPT
    age_grant(request[w].good_for);
    age_grant(late_request[w].good_for);
#endif
#ifdef ANY_ANSWER_RENEWS
    count_up(answer_transit[w], TRANSIT_MAX);
#endif
#ifdef LIVENESS
    called[w] = false;
#endif
    count_up(answer_age[w], (call[w] == ANSWERED -> TRANSIT_MAX : 0));
    if
    :: late_request[w].good_for == 0 -> forget_late(w)
    :: else
    fi
}

#include "clock.pml"

init
{
    atomic {
        clear_request(request[0]); clear_request(request[1]);
        clear_request(late_request[0]); clear_request(late_request[1]);
        run CallsTo(0); run CallsTo(1);
        run LeaseOf(0); run LeaseOf(1); run LeaseOf(2);
        run Worker(0); run Worker(1)
    }
}

#ifdef LIVENESS
ltl every_task_ends { <> (finished && !any_unreleased && held[0] == NOBODY && held[1] == NOBODY) }
#endif

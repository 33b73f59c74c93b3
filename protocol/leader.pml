/*
 * The leader's side of placed.pml: what it reads into a request, what it makes of an answer or of
 * none, and the chores that look at leases alone. Each step is one transaction that also checks
 * the leader's epoch: what a deposed leader read before may still be sent, and that is all.
 */

#define belongs(a, w) (unreleased(a) && lease_worker[a] == w && !incarnation_gone[a])
#define bound(w) (belongs(2, w) -> 2 : (belongs(1, w) -> 1 : (belongs(0, w) -> 0 : NOBODY)))
/* The workers are alike: whichever comes first is called 0. */
#define can_take(w) (answer_stored[w] && !dead[w] && (attempts_made > 0 || w == 0))

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
#ifdef NO_FENCE
    /* Whoever speaks, the task's open attempt is ended. */
    :: a != NOBODY && attempts_made > 0 && lease[attempts_made - 1] == LIVE ->
        target = attempts_made - 1;
        after_attempt(target, finished_as[w]);
        ended_by_worker[target] = true;
        release(target);
        target = 0
#endif
#ifdef ENDING_MAY_SUCCEED
    :: a != NOBODY && belongs(a, w) ->
#else
    :: a != NOBODY && belongs(a, w) && lease[a] == LIVE ->
#endif
        after_attempt(a, finished_as[w]);
        ended_by_worker[a] = true;
        release(a)
    :: a != NOBODY && belongs(a, w) && lease[a] == ENDING ->
#ifdef ENDING_IS_ACCEPTED
        ended_by_worker[a] = true;
#endif
        release(a)
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

inline store_ends(w)
{
    store_completion(answer_finished[w], w);
    reconcile(request[w].named, w)
}

inline note_heard(w)
{
    answer_stored[w] = true;
    answer_transit[w] = answer_age[w];
    target = answer_runs[w];
    if
    :: target != NOBODY && belongs(target, w) ->
        lease_left[target] = LEASE; reported[target] = true; forget_offer(target)
    :: else
    fi;
    target = 0
}

inline store_answer(w)
{
    note_heard(w);
    store_ends(w)
}

#ifdef UNDELIVERED
/* Offered by the call that has been answered, and not there. */
#define lacks_new(w) (request[w].wanted && belongs(request[w].named, w) \
                      && !reported[request[w].named] && answer_runs[w] != request[w].named \
                      && answer_finished[w] != request[w].named)

/* A call that ends otherwise may have arrived, or will; what the worker has named is known. */
inline note_offer(w)
{
#ifndef BROKEN_CALL_IS_NONE
    if
    :: request[w].wanted && belongs(request[w].named, w) ->
        offered[request[w].named] = !reported[request[w].named]
    :: else
    fi
#else
    skip
#endif
}

/*
 * What no call that may have arrived has offered: nobody could be connected to for any that named
 * it, or it was placed while the call was under way that has failed now.
 */
inline end_never_offered(w)
{
    target = bound(w);
    if
    :: target != NOBODY && !reported[target] && !offered[target] -> end_and_release(target)
    :: else
    fi;
    target = 0
}
#endif

inline declare_dead(w)
{
    dead[w] = true;
    target = bound(w);
    if
    :: target != NOBODY && lease[target] == LIVE ->
#ifdef TAKEOVER_AT_THREE
        end_and_release(target)
#else
        end_attempt(target, FAILED)
#endif
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
#define refused_when_late(w) (call[w] != REQUESTED)     /* it has been seen */
#endif
#define worth_following(w) (request[w].wanted && request[w].good_for > MARGIN \
                            && !refused_when_late(w))

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
#ifdef SEVERAL
    :: d_step { call[w] == ANSWERED ->
        tell("ends in the answer of worker %d are stored\n", w); store_ends(w);
        call[w] = HALF_STORED; check_properties() }
#endif
#ifdef UNDELIVERED
    :: d_step { call[w] == REQUESTED && fault_allowed ->
        tell("nobody takes the call to worker %d\n", w); spend_fault();
        end_never_offered(w); end_call(w); check_properties() }
#endif
    :: atomic { call[w] != NO_CALL ->
#ifdef UNDELIVERED
        note_offer(w);
#endif
        if
        :: fault_allowed && worth_following(w) -> spend_fault(); leave_late(w)
        :: true
        fi;
        if
#ifdef SEVERAL
        :: d_step { call[w] == HALF_STORED ->
            tell("answer of worker %d is noted as heard\n", w); note_heard(w) }
#else
        :: d_step { call[w] == ANSWERED ->
            tell("answer of worker %d is stored\n", w); store_answer(w) }
#endif
#ifdef ACKNOWLEDGED_UNSTORED
        :: d_step { call[w] == ANSWERED && fault_allowed ->
            tell("ends in the answer of worker %d are not stored, but acknowledged\n", w);
            spend_fault(); completion_stored[w] = answer_finished[w] }
#endif
#ifdef UNDELIVERED
        :: d_step { call[w] == ANSWERED && lacks_new(w) ->
            tell("answer of worker %d does not name what the call brought\n", w);
            store_answer(w); end_and_release(request[w].named) }
#endif
        :: d_step { fault_allowed ->
            tell("call to worker %d fails, or its leader is deposed\n", w); spend_fault() }
#ifdef UNDELIVERED
        :: d_step { fault_allowed ->
            tell("call to worker %d fails, and what none has offered ends\n", w); spend_fault();
            end_never_offered(w) }
#endif
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

active proctype CancelWithoutAttempt()
{
end:
    do
    :: d_step { task_state == PENDING ->
        tell("cancel before attempt %d\n", attempts_made); cancel(); check_properties() }
    od
}

proctype LeaseOf(byte a)
{
end:
    do
#ifndef NO_REAPER
    :: d_step { unreleased(a) && lease_left[a] == 0 ->
        tell("reaper ends the lease of attempt %d\n", a); end_and_release(a); check_properties() }
#endif
#ifdef SOFT_CANCEL
    :: d_step { lease[a] == LIVE && !soft_cancel ->
        tell("soft cancel of attempt %d\n", a); soft_cancel = true }
#endif
    :: d_step { lease[a] == LIVE ->
        tell("hard cancel of attempt %d\n", a); end_attempt(a, KILLED); check_properties() }
    :: d_step { lease[a] == LIVE ->
        tell("run timeout of attempt %d, may be retried\n", a); end_attempt(a, FAILED);
        check_properties() }
    :: d_step { lease[a] == LIVE && incarnation_gone[a] ->
        tell("the old incarnation holding attempt %d is dead\n", a); end_attempt(a, FAILED);
        check_properties() }
#ifdef REPLACES_WHAT_RUNS
    :: d_step { unreleased(a) && incarnation_gone[a] ->
#else
    :: d_step { unreleased(a) && incarnation_gone[a] && !listened_to(a) ->
#endif
        tell("the new incarnation knows attempt %d gone and replaces\n", a); end_and_release(a);
        check_properties() }
    od
}

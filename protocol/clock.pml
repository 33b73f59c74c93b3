/*
 * The clock: all timers count down together. It waits for a worker that has reached its own
 * deadline or whose kill has taken its time, for nobody else; with LIVENESS it also waits until
 * nobody can act, unless a fault is spent on a stall.
 */

#define must_stop(w) ((process_running(w) && worker_left[w] <= MARGIN) \
                      || (process_stopping(w) && kill_left[w] == 0))

#ifdef FROZEN_MACHINE
#define clock_may_move true
#else
#define clock_may_move (!must_stop(0) && !must_stop(1))
#endif

#ifdef LIVENESS
#ifdef NO_REAPER
#define overdue(a) false
#else
#define overdue(a) (unreleased(a) && lease_left[a] == 0)
#endif
#define anybody_can_act (worker_can_act(0) || worker_can_act(1) || traffic(0) || traffic(1) \
                         || traffic(2) || overdue(0) || overdue(1) || overdue(2))
#else
#define anybody_can_act false
#endif

inline pass_time()
{
    for (each : 0 .. ROOM - 1) {
        count_down(lease_left[each]);
        age_attempt(each)
    }
    for (each : 0 .. WORKERS - 1) {
        count_down(worker_left[each]);
        count_down(kill_left[each]);
#ifdef LIVENESS
        count_down(work_left[each]);
#endif
        age_worker(each)
    }
    each = 0
}

active proctype Clock()
{
end:
    do
    :: d_step { clock_may_move && !anybody_can_act -> tell("%d tick passes\n", 1); pass_time() }
#ifdef LIVENESS
    :: d_step { clock_may_move && anybody_can_act && fault_allowed ->
        tell("%d tick passes, all others stall\n", 1); spend_fault(); pass_time() }
#endif
    od
}

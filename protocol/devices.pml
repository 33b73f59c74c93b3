/*
 * Devices: one host with two of them, two leaders of which one may be deposed, three attempts.
 *
 * Who places reads what unreleased leases hold on the host, whichever incarnation of its worker they
 * belong to, chooses a device that is free by that, and commits in a transaction that holds its term:
 * a leader that was deposed meanwhile commits nothing. A device is held from the lease to its release:
 * an attempt that was ended may still run. Processes outlive their worker; the next incarnation adopts
 * them, or knows them gone, or their leases run out.
 *
 * Properties: CHECK_DEVICES. Broken: DEVICE_FREED_AT_END, FREED_WITH_ITS_WORKER, DEPOSED_LEADER_PLACES.
 */

#define ROOM 3
#define DEVICES 2
#define NO_DEVICE 2

mtype:lease = { NO_LEASE, LIVE, ENDING, RELEASED };

mtype:lease lease[ROOM] = NO_LEASE;
byte device[ROOM] = NO_DEVICE;
bool is_orphan[ROOM] = false;       /* the incarnation that was given it is gone */
bool alive[ROOM] = false;           /* its process, which has the device */
byte attempts_made = 0;
byte epoch = 0;

#define tell(what, whom) printf(what, whom)
#ifdef DEVICE_FREED_AT_END
#define keeps(a) (lease[a] == LIVE)
#else
#ifdef FREED_WITH_ITS_WORKER
#define keeps(a) ((lease[a] == LIVE || lease[a] == ENDING) && !is_orphan[a])
#else
#define keeps(a) (lease[a] == LIVE || lease[a] == ENDING)
#endif
#endif
#define unreleased(a) (lease[a] == LIVE || lease[a] == ENDING)
#define in_use(d) ((keeps(0) && device[0] == d) || (keeps(1) && device[1] == d) \
                   || (keeps(2) && device[2] == d))

inline check_devices()
{
#ifdef CHECK_DEVICES
    assert(!(alive[0] && alive[1] && device[0] == device[1]));
    assert(!(alive[0] && alive[2] && device[0] == device[2]));
    assert(!(alive[1] && alive[2] && device[1] == device[2]))
#else
    skip
#endif
}

proctype Leader(byte mine)
{
    byte chosen = NO_DEVICE;
end:
    do
    :: atomic { epoch == mine && chosen == NO_DEVICE && attempts_made < ROOM ->
        if
        :: !in_use(0) -> chosen = 0
        :: !in_use(1) -> chosen = 1
        :: else -> skip
        fi;
        tell("leader %d has read which devices are free\n", mine) }
#ifdef DEPOSED_LEADER_PLACES
    :: d_step { chosen != NO_DEVICE && attempts_made < ROOM ->
#else
    /* A leader that is not deposed has placed all there is by itself: what it has read still holds. */
    :: d_step { chosen != NO_DEVICE && attempts_made < ROOM && epoch == mine ->
#endif
        tell("leader %d places\n", mine);
        device[attempts_made] = chosen;
        lease[attempts_made] = LIVE;
        attempts_made++;
        chosen = NO_DEVICE }
    :: d_step { epoch == mine && mine == 0 -> tell("leader %d is deposed\n", mine); epoch = 1 }
    :: d_step { epoch != mine && chosen != NO_DEVICE -> chosen = NO_DEVICE }
    od
}

proctype Attempt(byte a)
{
end:
    do
    :: d_step { lease[a] == LIVE && !alive[a] && !is_orphan[a] -> tell("process %d starts\n", a);
        alive[a] = true; check_devices() }
    :: d_step { lease[a] == LIVE -> tell("attempt %d is ended\n", a); lease[a] = ENDING }
    :: d_step { alive[a] -> tell("process %d is gone\n", a); alive[a] = false;
        lease[a] = (is_orphan[a] -> lease[a] : RELEASED) }
    :: d_step { unreleased(a) && !alive[a] && is_orphan[a] ->
        tell("attempt %d is known to be gone, or its lease has run out\n", a); lease[a] = RELEASED }
    :: d_step { unreleased(a) && alive[a] && is_orphan[a] ->
        tell("attempt %d is adopted\n", a); is_orphan[a] = false }
    od
}

active proctype Worker()
{
    byte each;
end:
    do
    :: d_step { unreleased(0) || unreleased(1) || unreleased(2) ->
        tell("a new incarnation of the worker, %d attempts made\n", attempts_made);
        for (each : 0 .. ROOM - 1) { is_orphan[each] = unreleased(each) }
        each = 0 }
    od
}

init
{
    atomic { run Leader(0); run Leader(1); run Attempt(0); run Attempt(1); run Attempt(2) }
}

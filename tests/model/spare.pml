/* SPDX-License-Identifier: Apache-2.0
 *
 * spare: a node is lost, and node 0 calls a spare to its place (cluster.spares).
 *
 * In the model: node 0, PLACES places of nodes, and the supervisors. Each place has one from the
 * start. COMERS more are started for the first place, as a scheduler does after a loss, but at any
 * time. SPARES stand by from any time on. A supervisor may end at any instant. Node 0 gives nodes
 * up, LOSSES times in a run, also one that is well. A connection breaks, BREAKS times in a run. A
 * message comes in order and any time later, or is lost with its connection. Two connections of one
 * supervisor overtake each other: the HELLO of a called spare may come before its goodbye as a
 * spare, and with a break an old HELLO after it has stood by again. Then this holds:
 *
 *   - A place is given to one supervisor, and two never train in it at once.
 *   - A supervisor that knows the attempt is never told to stand by.
 *   - Each vacant place has one call, as long as a spare stands by whose own call was not too late.
 *     A call ends within CALL, and at once when its spare is lost or refused, or another supervisor
 *     has taken the place.
 *   - The wait ends within WAIT of the first loss; a place that is filled by then has LEAVE more
 *     for its supervisor to say that it has no ranks. After that only the fence is waited for.
 *   - A caller that is not answered gives up within JOIN.
 *
 * The fence is an assumption here, and a strong one: it ends when the lost supervisor has ended,
 * and not later. replace.pml shows which time makes that true, and lease.pml why.
 *
 * With BEFORE the job has not started. It has one place, and its supervisors come one by one, or
 * never. A supervisor that is not healthy is lost. A silent one has to join again. The place of a
 * node that has not joined becomes vacant at any time, if a spare is left for it. The same holds as
 * above, and the first generation begins when the place is filled. The wait for it ends within
 * BEFORE, or WAIT after the first loss, if that is later. As in the code, the longer time counts
 * only while the place of a lost node is vacant.
 *
 * Left out or made coarse, beside what replace.pml leaves out:
 *
 *   - Generations and orders. A node whose connection is open starts and stops its ranks by one
 *     step, at any time after node 0 has decided it. Node 0's own ranks have ended at once.
 *   - Heartbeats. Instead, node 0 may repeat STANDBY at any time; silence is an end of the
 *     connection, or a loss, at any time. Node 0 closes the connection of a node that it gives up.
 *   - A supervisor that says it is a node that was never replaced: node 0 closes its connection.
 *     In the code that waits until the node is heard, or lost.
 *   - Two supervisors with one number of a spare.
 *   - How long a node has to be missing before its place becomes vacant, and when health checks end.
 *     The short time in which a broken connection may be back, when all had joined.
 *   - A supervisor has two connections at most that node 0 has not seen the end of, and takes at
 *     most TURNS calls. A spare that was called more often does not come. Only a spare, or a
 *     supervisor that has come later, calls again.
 *   - When the job ends, all supervisors end. A user does not end it.
 *
 * World: PLACES (1), COMERS (1, at most one), SPARES (2), TURNS (1), LOSSES (2), BREAKS (0), LEAVE
 * (1; only with 2 does a filled place outlast WAIT), BEFORE (in ticks; not set: the job runs), MISSES
 * (the caller does not have the save, perhaps: node 0 refuses it). The proofs have BREAKS=0; only
 * samples, mutants and witnesses have more. Every other flag leaves out one rule, and must then be
 * caught; check.py has it in words. WITNESS=n asserts that something cannot happen.
 */

#ifndef PLACES
#define PLACES 1
#endif
#ifndef COMERS
#define COMERS 1
#endif
#ifndef SPARES
#define SPARES 2
#endif
#ifndef TURNS
#define TURNS 1
#endif
#ifndef BREAKS
#define BREAKS 0
#endif
#ifndef LOSSES
#define LOSSES 2
#endif
/* In the order of their numbers as spares: a comer has the number of its node. */
#define FIRST_SPARE (PLACES + COMERS)
#define SUPERVISORS (PLACES + COMERS + SPARES)
#define NONE        255

/* In ticks. */
#ifndef WAIT
#define WAIT 2
#endif
#ifndef LEAVE
#define LEAVE 1
#endif
#define CALL  1
#define JOIN  1

/* Words of a supervisor; a HELLO as a node has the place added. A FORMER knows the attempt. */
#define BYE           1
#define HELLO_SPARE   2
#define HELLO(place)  (4 + (place))
#define FORMER(place) (8 + (place))
#define PLACE(word)   ((word) % 4)
/* Words of node 0; STANDBY has the place added, from 1. */
#define WELCOME   1
#define REFUSED   2
#define STANDBY   4

/* The supervisors. */
#define AWAY  0 /* not started yet */
#define SPARE 1
#define NODE  2
#define OUT   3
byte role[SUPERVISORS];
byte target[SUPERVISORS];     /* the place that it says it has */
bool answered[SUPERVISORS];   /* in this role; a node then knows the attempt */
bool trains[SUPERVISORS];
byte begun[SUPERVISORS];      /* how often it has begun anew: its incarnation */
byte waits[SUPERVISORS];      /* for its first answer in this role */

/* The connections: the one that a supervisor uses, and the one before it. */
#define FREE 0
#define OPEN 1
#define LEFT 2 /* the supervisor has closed it, or it broke, and node 0 does not know */
#define SHUT 3 /* node 0 has closed it, and the supervisor does not know */
byte state[2 * SUPERVISORS];
byte up[2 * SUPERVISORS];     /* the word on its way; 0: none */
byte down[2 * SUPERVISORS];
byte caller[2 * SUPERVISORS]; /* the incarnation that opened it */
#define MINE(s) (2 * (s))
#define OLD(s)  (2 * (s) + 1)

/* Node 0: the places. */
#define RUNS  0
#define STOPS 1 /* a generation has ended, the next has not begun */
#define OVER  2
byte job;
byte at[PLACES];              /* the supervisor that has the place, or had it last */
byte at_begun[PLACES];        /* its incarnation */
byte conn[PLACES];
bool vacant[PLACES];
bool was_replaced[PLACES];
bool may_run[PLACES];
bool gone[PLACES];
byte left;                    /* of the wait */
byte leave;                   /* for a supervisor to say that it has no ranks */
/* Node 0: the spares. */
byte spare_conn[SUPERVISORS];
byte place[SUPERVISORS];      /* that it is called to, from 1; 0: none */
bool was_called[SUPERVISORS]; /* since its HELLO */
byte age[SUPERVISORS];        /* of its call */

/* The world, and a history of the run for the assertions alone. */
bool is_owed[SUPERVISORS];    /* it is lost, and may have ranks */
bool has_place[SUPERVISORS];
bool was_late[SUPERVISORS];   /* its own call was over before it came */
bool is_hopeless[SUPERVISORS]; /* node 0 has seen that it does not come */
byte waited;
byte breaks, losses;

#ifdef BEFORE
bool joins = true;            /* the job has not started: STOPS, without an earlier generation */
bool was_missing[PLACES];     /* vacant, because no supervisor had joined */
byte more;                    /* of the wait for a node that was not healthy, and 1; 0: none was */
#define JOINS          joins
#define FIRST_JOIN     true
#define WAS_MISSING(p) was_missing[p]
#else
#define JOINS          false
#define FIRST_JOIN     false
#define WAS_MISSING(p) false
#endif

#if PLACES == 2
#define SOME_PLACE(what) (what(0) || what(1))
#define ALL_PLACES(what) (what(0) && what(1))
#define EACH_PLACE(what) what(0); what(1)
#else
#define SOME_PLACE(what) what(0)
#define ALL_PLACES(what) what(0)
#define EACH_PLACE(what) what(0)
#endif
#if SUPERVISORS == 5
#define SOME(what) (what(0) || what(1) || what(2) || what(3) || what(4))
#define ALL(what)  (what(0) && what(1) && what(2) && what(3) && what(4))
#define EACH(what) what(0); what(1); what(2); what(3); what(4)
#define HOW_MANY(what) (what(0) + what(1) + what(2) + what(3) + what(4))
#elif SUPERVISORS == 4
#define SOME(what) (what(0) || what(1) || what(2) || what(3))
#define ALL(what)  (what(0) && what(1) && what(2) && what(3))
#define EACH(what) what(0); what(1); what(2); what(3)
#define HOW_MANY(what) (what(0) + what(1) + what(2) + what(3))
#elif SUPERVISORS == 3
#define SOME(what) (what(0) || what(1) || what(2))
#define ALL(what)  (what(0) && what(1) && what(2))
#define EACH(what) what(0); what(1); what(2)
#define HOW_MANY(what) (what(0) + what(1) + what(2))
#else
#define SOME(what) (what(0) || what(1))
#define ALL(what)  (what(0) && what(1))
#define EACH(what) what(0); what(1)
#define HOW_MANY(what) (what(0) + what(1))
#endif

/* The model must be able to do these things. In a run with -DWITNESS=n this assertion has to
 * fail: so no proof holds only because nothing happens. */
#ifdef WITNESS
bool witness;
#define SHOW(n, what) \
    if :: WITNESS == n && (what) -> witness = 1; assert(!witness) :: else fi
bool is_beaten[SUPERVISORS]; /* it has stood by, was called, and another was first */
bool stood[SUPERVISORS];
#define NOTE(what, s) what[s] = true
#else
#define SHOW(n, what) skip
#define NOTE(what, s) skip
#endif

/* ---- connections ---- */

#define HELLO_OF(s) \
    (role[s] == SPARE -> HELLO_SPARE : (answered[s] -> FORMER(target[s]) : HELLO(target[s])))

inline free_line(c)
{
    state[c] = FREE; up[c] = 0; down[c] = 0; caller[c] = 0
}

/* Node 0 does not wait for its end. */
#define IS_UNKNOWN(c) (spare_conn[(c) / 2] != (c) && SOME_PLACE_NOT(c))
#if PLACES == 2
#define SOME_PLACE_NOT(c) (conn[0] != (c) && conn[1] != (c))
#else
#define SOME_PLACE_NOT(c) (conn[0] != (c))
#endif

inline forget_line(c)
{
    if :: state[c] == LEFT && up[c] == 0 && IS_UNKNOWN(c) -> free_line(c) :: else fi
}

/* Node 0 closes it. A message of node 0 may still come. */
inline shut(c)
{
    if
    :: state[c] == OPEN -> state[c] = SHUT; up[c] = 0
    :: state[c] == LEFT -> free_line(c)
    :: else
    fi
}

/* The supervisor closes it. A message of the supervisor may still come. */
inline hang_up(c)
{
    down[c] = 0;
    if
    :: state[c] == OPEN -> state[c] = LEFT; forget_line(c)
    :: state[c] == SHUT -> free_line(c)
    :: else
    fi
}

/* It dials, when the connection before that one is over. */
inline dial(s)
{
    if
    :: state[MINE(s)] == LEFT ->
       state[OLD(s)] = LEFT; up[OLD(s)] = up[MINE(s)]; caller[OLD(s)] = caller[MINE(s)];
       if :: spare_conn[s] == MINE(s) -> spare_conn[s] = OLD(s) :: else fi;
       if :: conn[0] == MINE(s) -> conn[0] = OLD(s) :: else fi
#if PLACES == 2
       ; if :: conn[1] == MINE(s) -> conn[1] = OLD(s) :: else fi
#endif
    :: else
    fi;
    state[MINE(s)] = OPEN;
    caller[MINE(s)] = begun[s];
    up[MINE(s)] = HELLO_OF(s)
}

inline answer(c, word)
{
    down[c] = (state[c] == OPEN -> word : 0)
}

/* ---- node 0: the spares (chief_spare.c) ---- */

#define IS_CALLED_0(s) (place[s] == 1)
#define IS_CALLED_1(s) (place[s] == 2)
#define CALLED_TO(p)   (p == 0 -> HOW_MANY(IS_CALLED_0) : HOW_MANY(IS_CALLED_1))

inline forget_spare(s)
{
    spare_conn[s] = NONE; place[s] = 0; was_called[s] = false; age[s] = 0; was_late[s] = false
}

inline release(s)
{
    place[s] = 0;
    age[s] = 0;
    if :: spare_conn[s] == NONE -> forget_spare(s) :: else fi
}

inline end_call_of(s, p)
{
    if
    :: place[s] == p + 1 ->
       SHOW(3, t != s && role[s] == SPARE);
#ifndef VAIN_IS_LATE
       was_called[s] = false;
#endif
       release(s)
    :: else
    fi
}

inline end_call(p)
{
#ifndef CALL_OF_TAKEN
    end_call_of(0, p); end_call_of(1, p)
#if SUPERVISORS > 2
    ; end_call_of(2, p)
#endif
#if SUPERVISORS > 3
    ; end_call_of(3, p)
#endif
#if SUPERVISORS > 4
    ; end_call_of(4, p)
#endif
#else
    skip
#endif
}

#ifdef NO_CALL_END
#define IS_LATE_CALL(s) false
#else
#define IS_LATE_CALL(s) (place[s] && age[s] >= CALL)
#endif

inline give_up_late(s)
{
    if
    :: IS_LATE_CALL(s) -> was_late[s] = (spare_conn[s] != NONE); release(s)
    :: else
    fi
}

#ifdef CALLS_AGAIN
#define MAY_CALL(s) (spare_conn[s] != NONE && !place[s])
#elif defined(CALLS_THE_CALLED)
#define MAY_CALL(s) (spare_conn[s] != NONE && (place[s] || !was_called[s]))
#else
#define MAY_CALL(s) (spare_conn[s] != NONE && !place[s] && !was_called[s])
#endif
/* As its name says, by the history. */
#define STANDS_UNCALLED(s) (spare_conn[s] != NONE && !place[s] && !was_late[s])

inline call(s, p)
{
    assert(!place[s]);
    place[s] = p + 1; was_called[s] = true; age[s] = 0; is_hopeless[s] = false
}

#define WAS_CALLED(s) was_called[s]

#ifdef ONE_CALL
#define HAS_CALL(p) (CALLED_TO(p) || SOME(WAS_CALLED))
#elif defined(CALLS_TWO)
#define HAS_CALL(p) false
#else
#define HAS_CALL(p) CALLED_TO(p)
#endif

inline call_to(s, p)
{
    if :: vacant[p] && !HAS_CALL(p) && MAY_CALL(s) -> call(s, p) :: else fi
}

inline call_next(p)
{
    call_to(0, p); call_to(1, p)
#if SUPERVISORS > 2
    ; call_to(2, p)
#endif
#if SUPERVISORS > 3
    ; call_to(3, p)
#endif
#if SUPERVISORS > 4
    ; call_to(4, p)
#endif
}

/* ---- node 0: the wait (chief_replace.c, chief_restart.c) ---- */

#define IS_VACANT(p) vacant[p]
#define IS_UNFILLED(p) (vacant[p] || JOINS && conn[p] == NONE)
#define IS_GONE(p)   (!vacant[p] && gone[p] && conn[p] != NONE)
#define IS_OWED(s)   is_owed[s]
#define IS_READY     ALL_PLACES(IS_GONE)
#ifdef NO_FENCE
#define FENCE_IS_OVER true
#else
#define FENCE_IS_OVER !SOME(IS_OWED)
#endif
#define RENEWAL_IS_OVER (SOME_PLACE(IS_VACANT) -> left == 0 : leave == 0 && !IS_READY)
#ifdef BEFORE
#define IS_ABSENT(p) (conn[p] == NONE)
#define IS_LOST(p)   (vacant[p] && !was_missing[p])
#define JOIN_IS_OVER \
    (left == 0 && (SOME_PLACE(IS_ABSENT) -> more <= 1 || !SOME_PLACE(IS_LOST) : \
                                            leave == 0 && !IS_READY))
#define WAIT_IS_OVER (joins -> JOIN_IS_OVER : RENEWAL_IS_OVER)
#define LONGEST      (joins -> BEFORE + LEAVE - 2 + WAIT : WAIT)
#define MAY_COME(s)  (MAY_CALL(s) || place[s])

inline begin_join_wait()
{
    if
#ifdef JOIN_MOVES
    :: joins -> more = WAIT + 1
#else
    :: joins && more == 0 -> more = WAIT + 1
#endif
    :: else
    fi
}

inline vacate_missing(p)
{
    was_missing[p] = true; vacant[p] = true; gone[p] = false
}
#else
#define WAIT_IS_OVER RENEWAL_IS_OVER
#define LONGEST      WAIT
#endif

inline lose(p)
{
    vacant[p] = true;
    has_place[at[p]] = false;
    is_owed[at[p]] = (is_owed[at[p]] || may_run[p] && !gone[p] && role[at[p]] != OUT);
    gone[p] = false;
    if :: conn[p] != NONE -> shut(conn[p]) :: else fi;
    conn[p] = NONE;
#ifdef BEFORE
    begin_join_wait();
#endif
    if
    :: job == RUNS -> job = STOPS; left = WAIT; leave = LEAVE; waited = 0
#ifdef UNTIL_MOVES
    :: job == STOPS -> left = WAIT
#endif
    :: else
    fi
}

/* Before the start it has to join again. */
inline cut(p)
{
    if :: JOINS -> has_place[at[p]] = false :: else fi;
    conn[p] = NONE
}

inline leave_place(p)
{
    if :: JOINS -> cut(p) :: else -> lose(p) fi
}

inline forget_place(p)
{
    may_run[p] = true; gone[p] = false
}

inline forget_owed(s)
{
    is_owed[s] = false
}

inline renew()
{
    SHOW(1, at[0] == FIRST_SPARE);
    SHOW(2, at[0] == FIRST_SPARE + 1 && spare_conn[FIRST_SPARE] != NONE);
    SHOW(4, at[0] == FIRST_SPARE && is_beaten[FIRST_SPARE]);
    SHOW(5, COMERS && at[0] == PLACES && stood[PLACES]);
    SHOW(6, at[0] == FIRST_SPARE + 1 && role[FIRST_SPARE] == OUT && is_hopeless[FIRST_SPARE]);
    SHOW(9, PLACES == 2 && at[0] >= FIRST_SPARE && at[PLACES - 1] >= FIRST_SPARE);
#ifdef BEFORE
    SHOW(11, joins && at[0] == FIRST_SPARE);
    joins = false; more = 0;
#endif
    job = RUNS; left = 0; leave = 0; waited = 0;
    EACH_PLACE(forget_place);
    EACH(forget_owed)
}

inline clear_place(p)
{
    at[p] = 0; at_begun[p] = 0; conn[p] = NONE; vacant[p] = false; was_replaced[p] = false;
    may_run[p] = false; gone[p] = false
}

/* Clears values that no rule reads any more, so that equal states are equal. */
inline clear_supervisor(s)
{
    forget_spare(s);
    is_owed[s] = false; has_place[s] = false; is_hopeless[s] = false;
    role[s] = OUT; target[s] = 0; answered[s] = false; trains[s] = false; begun[s] = 0;
    waits[s] = 0;
    free_line(MINE(s)); free_line(OLD(s))
}

inline end_job()
{
    job = OVER; left = 0; leave = 0; waited = 0;
#ifdef BEFORE
    joins = false; more = 0;
#endif
    EACH_PLACE(clear_place);
    EACH(clear_supervisor)
}

#ifdef NOT_BEFORE
#define CALLS_NOW !joins
#else
#define CALLS_NOW true
#endif

/* chief_decide(), after each event. */
inline decide()
{
    if
    :: job == STOPS && WAIT_IS_OVER ->
       SHOW(8, SOME_PLACE(IS_VACANT) && spare_conn[FIRST_SPARE + 1] != NONE);
       end_job()
    :: job == STOPS && !WAIT_IS_OVER && IS_READY && FENCE_IS_OVER -> renew()
    :: else
    fi;
    EACH(give_up_late);
    if
    :: job == STOPS && CALLS_NOW -> EACH_PLACE(call_next)
    :: else
    fi
}

/* ---- node 0: HELLO (chief_join.c) ---- */

inline on_hello_spare()
{
    if
    :: spare_conn[t] != NONE && spare_conn[t] != c ->
       if /* it is of an earlier incarnation, or it seems so */
       :: caller[spare_conn[t]] != caller[c] -> answer(spare_conn[t], REFUSED)
       :: else
       fi;
       shut(spare_conn[t])
    :: else
    fi;
    forget_spare(t);
    is_hopeless[t] = false;
    spare_conn[t] = c;
    answer(c, STANDBY)
}

inline refuse()
{
    answer(c, REFUSED);
    shut(c)
}

#define HAS_PLACE(s) (has_place[s] && role[s] == NODE && target[s] == p)

inline admit(p)
{
    leave = LEAVE;
    at[p] = t; at_begun[p] = caller[c]; conn[p] = c;
    assert(!SOME(HAS_PLACE));
    has_place[t] = true;
    answer(c, WELCOME)
}

inline fill(p)
{
#ifndef REFUSED_IS_AWAITED
    end_call(p);
#endif
    if
#ifdef MISSES
    :: refuse(); is_hopeless[t] = (place[t] == p + 1 && spare_conn[t] == NONE)
#endif
    :: true ->
#ifdef REFUSED_IS_AWAITED
       end_call(p);
#endif
       SHOW(7, vacant[p] && was_replaced[p] && at[p] == FIRST_SPARE && t > at[p]);
       SHOW(10, state[c] == LEFT && role[t] == SPARE);
       vacant[p] = false;
#ifdef BEFORE
       was_missing[p] = false;
#endif
       was_replaced[p] = true;
       may_run[p] = false;
#ifdef FENCE_OF_LAST
       is_owed[at[p]] = false;
#endif
       admit(p)
    fi
}

#define IS_SAME(p) (at[p] == t && at_begun[p] == caller[c])
#ifdef FORMER_JOINS
#define IS_FORMER(p) (up_word >= FORMER(0) && !IS_SAME(p) && !JOINS)
#else
#define IS_FORMER(p) (up_word >= FORMER(0) && !IS_SAME(p) && (!JOINS || was_replaced[p]))
#endif

inline on_hello(p)
{
    if
    :: IS_SAME(p) && !WAS_MISSING(p) ->
       if
       :: vacant[p] -> refuse() /* it was declared lost */
       :: else ->
          if :: conn[p] != NONE && conn[p] != c -> shut(conn[p]) :: else fi;
          conn[p] = c;
          has_place[t] = true;
          answer(c, WELCOME)
       fi
    :: else ->
       if
#ifndef FORMER_IS_NEW
       :: IS_FORMER(p) -> refuse()
       :: !IS_FORMER(p) && vacant[p] && job == STOPS -> fill(p)
#ifdef BEFORE
       :: !IS_FORMER(p) && !vacant[p] && joins && !was_replaced[p] && conn[p] == NONE ->
          gone[p] = false; admit(p)
#endif
#else
       :: vacant[p] && job == STOPS -> fill(p)
#endif
#ifdef GIVEN_TWICE
       :: up_word < FORMER(0) && !vacant[p] && job == STOPS -> fill(p)
#endif
       :: else ->
          if :: was_replaced[p] -> NOTE(stood, t); answer(c, STANDBY) :: else fi;
          shut(c)
       fi
    fi
}

/* ---- node 0: events ---- */

inline on_bye()
{
    if
    :: spare_conn[t] == c ->
       spare_conn[t] = NONE;
       if :: !place[t] -> forget_spare(t) :: else fi
    :: else ->
       if
       :: conn[0] == c -> leave_place(0)
#if PLACES == 2
       :: conn[1] == c -> leave_place(1)
#endif
       :: else
       fi
    fi
}

inline on_down()
{
    if
    :: spare_conn[t] == c ->
#ifdef LOST_IS_AWAITED
       spare_conn[t] = NONE;
       if :: !place[t] -> forget_spare(t) :: else fi;
#else
       forget_spare(t);
#endif
       is_hopeless[t] = true
    :: else ->
       if
       :: conn[0] == c -> cut(0)
#if PLACES == 2
       :: conn[1] == c -> cut(1)
#endif
       :: else
       fi
    fi
}

inline on_word()
{
    up_word = up[c];
    up[c] = 0;
    if
    :: up_word == HELLO_SPARE -> on_hello_spare()
    :: up_word == BYE -> on_bye()
    :: else ->
       if
       :: PLACE(up_word) == 0 -> on_hello(0)
#if PLACES == 2
       :: PLACE(up_word) == 1 -> on_hello(1)
#endif
       fi
    fi;
    up_word = 0
}

#define IS_STALE(c) (c == spare_conn[c / 2] && place[c / 2] && down[c] == 0 && state[c] == OPEN)

/* Node 0 on the connections of supervisor t. */
proctype ear(byte t)
{
    byte c, up_word;
    do
    :: atomic { up[MINE(t)] -> c = MINE(t); on_word(); forget_line(c); c = 0; decide() }
    :: atomic { up[OLD(t)] -> c = OLD(t); on_word(); forget_line(c); c = 0; decide() }
    :: atomic { state[MINE(t)] == LEFT -> c = MINE(t); on_down(); free_line(c); c = 0; decide() }
    :: atomic { state[OLD(t)] == LEFT -> c = OLD(t); on_down(); free_line(c); c = 0; decide() }
    :: atomic { IS_STALE(MINE(t)) -> down[MINE(t)] = STANDBY + place[t] }
    :: atomic { job == OVER -> break }
    od
}

proctype chief(byte p)
{
    do
    :: atomic { /* it is lost; before the start it is not healthy */
           job != OVER && !vacant[p] && !(JOINS && conn[p] == NONE) && losses < LOSSES ->
           losses++; lose(p); decide() }
#ifdef BEFORE
    :: atomic { /* it is silent */
           joins && conn[p] != NONE && losses < LOSSES ->
           losses++; shut(conn[p]); cut(p); decide() }
    :: atomic { /* it is missing, and a spare is left for its place */
           joins && !vacant[p] && conn[p] == NONE && SOME(MAY_COME) ->
           vacate_missing(p); decide() }
#endif
    :: atomic { job == OVER -> break }
    od
}

/* ---- time ---- */

#ifdef CALLER_WAITS
#define MUST_GIVE_UP(s) false
#else
#define MUST_GIVE_UP(s) ((role[s] == SPARE || role[s] == NODE) && !answered[s] && waits[s] >= JOIN)
#endif
#define IS_OVER(s) (role[s] == OUT || role[s] == AWAY)
#define WAITS_IN_VAIN(s) (place[s] && is_hopeless[s])

inline check_place(p)
{
    assert(!vacant[p] || CALLED_TO(p) || !SOME(STANDS_UNCALLED));
    assert(CALLED_TO(p) <= vacant[p])
}

inline grow_older(s)
{
    if :: place[s] -> age[s]++; assert(age[s] <= CALL) :: else fi;
    if
    :: (role[s] == SPARE || role[s] == NODE) && !answered[s] ->
       waits[s]++;
       assert(waits[s] <= JOIN)
    :: else
    fi
}

proctype time()
{
    do
    :: atomic {
           job != OVER && !SOME(MUST_GIVE_UP) ->
           EACH_PLACE(check_place);
           assert(!SOME(WAITS_IN_VAIN));
           if
           :: job == STOPS ->
              waited = (waited <= LONGEST + LEAVE -> waited + 1 : waited);
#ifdef BEFORE
              more = (more > 1 -> more - 1 : more);
#endif
              left = (left > 0 -> left - 1 : 0);
              leave = (leave > 0 -> leave - 1 : 0)
           :: else
           fi;
           EACH(grow_older);
           decide();
           assert(job != STOPS || IS_READY ||
                  waited < (SOME_PLACE(IS_UNFILLED) -> LONGEST : LONGEST + LEAVE))
       }
    :: atomic { job == OVER -> break }
    od
}

/* ---- a supervisor ---- */

inline begin_as(what)
{
    role[s] = what; answered[s] = false; waits[s] = 0
}

inline take_place(p)
{
    if
    :: begun[s] < 2 * TURNS - (s >= FIRST_SPARE) ->
       if :: up[MINE(s)] == 0 && state[MINE(s)] == OPEN -> up[MINE(s)] = BYE :: true fi;
       hang_up(MINE(s));
       begun[s]++;
       begin_as(NODE);
       target[s] = p
    :: else
    fi
}

inline end_supervisor()
{
    role[s] = OUT; target[s] = 0; answered[s] = false; trains[s] = false; waits[s] = 0;
    begun[s] = 0; is_owed[s] = false;
    hang_up(MINE(s))
}

inline hear()
{
    m = down[MINE(s)];
    down[MINE(s)] = 0;
    if
    :: m == WELCOME -> answered[s] = true; waits[s] = 0
    :: m == REFUSED -> end_supervisor()
    :: m >= STANDBY && role[s] == SPARE ->
       answered[s] = true; waits[s] = 0;
       if :: m > STANDBY -> take_place(m - STANDBY - 1) :: else fi
    :: m >= STANDBY && role[s] == NODE ->
       assert(!answered[s] && !trains[s]);
       NOTE(is_beaten, s);
       hang_up(MINE(s));
       begun[s]++;
       target[s] = 0;
       begin_as(SPARE)
    fi;
    m = 0
}

#define IS_ADMITTED(s) \
    (role[s] == NODE && answered[s] && state[MINE(s)] == OPEN && conn[target[s]] == MINE(s))
#define TRAINS(x) (trains[x] && target[x] == target[s])

proctype supervisor(byte s)
{
    byte m;
    do
    :: atomic { role[s] == AWAY && job != OVER ->
           role[s] = (s < FIRST_SPARE -> NODE : SPARE) }
    :: atomic { job == OVER -> break }
    :: atomic {
           (s >= PLACES || FIRST_JOIN) && (role[s] == SPARE || role[s] == NODE) &&
           (state[MINE(s)] == FREE || state[MINE(s)] == LEFT && state[OLD(s)] == FREE) ->
           dial(s) }
    :: atomic { /* it breaks */
           state[MINE(s)] == OPEN && breaks < BREAKS -> breaks++; hang_up(MINE(s)) }
    :: atomic { state[MINE(s)] == SHUT && down[MINE(s)] == 0 -> free_line(MINE(s)) }
    :: atomic { down[MINE(s)] -> hear(); if :: role[s] == OUT -> break :: else fi }
    :: atomic { IS_ADMITTED(s) && job == RUNS && !trains[s] ->
           trains[s] = true;
           assert(HOW_MANY(TRAINS) == 1) }
    :: atomic { IS_ADMITTED(s) && job == STOPS && !vacant[target[s]] && !gone[target[s]] ->
           SHOW(12, !JOINS && left == 0 && s >= FIRST_SPARE);
           trains[s] = false; gone[target[s]] = true; decide() }
    :: atomic { /* its lease is over, or it has a notice, or it dies */
           role[s] == SPARE || role[s] == NODE ->
           if
           :: state[MINE(s)] == OPEN && up[MINE(s)] == 0 -> up[MINE(s)] = BYE
           :: true
           fi;
           end_supervisor();
           if :: job == STOPS -> decide() :: else fi;
           break }
    :: atomic { MUST_GIVE_UP(s) -> end_supervisor(); break }
    od
}

inline set_place(p)
{
#ifdef BEFORE
    at[p] = NONE; conn[p] = NONE; target[p] = p; job = STOPS; left = BEFORE
#else
    at[p] = p; conn[p] = 2 * (p); may_run[p] = true; has_place[p] = true;
    role[p] = NODE; target[p] = p; answered[p] = true; trains[p] = true; state[2 * (p)] = OPEN
#endif
}

inline set_chief(p)
{
    run chief(p)
}

inline set_supervisor(s)
{
    spare_conn[s] = NONE;
    run supervisor(s);
    run ear(s)
}

init
{
    atomic {
        EACH_PLACE(set_place);
        EACH(set_supervisor);
        EACH_PLACE(set_chief);
        run time()
    }
}

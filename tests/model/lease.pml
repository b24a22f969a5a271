/* SPDX-License-Identifier: Apache-2.0
 *
 * lease: when may ranks run in the place of a node that node 0 has given up?
 *
 * A node's lease runs TIMEOUT from the moment at which it sent the newest heartbeat that node 0 has
 * answered. When the lease ends the node kills its ranks, which takes KILL at most. An order to
 * start that comes later starts nothing. Node 0 answers nothing more to
 * a node that it has given up. It starts ranks in that node's place when TIMEOUT, KILL and a MARGIN
 * have passed since its last answer. It starts them earlier if the node said goodbye, after the end
 * of its ranks.
 *
 * In the model: a node that was ordered to start its ranks, and node 0, in every interleaving.
 * Messages are lost in either direction, or come any time later. The node's clock may lose a tick against node 0's.
 * Checked: the old ranks and the new ones never run at once.
 *
 * In the core: the node's half is src/core/node/uplink.h, and node 0's half is the fence in
 * src/core/chief/chief_replace.c. TIMEOUT is cluster.heartbeat_timeout, KILL is stop.kill_wait, and
 * MARGIN is a tenth of both.
 *
 * Not in the model: a machine that is suspended and wakes, and ranks that cannot be killed. Time is
 * short: up to END, which is longer than two leases.
 *
 * By hand (check.py knows all flags; check.py --list):
 *
 *   spin -a lease.pml && cc -O2 -w -DSAFETY -DCOLLAPSE -o pan pan.c && ./pan -E -m500000
 *
 * Every flag leaves out one rule, and must then be caught; what each is called in words is in
 * check.py. WITNESS=n asserts that something cannot happen.
 */

#define TIMEOUT 3
#define KILL    1
#define END     16
#ifdef NO_MARGIN
#define MARGIN 0
#else
#define MARGIN 1
#endif
#ifdef NO_KILL_TIME
#define KILL_TIME 0
#else
#define KILL_TIME KILL
#endif
#define GOODBYE 255

byte now;      /* node 0's clock */
byte node_now; /* the node's */
bool has_lost_tick;

bool is_alive = true; /* the node's supervisor */
bool is_ordered = true; /* the order to start is on its way to the node */
bool old_run;
bool new_run;
byte lease;       /* when the node sent the newest heartbeat that was answered, by its clock */
bool has_said_goodbye;

byte last_answer; /* when node 0 answered last, by its clock */
bool given_up;
bool heard_goodbye;

chan to_chief = [2] of { byte };
chan to_node = [2] of { byte };

#define IS_OVER      (node_now >= lease + TIMEOUT)
#define MUST_BE_DEAD (old_run && node_now >= lease + TIMEOUT + KILL)

/* The model must be able to do these things. In a run with -DWITNESS=n this assertion has to
 * fail: so no proof holds only because nothing happens. */
#ifdef WITNESS
bool witness;
#define SHOW(n, what) \
    if :: WITNESS == n && (what) -> witness = 1; assert(!witness) :: else fi
#else
#define SHOW(n, what)
#endif

/* Time does not pass the moment at which the old ranks must be dead: the node's timer is local. */
active proctype time()
{
    do
#ifdef NEVER_ENDS
    :: atomic { now < END -> now++; node_now++ }
#else
    :: atomic { now < END && !MUST_BE_DEAD -> now++; node_now++ }
    :: atomic { now < END && !MUST_BE_DEAD && !has_lost_tick -> now++; has_lost_tick = true }
#endif
    :: now == END -> break
    od
}

active proctype node()
{
    byte sent;
    do
    :: atomic { is_alive && (old_run || !IS_OVER) && nfull(to_chief) -> to_chief!node_now }
    :: atomic {
           is_alive && is_ordered -> is_ordered = false;
           SHOW(5, !IS_OVER && node_now > 0);
           SHOW(6, IS_OVER && new_run);
#ifdef LATE_START
           old_run = true
#else
           if :: !IS_OVER -> old_run = true :: else fi
#endif
       }
    :: atomic {
           nempty(to_node) ->
           to_node?sent;
           SHOW(1, is_alive && IS_OVER && sent > lease);
           SHOW(2, is_alive && sent > lease && sent + TIMEOUT <= node_now);
#ifdef FROM_ARRIVAL
           if :: is_alive -> lease = node_now :: else fi;
#else
           if :: is_alive && sent > lease -> lease = sent :: else fi;
#endif
           sent = 0
       }
#ifndef NEVER_ENDS
    :: atomic { is_alive && IS_OVER -> is_alive = false; old_run = false } /* up to KILL later */
#endif
#ifdef GOODBYE_FIRST
    :: atomic { IS_OVER && !has_said_goodbye && nfull(to_chief) ->
#else
    :: atomic { !is_alive && !has_said_goodbye && nfull(to_chief) ->
#endif
           has_said_goodbye = true; to_chief!GOODBYE }
    :: now == END -> break
    od
}

active proctype chief()
{
    byte sent;
    do
    :: atomic {
           nempty(to_chief) ->
           to_chief?sent;
           if
           :: sent == GOODBYE -> heard_goodbye = true; given_up = true
#ifdef ANSWERS_GIVEN_UP
           :: sent != GOODBYE && given_up && nfull(to_node) -> to_node!sent
#else
           :: sent != GOODBYE && given_up
#endif
           :: sent != GOODBYE && !given_up && nfull(to_node) ->
              to_node!sent;
#ifdef FROM_OLDER_ANSWER
              if :: last_answer = now :: skip fi
#else
              last_answer = now
#endif
           :: sent != GOODBYE && full(to_node)
           fi;
           sent = 0
       }
    :: atomic { nempty(to_chief) -> to_chief?sent; sent = 0 } /* lost */
    :: atomic { nempty(to_node) -> to_node?sent; sent = 0 }
    :: atomic { !given_up && now >= last_answer + TIMEOUT -> given_up = true }
    :: atomic {
           given_up && !new_run &&
           (heard_goodbye || now > last_answer + TIMEOUT + KILL_TIME + MARGIN) ->
           SHOW(3, !heard_goodbye);
           SHOW(4, heard_goodbye && now <= last_answer + TIMEOUT + KILL_TIME);
           new_run = true
       }
    :: atomic { new_run && old_run -> assert(!(new_run && old_run)) }
    :: now == END -> break
    od
}

/* SPDX-License-Identifier: Apache-2.0
 *
 * test_peers_end: a supervisor that has ended is told from a connection that broke.
 */
#include "peerpair.h"

/* Lets the member hear WELCOME, and with it whether a proxy lies between. */
static void let_in(struct world *world)
{
    struct peermsg msg = {.type = PEERMSG_WELCOME, .stamp = {.attempt = 1}};
    int messages = world->member.messages;
    join(world);
    peers_send(world->chief.peers, last_conn(&world->chief), &msg);
    run_until(world, world->member.messages > messages);
}

/* The member joins, and goes as a killed process does. */
static void expect_end_of_member(struct world *world)
{
    let_in(world);
    goes(&world->member);
    run_until(world, world->chief.downs == 1);
    cr_expect(world->chief.has_ended, "%s", world->chief.why);
}

/* The kernel closes the socket of a killed process in the same way. */
PairTest(peers_end, who_closes_has_ended)
{
    expect_end_of_member(&w);
}

/* The chief sees an IPv4 address then as a part of IPv6's. */
PairTest(peers_end, who_closes_has_ended_where_the_chief_listens_to_all)
{
    struct address all = {.host = "::"};
    struct err err;
    renew_chief(&w);
    if (peers_listen(w.chief.peers, &all, &err)) {
        w.at.port = peers_port(w.chief.peers);
        expect_end_of_member(&w);
    }
}

PairTest(peers_end, a_chief_that_closes_has_ended)
{
    let_in(&w);
    goes(&w.chief);
    run_until(&w, w.member.downs == 1);
    cr_expect(w.member.has_ended, "%s", w.member.why);
}

/* The connection was reset, and no program listens there any more. */
PairTest(peers_end, a_chief_that_is_not_there_any_more_has_ended)
{
    let_in(&w);
    struct peermsg bad = order(1); /* a message that a member may not send: the chief gives the
                                    * connection up */
    peers_send(w.member.peers, PEERS_CHIEF, &bad);
    run_until(&w, w.member.downs == 1);
    cr_expect(!w.member.has_ended, "it lives: %s", w.member.why);
    goes(&w.chief);
    peers_connect(w.member.peers, &w.at);
    run_until(&w, w.member.downs == 2);
    cr_expect(w.member.has_ended, "%s", w.member.why);
}

/* A member does not know yet whether a proxy lies between, but the chief does. */
PairTest(peers_end, who_gives_up_before_its_welcome_has_not_ended)
{
    join(&w);
    struct peermsg bad = hello(1);
    peers_send(w.chief.peers, last_conn(&w.chief), &bad);
    run_until(&w, w.chief.downs == 1);
    cr_expect(!w.chief.has_ended, "%s", w.chief.why);
}

/* The other side lives and speaks, but breaks the protocol. */
PairTest(peers_end, who_gives_a_connection_up_has_not_ended)
{
    let_in(&w);
    struct peermsg bad = hello(1); /* nor may the member send this one */
    peers_send(w.chief.peers, last_conn(&w.chief), &bad);
    run_until(&w, w.chief.downs == 1);
    cr_expect(!w.chief.has_ended, "%s", w.chief.why);
}

/* A connection through a proxy names other ends. The proxy may close it for reasons of its own. */
PairTest(peers_end, behind_a_proxy_nobody_has_ended)
{
    int fd = raw_connect(&w);
    struct peermsg msg = hello(1);
    str_copy(msg.hello.line, sizeof msg.hello.line, "10.0.0.1:4711>10.0.0.2:14242");
    raw_send_msg(fd, &msg);
    run_until(&w, w.chief.messages == 1);
    close(fd);
    run_until(&w, w.chief.downs == 1);
    cr_expect(!w.chief.has_ended, "%s", w.chief.why);
}

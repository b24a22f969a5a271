/* SPDX-License-Identifier: Apache-2.0
 *
 * wire: an encoded message is decoded again, whatever is in its fields. Bytes that were cut or
 * changed on the way do not crash the decoder, and are not taken for a message that they cannot be.
 * The bytes of one message of each type are written down here, so that the protocol does not change
 * by accident. A deliberate change raises the version, and changes these bytes and
 * pchrun-protocol(7).
 */
#include "base/str.h"
#include "wire/frame.h"
#include "wire/gate.h"
#include "wire/page.h"
#include "wire/peermsg.h"
#include "wire/procmsg.h"

#include <criterion/criterion.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* ---- frame ---- */

Test(frame, is_cut_out_of_a_stream)
{
    uint8_t data[FRAME_HEADER_BYTES + 5];
    frame_header(FRAME_PEER, 7, 9, 3, data);
    memcpy(data + FRAME_HEADER_BYTES, "abcde", 5);
    cr_assert_arr_eq(data, "\x43\x50\x07\x09\x03\x00\x00\x00", FRAME_HEADER_BYTES);
    struct frame frame;
    size_t size;
    for (size_t n = 0; n < FRAME_HEADER_BYTES + 3; n++)
        cr_assert_eq(frame_parse(FRAME_PEER, data, n, &frame, &size), FRAME_MORE, "%zu", n);
    cr_assert_eq(frame_parse(FRAME_PEER, data, sizeof data, &frame, &size), FRAME_OK);
    cr_assert_eq(size, FRAME_HEADER_BYTES + 3);
    cr_assert_eq(frame.version, 7);
    cr_assert_eq(frame.type, 9);
    cr_assert_eq(frame.len, 3);
    cr_assert_eq(frame.payload, data + FRAME_HEADER_BYTES);
}

Test(frame, strangers_are_known_by_their_first_bytes)
{
    struct frame frame;
    size_t size;
    const uint8_t *http = (const uint8_t *)"GET ";
    uint8_t header[FRAME_HEADER_BYTES];
    cr_assert_eq(frame_parse(FRAME_PEER, http, 1, &frame, &size), FRAME_BAD_MAGIC);
    cr_assert_eq(frame_parse(FRAME_PEER, (const uint8_t *)"CX", 2, &frame, &size), FRAME_BAD_MAGIC);
    frame_header(FRAME_PROC, 1, 1, 0, header);
    cr_assert_eq(frame_parse(FRAME_PEER, header, sizeof header, &frame, &size), FRAME_BAD_MAGIC);
    cr_assert_eq(frame_parse(FRAME_PROC, header, sizeof header, &frame, &size), FRAME_OK);
}

Test(frame, has_a_longest_payload)
{
    static uint8_t data[FRAME_MAX];
    struct frame frame;
    size_t size;
    frame_header(FRAME_PEER, 1, 1, FRAME_PAYLOAD_MAX, data);
    cr_assert_eq(frame_parse(FRAME_PEER, data, FRAME_MAX - 1, &frame, &size), FRAME_MORE);
    cr_assert_eq(frame_parse(FRAME_PEER, data, FRAME_MAX, &frame, &size), FRAME_OK);
    frame_header(FRAME_PEER, 1, 1, FRAME_PAYLOAD_MAX + 1, data);
    cr_assert_eq(frame_parse(FRAME_PEER, data, FRAME_HEADER_BYTES, &frame, &size), FRAME_TOO_LONG);
    frame_header(FRAME_PEER, 1, 1, UINT32_MAX, data);
    cr_assert_eq(frame_parse(FRAME_PEER, data, FRAME_MAX, &frame, &size), FRAME_TOO_LONG);
}

/* ---- messages filled at random ---- */

static uint64_t any(uint64_t max)
{
    uint64_t v = (uint64_t)random() << 42 ^ (uint64_t)random() << 21 ^ (uint64_t)random();
    switch (random() % 4) { /* the ends of a range are where mistakes are */
    case 0:
        return 0;
    case 1:
        return max;
    default:
        return max == UINT64_MAX ? v : v % (max + 1);
    }
}

#define ANY(f)      ((f) = (__typeof__(f))any(UINT64_MAX))
#define UP_TO(f, m) ((f) = (__typeof__(f))any(m))
#define ANY_TEXT(f) any_text((f), sizeof(f))

static void any_text(char *text, size_t size)
{
    size_t n = (size_t)any(size - 1);
    for (size_t i = 0; i < n; i++)
        text[i] = (char)(1 + random() % 255);
    text[n] = '\0';
}

static void any_status(struct peer_status *s)
{
    ANY(s->seen), UP_TO(s->wants_reply, 1), UP_TO(s->sent_ns, INT64_MAX), UP_TO(s->life, LIFE_DONE);
    UP_TO(s->vote, VOTE_NACK), UP_TO(s->closed, 1), ANY(s->expected), ANY(s->attached);
    ANY(s->saved), ANY(s->ended), ANY(s->need.came), ANY(s->need.hopes), ANY(s->need.whole);
    ANY_TEXT(s->need.gone), ANY_TEXT(s->need.unsaved), ANY(s->need.declares[0]),
        ANY(s->need.declares[2]);
    ANY(s->failed), ANY(s->served), UP_TO(s->mismatch, 1), UP_TO(s->prepared, 1),
        UP_TO(s->stepped, 1), ANY(s->live), ANY(s->done), UP_TO(s->all_wait, 1),
        UP_TO(s->own_more, 1);
    ANY(s->saved_step), ANY(s->highest), ANY(s->lowest), ANY(s->own_step), ANY(s->own_failed);
    ANY(s->first_step), ANY(s->stride), ANY(s->last_step), ANY(s->world_size), ANY_TEXT(s->roster);
    ANY(s->rtt_ns), ANY(s->checkpoint_asked), ANY(s->stop_asked), UP_TO(s->has_notice, 1),
        UP_TO(s->interrupted_by, 64), ANY(s->notice_left_ns);
    UP_TO(s->end_ns, INT64_MAX), UP_TO(s->end_cut, 1), UP_TO(s->loading_ns, INT64_MAX);
    UP_TO(s->notice_is_guess, 1), UP_TO(s->notice_has_signal, 1), ANY(s->notice_lead_ns),
        ANY(s->notice_version), UP_TO(s->knows_notice, 1), UP_TO(s->notice_hurry, 2),
        ANY_TEXT(s->notice.source), ANY_TEXT(s->notice.id), ANY_TEXT(s->notice.text);
    ANY_TEXT(s->save_error), UP_TO(s->watch.motion, MOTION_SILENT);
    UP_TO(s->watch.still_ns, INT64_MAX), UP_TO(s->watch.limit_ns, INT64_MAX);
    ANY(s->watch.absent), UP_TO(s->watch.behind_phase, PAGE_SAVE), ANY(s->watch.behind_count),
        ANY(s->watch.behind_rank);
    ANY(s->watch.behind_pid), ANY(s->watch.behind_step), UP_TO(s->watch.behind_ago_ns, INT64_MAX),
        ANY(s->watch.examined);
    s->watch.behind_stopped = random() % 2;
    UP_TO(s->own.median_ns, PAGE_OWN_MAX), ANY(s->own.known), ANY(s->own.slow), ANY(s->own.rank);
    ANY(s->own.local_rank), UP_TO(s->own.rank_ns, PAGE_OWN_MAX);
    ANY(s->watch.gave_up), UP_TO(s->watch.patience_ns, INT64_MAX);
    UP_TO(s->dir, DIR_OTHER), UP_TO(s->paths, PATHS_OTHER);
    ANY(s->link.number), UP_TO(s->link.is_over, 1), ANY_TEXT(s->link.here.at);
    ANY(s->link.here.token[0]), ANY(s->link.here.token[1]), ANY_TEXT(s->link.why);
    UP_TO(s->link.rate, PEERMSG_RATE_MAX);
}

static void any_cause(struct peer_cause *c)
{
    UP_TO(c->fault, FAULT_UNFIT);
    if (c->fault == FAULT_NONE)
        return;
    ANY(c->node), ANY(c->rank), ANY(c->pid), ANY(c->code), UP_TO(c->at_ns, INT64_MAX);
    UP_TO(c->error_ns, INT64_MAX), UP_TO(c->ago_ns, INT64_MAX), ANY(c->wall_ns);
    ANY_TEXT(c->host), ANY_TEXT(c->text), ANY_TEXT(c->tail);
}

static void any_order(struct peer_order *o)
{
    UP_TO(o->start, 1), UP_TO(o->roster, 1), UP_TO(o->phase, PHASE_ABORTED), UP_TO(o->ends_run, 1),
        UP_TO(o->leave, 1);
    UP_TO(o->save_step, GATE_STEP_MAX), ANY(o->commit_step), ANY(o->own_closed);
    UP_TO(o->bell, GATE_STEP_MAX), UP_TO(o->echo_ns, INT64_MAX), UP_TO(o->clock_ns, INT64_MAX);
    UP_TO(o->end, END_LEAVE), UP_TO(o->manner, MANNER_ASK), ANY(o->outcome), ANY(o->exit_code);
    ANY(o->end_left_ms), UP_TO(o->has_notice, 1), UP_TO(o->is_near, 1), ANY(o->notice_node),
        ANY(o->notice_left_ns), ANY(o->waits.node), ANY(o->waits.left_ms), ANY(o->waits.fence_ms);
    ANY_TEXT(o->notice.source), ANY_TEXT(o->notice.id), ANY_TEXT(o->notice.text), ANY_TEXT(o->why);
    ANY(o->commit_whole), ANY(o->examine), ANY(o->port), UP_TO(o->save_ns, INT64_MAX);
    UP_TO(o->own_ns, PAGE_OWN_MAX), ANY(o->stop_answered), UP_TO(o->needs, NEEDS_ANY),
        UP_TO(o->is_late, 1);
    ANY(o->measure.number), UP_TO(o->measure.begins, 1), ANY_TEXT(o->measure.next.at);
    ANY(o->measure.next.token[0]), ANY(o->measure.next.token[1]);
}

static void any_ranks(struct peer_ranks *r)
{
    ANY(r->number), ANY(r->node_rank), ANY(r->total);
    r->count = (uint8_t)(random() % (PEERMSG_RANKS_MAX + 1));
    r->total |= UINT16_C(0x100);
    r->first = (uint16_t)(random() % (r->total - r->count + 1));
    for (unsigned i = 0; i < r->count; i++) {
        struct peer_rank *rank = &r->list[i];
        ANY(rank->rank), ANY(rank->local_rank), ANY(rank->pid), ANY(rank->step);
        ANY(rank->saved_step), ANY(rank->pace);
        rank->age_ns = random() % 10 - 1;
        rank->phase = (uint8_t)(random() % PAGE_PHASES);
        rank->attached = random() % 2, rank->done = random() % 2, rank->is_least = random() % 2;
        rank->counts = random() % 2;
        rank->life = (uint8_t)(random() % (RANK_UNATTACHED + 1));
        UP_TO(rank->own_ns, PAGE_OWN_MAX), ANY(rank->slow);
    }
}

static struct peermsg any_peermsg(uint8_t type)
{
    struct peermsg m = {.type = type};
    ANY(m.stamp.attempt), ANY(m.stamp.generation), ANY(m.stamp.round), ANY(m.stamp.ballot);
    ANY(m.stamp.seq), ANY(m.stamp.epoch);
    switch (type) {
    case PEERMSG_HELLO:
        ANY(m.hello.incarnation), ANY(m.hello.node_rank), ANY(m.hello.nnodes);
        ANY_TEXT(m.hello.host), ANY_TEXT(m.hello.job), ANY_TEXT(m.hello.settings),
            ANY(m.hello.commit_step), ANY(m.hello.pid), UP_TO(m.hello.stands_by, 1),
            ANY_TEXT(m.hello.line);
        break;
    case PEERMSG_WELCOME:
        ANY(m.welcome.incarnation), ANY(m.welcome.resume_step);
        break;
    case PEERMSG_REFUSED:
        ANY_TEXT(m.refused.why);
        break;
    case PEERMSG_STATUS:
        any_status(&m.status);
        any_cause(&m.cause);
        break;
    case PEERMSG_ORDER:
        any_order(&m.order);
        any_cause(&m.cause);
        break;
    case PEERMSG_LOOK:
        ANY(m.look.number);
        break;
    case PEERMSG_RANKS:
        any_ranks(&m.ranks);
        break;
    case PEERMSG_STANDBY:
        m.standby.place = random() % 10 - 1, m.standby.is_over = random() % 2;
        ANY(m.standby.outcome), ANY(m.standby.exit_code), ANY_TEXT(m.standby.why);
        break;
    default:
        break;
    }
    return m;
}

static const uint8_t proc_types[] = {
    PROCMSG_ATTACH,      PROCMSG_WAITING, PROCMSG_SERVING, PROCMSG_SAVED, PROCMSG_SAVE_FAILED,
    PROCMSG_HELD,        PROCMSG_NOTICE,  PROCMSG_ERROR,   PROCMSG_DONE,  PROCMSG_SCRATCH,
    PROCMSG_CLOSE,       PROCMSG_WELCOME, PROCMSG_REFUSED, PROCMSG_LOOK,  PROCMSG_ANSWER,
    PROCMSG_SCRATCH_DIR, PROCMSG_TIMEOUT,
};

/* The fields of each type, as procmsg.h has them. */
static void any_proc_fields(struct procmsg *m)
{
    unsigned t = m->type;
    if (t == PROCMSG_ATTACH || t == PROCMSG_WELCOME) {
        UP_TO(m->rank, INT32_MAX), UP_TO(m->local_rank, INT32_MAX);
        UP_TO(m->world_size, INT32_MAX), m->local_world_size = PROCMSG_UNKNOWN;
    }
    if (t == PROCMSG_ATTACH)
        ANY(m->first_step), ANY(m->stride), ANY(m->last_step), ANY(m->flags);
    if (t == PROCMSG_WAITING || t == PROCMSG_WELCOME)
        ANY(m->word);
    if (t == PROCMSG_SERVING || t == PROCMSG_SAVED || t == PROCMSG_SAVE_FAILED ||
        t == PROCMSG_HELD || t == PROCMSG_WELCOME)
        ANY(m->tag);
    if (t == PROCMSG_NOTICE || t == PROCMSG_ERROR || t == PROCMSG_CLOSE || t == PROCMSG_WELCOME ||
        t == PROCMSG_TIMEOUT)
        ANY(m->number);
    if (t == PROCMSG_SAVED || t == PROCMSG_ANSWER)
        UP_TO(m->wants_answer, 1), UP_TO(m->action, PROC_EXIT), UP_TO(m->committed, 1);
    if (t == PROCMSG_WELCOME)
        ANY(m->generation);
    if (t == PROCMSG_SAVE_FAILED || t == PROCMSG_ERROR || t == PROCMSG_REFUSED ||
        t == PROCMSG_SCRATCH_DIR)
        ANY_TEXT(m->text);
    if (t == PROCMSG_SAVED || t == PROCMSG_WELCOME || t == PROCMSG_SCRATCH_DIR)
        ANY_TEXT(m->path);
    if (t != PROCMSG_NOTICE && t != PROCMSG_ERROR && t != PROCMSG_SCRATCH && t != PROCMSG_LOOK &&
        t != PROCMSG_REFUSED && t != PROCMSG_SCRATCH_DIR && t != PROCMSG_TIMEOUT)
        ANY(m->step);
}

static struct procmsg any_procmsg(uint8_t type)
{
    struct procmsg m = {.type = type};
    any_proc_fields(&m);
    return m;
}

static bool same_procmsg(const struct procmsg *a, const struct procmsg *b)
{
    return a->type == b->type && a->rank == b->rank && a->local_rank == b->local_rank &&
           a->world_size == b->world_size && a->local_world_size == b->local_world_size &&
           a->step == b->step && a->first_step == b->first_step && a->stride == b->stride &&
           a->last_step == b->last_step && a->word == b->word && a->tag == b->tag &&
           a->flags == b->flags && a->generation == b->generation && a->number == b->number &&
           a->wants_answer == b->wants_answer && a->action == b->action &&
           a->committed == b->committed && strcmp(a->text, b->text) == 0 &&
           strcmp(a->path, b->path) == 0;
}

/* ---- both protocols in one shape ---- */

enum { ENCODED_MAX = FRAME_MAX };

static struct frame parse(enum frame_magic magic, const uint8_t *data, size_t size)
{
    struct frame frame;
    size_t taken;
    cr_assert_eq(frame_parse(magic, data, size, &frame, &taken), FRAME_OK);
    cr_assert_eq(taken, size);
    return frame;
}

static bool decodes(enum frame_magic magic, const struct frame *frame)
{
    static struct peermsg peer;
    static struct procmsg proc;
    return magic == FRAME_PEER ? peermsg_decode(frame, &peer) : procmsg_decode(frame, &proc);
}

/* Encodes what was decoded: a message has one encoding, so the same bytes must come out. */
static void expect_same_again(enum frame_magic magic, const struct frame *frame)
{
    static struct peermsg peer;
    static struct procmsg proc;
    uint8_t again[ENCODED_MAX];
    size_t size;
    if (magic == FRAME_PEER) {
        cr_assert(peermsg_decode(frame, &peer));
        size = peermsg_encode(&peer, again, sizeof again);
    } else {
        cr_assert(procmsg_decode(frame, &proc));
        size = procmsg_encode(&proc, again, sizeof again);
    }
    cr_assert_eq(size, FRAME_HEADER_BYTES + frame->len);
    cr_assert_eq(memcmp(again + FRAME_HEADER_BYTES, frame->payload, frame->len), 0);
}

/* A payload in a block of its own size, so that a sanitizer sees a read behind it. */
static bool decodes_exactly(enum frame_magic magic, struct frame frame, uint32_t len)
{
    uint8_t *payload = malloc(len ? len : 1);
    cr_assert(payload);
    memcpy(payload, frame.payload, len);
    frame.payload = payload;
    frame.len = len;
    bool ok = decodes(magic, &frame);
    if (ok)
        expect_same_again(magic, &frame);
    free(payload);
    return ok;
}

/* A cut message is refused, and so is a message with a byte behind it. With a changed byte it is
 * refused, or is another valid message. */
static void damage(enum frame_magic magic, uint8_t *data, size_t size)
{
    struct frame frame = parse(magic, data, size);
    for (uint32_t len = 0; len < frame.len; len++)
        cr_assert(!decodes_exactly(magic, frame, len), "cut at %u of %u", len, frame.len);
    uint8_t longer[ENCODED_MAX + 1];
    memcpy(longer, frame.payload, frame.len);
    longer[frame.len] = 0;
    struct frame more = frame;
    more.payload = longer;
    cr_assert(!decodes_exactly(magic, more, frame.len + 1), "with a byte too many");
    for (size_t i = FRAME_HEADER_BYTES; i < size; i++) {
        uint8_t old = data[i];
        uint8_t changes[] = {(uint8_t)(old ^ 1), (uint8_t)(old ^ 0x80), (uint8_t)~old,
                             (uint8_t)random()};
        for (size_t j = 0; j < sizeof changes; j++) {
            data[i] = changes[j];
            decodes_exactly(magic, frame, frame.len);
        }
        data[i] = old;
    }
    for (unsigned type = 0; type < 256; type++) {
        frame.type = (uint8_t)type;
        decodes_exactly(magic, frame, frame.len);
    }
}

Test(peermsg, every_type_survives_the_journey)
{
    srandom(1);
    static struct peermsg msg, got;
    uint8_t data[ENCODED_MAX];
    for (int i = 0; i < 3000; i++)
        for (uint8_t type = PEERMSG_HELLO; type < PEERMSG__COUNT; type++) {
            msg = any_peermsg(type);
            memset(&got, 0x5a, sizeof got);
            size_t size = peermsg_encode(&msg, data, sizeof data);
            cr_assert_gt(size, 0, "%s", peermsg_name(type));
            struct frame frame = parse(FRAME_PEER, data, size);
            cr_assert(peermsg_decode(&frame, &got), "%s", peermsg_name(type));
            expect_same_again(FRAME_PEER, &frame);
            cr_assert_eq(got.type, type);
            cr_assert_eq(got.stamp.seq, msg.stamp.seq);
            cr_assert(got.stamp.ballot == msg.stamp.ballot && got.stamp.epoch == msg.stamp.epoch);
            if (type == PEERMSG_ORDER)
                cr_assert(got.order.save_step == msg.order.save_step &&
                          got.order.exit_code == msg.order.exit_code &&
                          got.order.notice_left_ns == msg.order.notice_left_ns &&
                          got.cause.wall_ns == msg.cause.wall_ns &&
                          got.order.commit_whole == msg.order.commit_whole &&
                          strcmp(got.order.why, msg.order.why) == 0);
            if (type == PEERMSG_STATUS)
                cr_assert(got.status.highest == msg.status.highest &&
                          got.cause.pid == msg.cause.pid &&
                          strcmp(got.cause.tail, msg.cause.tail) == 0 &&
                          got.status.need.declares[2] == msg.status.need.declares[2] &&
                          strcmp(got.status.save_error, msg.status.save_error) == 0);
            if (type == PEERMSG_RANKS)
                cr_assert(got.ranks.total == msg.ranks.total &&
                          got.ranks.first == msg.ranks.first &&
                          memcmp(got.ranks.list, msg.ranks.list,
                                 msg.ranks.count * sizeof msg.ranks.list[0]) == 0);
        }
}

Test(peermsg, damage_is_refused_or_harmless)
{
    srandom(2);
    uint8_t data[ENCODED_MAX];
    for (uint8_t type = PEERMSG_HELLO; type < PEERMSG__COUNT; type++)
        for (int i = 0; i < 6; i++) {
            struct peermsg msg = any_peermsg(type);
            damage(FRAME_PEER, data, peermsg_encode(&msg, data, sizeof data));
        }
}

Test(peermsg, too_small_a_buffer_is_said)
{
    struct peermsg msg = any_peermsg(PEERMSG_STATUS);
    uint8_t data[ENCODED_MAX];
    size_t size = peermsg_encode(&msg, data, sizeof data);
    for (size_t cap = 0; cap < size; cap++)
        cr_assert_eq(peermsg_encode(&msg, data, cap), 0);
    cr_assert_eq(peermsg_encode(&msg, data, size), size);
    msg.type = PEERMSG__COUNT;
    cr_assert_eq(peermsg_encode(&msg, data, sizeof data), 0);
    msg.type = 0;
    cr_assert_eq(peermsg_encode(&msg, data, sizeof data), 0);
}

static bool is_taken(struct peermsg msg)
{
    uint8_t data[ENCODED_MAX];
    struct frame frame = parse(FRAME_PEER, data, peermsg_encode(&msg, data, sizeof data));
    return decodes(FRAME_PEER, &frame);
}

static bool ranks_are_taken(uint16_t total, uint16_t first, uint8_t count, struct peer_rank one)
{
    struct peermsg msg = {.type = PEERMSG_RANKS,
                          .ranks = {.total = total, .first = first, .count = count}};
    for (unsigned i = 0; i < PEERMSG_RANKS_MAX; i++)
        msg.ranks.list[i] = one;
    return is_taken(msg);
}

#define RANK(...)   ranks_are_taken(2, 1, 1, (struct peer_rank){__VA_ARGS__})
#define STATUS(...) is_taken((struct peermsg){.type = PEERMSG_STATUS, .status = {__VA_ARGS__}})
#define ORDER(...)  is_taken((struct peermsg){.type = PEERMSG_ORDER, .order = {__VA_ARGS__}})
#define CAUSE(...)                                                                 \
    (is_taken((struct peermsg){.type = PEERMSG_STATUS, .cause = {__VA_ARGS__}}) && \
     is_taken((struct peermsg){.type = PEERMSG_ORDER, .cause = {__VA_ARGS__}}))

Test(peermsg, ranges)
{
    cr_assert(STATUS(.life = LIFE_DONE) && !STATUS(.life = LIFE_DONE + 1));
    cr_assert(STATUS(.vote = VOTE_NACK) && !STATUS(.vote = VOTE_NACK + 1));
    cr_assert(CAUSE(.fault = FAULT_UNFIT) && !CAUSE(.fault = FAULT_UNFIT + 1));
    cr_assert(!CAUSE(.fault = FAULT_EXIT, .at_ns = -1) &&
              !CAUSE(.fault = FAULT_EXIT, .ago_ns = -1));
    cr_assert(CAUSE(.fault = FAULT_EXIT, .error_ns = -1) &&
              !CAUSE(.fault = FAULT_EXIT, .error_ns = -2));
    cr_assert(STATUS(.notice_hurry = 2) && !STATUS(.notice_hurry = 3));
    cr_assert(STATUS(.interrupted_by = 64) && !STATUS(.interrupted_by = 65));
    cr_assert(STATUS(.closed = 1) && !STATUS(.closed = 2) && !STATUS(.wants_reply = 2));
    cr_assert(!STATUS(.mismatch = 2) && !STATUS(.all_wait = 2) && !STATUS(.own_more = 2) &&
              !STATUS(.has_notice = 2));
    cr_assert(!STATUS(.prepared = 2) && !STATUS(.knows_notice = 2) && !STATUS(.stepped = 2));
    cr_assert(STATUS(.watch.motion = MOTION_SILENT) && !STATUS(.watch.motion = MOTION_SILENT + 1));
    cr_assert(STATUS(.watch.behind_phase = PAGE_SAVE) &&
              !STATUS(.watch.behind_phase = PAGE_SAVE + 1));
    cr_assert(STATUS(.watch.behind_stopped = 1) && !STATUS(.watch.behind_stopped = 2));
    cr_assert(STATUS(.dir = DIR_OTHER) && !STATUS(.dir = DIR_OTHER + 1));
    cr_assert(STATUS(.checking = 1) && !STATUS(.checking = 2));
    cr_assert(STATUS(.link.is_over = 1) && !STATUS(.link.is_over = 2));
    cr_assert(STATUS(.link.rate = PEERMSG_RATE_MAX) && !STATUS(.link.rate = PEERMSG_RATE_MAX + 1));
    cr_assert(ORDER(.measure.begins = 1) && !ORDER(.measure.begins = 2));
    cr_assert(STATUS(.paths = PATHS_OTHER) && !STATUS(.paths = PATHS_OTHER + 1));
    cr_assert(!STATUS(.watch.still_ns = -1) && !STATUS(.watch.limit_ns = -1) &&
              !STATUS(.watch.behind_ago_ns = -1));
    cr_assert(ORDER(.phase = PHASE_ABORTED) && !ORDER(.phase = PHASE_ABORTED + 1));
    cr_assert(ORDER(.needs = NEEDS_ANY) && !ORDER(.needs = NEEDS_AUTO));
    cr_assert(ORDER(.end = END_LEAVE) && !ORDER(.end = END_LEAVE + 1));
    cr_assert(ORDER(.manner = MANNER_ASK) && !ORDER(.manner = MANNER_ASK + 1));
    cr_assert(!ORDER(.clock_ns = -1));
    cr_assert(!ORDER(.start = 2) && !ORDER(.ends_run = 2) && !ORDER(.leave = 2));
    cr_assert(!ORDER(.has_notice = 2) && !ORDER(.is_near = 2) && !ORDER(.roster = 2) &&
              !ORDER(.is_late = 2));
    /* A higher step would lose its upper bits in the gate, and name an earlier step. */
    cr_assert(ORDER(.save_step = GATE_STEP_MAX) && !ORDER(.save_step = GATE_STEP_MAX + 1));
    cr_assert(ORDER(.bell = GATE_STEP_MAX) && !ORDER(.bell = GATE_STEP_MAX + 1));
}

#define STANDBY(...) is_taken((struct peermsg){.type = PEERMSG_STANDBY, .standby = {__VA_ARGS__}})
#define HELLO(...)   is_taken((struct peermsg){.type = PEERMSG_HELLO, .hello = {__VA_ARGS__}})

Test(peermsg, ranges_of_spares)
{
    cr_assert(HELLO(.stands_by = 1) && !HELLO(.stands_by = 2));
    cr_assert(STANDBY(.place = -1) && !STANDBY(.place = -2) && !STANDBY(.place = INT32_MIN));
    cr_assert(STANDBY(.is_over = 1) && !STANDBY(.is_over = 2));
}

Test(peermsg, ranges_of_ranks)
{
    struct peer_rank one = {0};
    cr_assert(ranks_are_taken(0, 0, 0, one) && ranks_are_taken(UINT16_MAX, UINT16_MAX, 0, one));
    cr_assert(ranks_are_taken(20, 0, 20, one) && !ranks_are_taken(19, 0, 20, one));
    cr_assert(!ranks_are_taken(21, 2, 20, one) && !ranks_are_taken(UINT16_MAX, 0, 21, one));
    cr_assert(!ranks_are_taken(UINT16_MAX, UINT16_MAX, 1, one));
    cr_assert(RANK(.phase = PAGE_SAVE) && !RANK(.phase = PAGE_SAVE + 1));
    cr_assert(RANK(.attached = 1) && !RANK(.attached = 2) && !RANK(.done = 2));
    cr_assert(RANK(.is_least = 1) && !RANK(.is_least = 2));
    cr_assert(RANK(.counts = 1) && !RANK(.counts = 2));
    cr_assert(RANK(.life = RANK_UNATTACHED) && !RANK(.life = RANK_UNATTACHED + 1));
    cr_assert(RANK(.age_ns = -1) && !RANK(.age_ns = -2) && !RANK(.age_ns = INT64_MAX));
}

/* Versions that do not know each other can still say so. */
Test(peermsg, other_versions)
{
    uint8_t data[ENCODED_MAX];
    for (uint8_t type = PEERMSG_HELLO; type < PEERMSG__COUNT; type++) {
        struct peermsg msg = any_peermsg(type), got;
        struct frame frame = parse(FRAME_PEER, data, peermsg_encode(&msg, data, sizeof data));
        frame.version = PEERMSG_VERSION + 1;
        bool is_taken = peermsg_decode(&frame, &got);
        cr_assert_eq(is_taken, type == PEERMSG_HELLO || type == PEERMSG_REFUSED, "%s",
                     peermsg_name(type));
        if (type == PEERMSG_HELLO)
            cr_assert_str_empty(got.hello.job);
        if (type == PEERMSG_REFUSED)
            cr_assert_str_eq(got.refused.why, msg.refused.why);
    }
}

Test(procmsg, every_type_survives_the_journey)
{
    srandom(3);
    static struct procmsg msg, got;
    uint8_t data[ENCODED_MAX];
    for (int i = 0; i < 300; i++)
        for (size_t t = 0; t < sizeof proc_types; t++) {
            msg = any_procmsg(proc_types[t]);
            memset(&got, 0x5a, sizeof got);
            size_t size = procmsg_encode(&msg, data, sizeof data);
            cr_assert_gt(size, 0, "%s", procmsg_name(msg.type));
            struct frame frame = parse(FRAME_PROC, data, size);
            cr_assert(procmsg_decode(&frame, &got), "%s", procmsg_name(msg.type));
            cr_assert(same_procmsg(&msg, &got), "%s", procmsg_name(msg.type));
        }
}

Test(procmsg, damage_is_refused_or_harmless)
{
    srandom(4);
    uint8_t data[ENCODED_MAX];
    for (size_t t = 0; t < sizeof proc_types; t++)
        for (int i = 0; i < 3; i++) {
            struct procmsg msg = any_procmsg(proc_types[t]);
            msg.path[msg.path[0] ? 200 : 0] = '\0'; /* long ones take long to damage */
            damage(FRAME_PROC, data, procmsg_encode(&msg, data, sizeof data));
        }
}

static bool proc_is_taken(const struct procmsg *msg)
{
    uint8_t data[ENCODED_MAX];
    struct frame frame = parse(FRAME_PROC, data, procmsg_encode(msg, data, sizeof data));
    return decodes(FRAME_PROC, &frame);
}

#define PROC(t, ...) proc_is_taken(&(struct procmsg){.type = (t), __VA_ARGS__})

Test(procmsg, ranges)
{
    cr_assert(PROC(PROCMSG_ATTACH, .rank = -1) && !PROC(PROCMSG_ATTACH, .rank = -2));
    cr_assert(!PROC(PROCMSG_ATTACH, .local_rank = -2) && !PROC(PROCMSG_ATTACH, .world_size = -2));
    cr_assert(!PROC(PROCMSG_ATTACH, .local_world_size = INT32_MIN));
    cr_assert(PROC(PROCMSG_ANSWER, .action = PROC_EXIT) && !PROC(PROCMSG_ANSWER, .action = 2));
    cr_assert(PROC(PROCMSG_ANSWER, .committed = 1) && !PROC(PROCMSG_ANSWER, .committed = 2));
    cr_assert(PROC(PROCMSG_SAVED, .wants_answer = 1) && !PROC(PROCMSG_SAVED, .wants_answer = 2));
    /* The core judges whether a step is possible, because the core can report it. */
    cr_assert(PROC(PROCMSG_SAVED, .step = UINT64_MAX) && PROC(PROCMSG_DONE, .step = UINT64_MAX));
    struct procmsg msg = {.type = PROCMSG_DONE}, got;
    uint8_t data[ENCODED_MAX];
    struct frame frame = parse(FRAME_PROC, data, procmsg_encode(&msg, data, sizeof data));
    frame.version++;
    cr_assert(!procmsg_decode(&frame, &got));
    for (unsigned t = 0; t < 256; t++)
        if (strcmp(procmsg_name(t), "?") == 0) {
            msg.type = (uint8_t)t;
            cr_assert_eq(procmsg_encode(&msg, data, sizeof data), 0);
        }
}

/* ---- the bytes ---- */

/* Worked out by hand from pchrun-protocol(7), not taken from the encoder. */
static const char *const golden_peer[PEERMSG__COUNT] = {
    [PEERMSG_HELLO] =
        "43500f014e000000010000000200000003000000040000000500000000000000400000008877665544332211"
        "060000000700000002006e33040072756e370400613d620a080000000000000009000000010300613e62",
    [PEERMSG_WELCOME] =
        "43500f022d000000010000000200000003000000040000000500000000000000400000000600000000000000"
        "070000000000000001",
    [PEERMSG_REFUSED] = "43500f031c00000001000000020000004000000004000000050000000000000002006e6f",
    [PEERMSG_STATUS] =
        "43500f04c5010000010000000200000003000000040000000500000000000000400000000600000000000000"
        "0141000000000000000301010700080009000a000b000c003a003b003c0000000100310100320101001d001e"
        "0001000d000000000000000e000000000000000f000000000000001000000000000000290000000000000011"
        "0000000000000012000000000000001300000000000000140000000300302d33170000000000000018000000"
        "3800000001400039000000000000000101e7ffffffffffffff0101e1ffffffffffffff200000000102000000"
        "07005349475445524d020065310400736f6f6e040066756c6c032a000000000000002b000000000000002c00"
        "022d002e0000002f000000300000000000000031000000000000000132000000330000000000000034003500"
        "3600000039000000370000000000000038000000000000003a000201013d0000003e0000003f000000420000"
        "000000000043000000010300613a3144000000000000004500000000000000460000000000000002006e6f02"
        "190000001a0000001b000000e4ffffff1d000000000000001e000000000000001f0000000000000020000000"
        "0000000003006e323504006469656404004f6f7073",
    [PEERMSG_ORDER] =
        "43500f05c8000000010000000200000003000000040000000500000000000000400000000100020101060000"
        "0000000000070000000000000008000000000000000e0000000000000009000000000000000e000000000000"
        "0001010203f6ffffff0b00000001010c0000000d000000000000000500636c6f7564020065320400676f6e65"
        "03007768790e0000000f00100000000000000011000000000000001200000001011300000014000000150000"
        "001600000017000000010300623a311800000000000000190000000000000000",
    [PEERMSG_BYE] = "43500f061c00000001000000020000000300000004000000050000000000000040000000",
    [PEERMSG_LOOK] =
        "43500f07200000000100000002000000030000000400000005000000000000004000000006000000",
    [PEERMSG_RANKS] =
        "43500f0865000000010000000200000003000000040000000500000000000000400000000600000007000000"
        "09000800010a0000000b0000000c0000000100020d000000000000000e000000000000000f00000000000000"
        "ffffffffffffffff0101021000000000000000a000",
    [PEERMSG_STANDBY] =
        "43500f092b000000010000000200000003000000040000000500000000000000400000000600000001072a00"
        "00000300656e64",
};

static const char *const golden_proc[] = {
    [PROCMSG_ATTACH] =
        "5050030134000000010000000200000003000000ffffffff04000000000000000500000000000000"
        "0600000000000000070000000000000001000000",
    [PROCMSG_WAITING] = "505003021000000004000000000000000800000000000000",
    [PROCMSG_SERVING] = "505003030c000000040000000000000009000000",
    [PROCMSG_SAVED] = "505003041600000004000000000000000900000001010005002f636b7074",
    [PROCMSG_SAVE_FAILED] = "5050030512000000040000000000000009000000040066756c6c",
    [PROCMSG_HELD] = "505003060c000000040000000000000009000000",
    [PROCMSG_NOTICE] = "5050030708000000f6ffffffffffffff",
    [PROCMSG_ERROR] = "505003080e000000f6ffffffffffffff040066756c6c",
    [PROCMSG_DONE] = "50500309080000000400000000000000",
    [PROCMSG_SCRATCH] = "5050030a00000000",
    [PROCMSG_CLOSE] = "5050030b100000000400000000000000f6ffffffffffffff",
    [PROCMSG_TIMEOUT] = "5050030c08000000f6ffffffffffffff",
    [PROCMSG_WELCOME] =
        "5050034137000000010000000200000003000000ffffffff0400000000000000080000000000000009000000"
        "f6ffffffffffffff0b00000005002f636b7074",
    [PROCMSG_REFUSED] = "5050034206000000040066756c6c",
    [PROCMSG_LOOK] = "5050034300000000",
    [PROCMSG_ANSWER] = "505003440b0000000400000000000000010100",
    [PROCMSG_SCRATCH_DIR] = "505003450d000000040066756c6c05002f636b7074",
};

static struct peer_order sample_order(void)
{
    return (struct peer_order){.start = 1,
                               .roster = 0,
                               .phase = PHASE_DECIDED,
                               .ends_run = 1,
                               .leave = 1,
                               .save_step = 6,
                               .commit_step = 7,
                               .own_closed = 8,
                               .bell = 14,
                               .echo_ns = 9,
                               .clock_ns = 14,
                               .end = END_STOP,
                               .restart = 1,
                               .manner = MANNER_FORWARD,
                               .outcome = 3,
                               .exit_code = -10,
                               .end_left_ms = 11,
                               .has_notice = 1,
                               .is_near = 1,
                               .notice_node = 12,
                               .notice_left_ns = 13,
                               .notice.source = "cloud",
                               .notice.id = "e2",
                               .notice.text = "gone",
                               .why = "why",
                               .examine = 14,
                               .port = 15,
                               .save_ns = 16,
                               .own_ns = 17,
                               .stop_answered = 18,
                               .needs = NEEDS_RANK0,
                               .is_late = 1,
                               .commit_whole = 19,
                               .waits = {20, 21, 22},
                               .measure = {23, 1, {"b:1", {24, 25}}}};
}

static struct peer_cause sample_cause(void)
{
    return (struct peer_cause){.fault = FAULT_SIGNAL,
                               .node = 25,
                               .rank = 26,
                               .pid = 27,
                               .code = -28,
                               .at_ns = 29,
                               .error_ns = 30,
                               .ago_ns = 31,
                               .wall_ns = 32,
                               .host = "n25",
                               .text = "died",
                               .tail = "Oops"};
}

static struct peer_ranks sample_ranks(void)
{
    return (struct peer_ranks){.number = 6,
                               .node_rank = 7,
                               .total = 9,
                               .first = 8,
                               .count = 1,
                               .list = {{.rank = 10,
                                         .local_rank = 11,
                                         .pid = 12,
                                         .attached = 1,
                                         .phase = PAGE_EVAL,
                                         .step = 13,
                                         .saved_step = 14,
                                         .pace = 15,
                                         .age_ns = -1,
                                         .is_least = 1,
                                         .counts = 1,
                                         .life = RANK_UNATTACHED,
                                         .own_ns = 16,
                                         .slow = 160}}};
}

static struct peer_status sample_status(void)
{
    return (struct peer_status){.seen = 6,
                                .wants_reply = 1,
                                .sent_ns = 65,
                                .life = LIFE_FINISHED,
                                .vote = VOTE_ACK,
                                .closed = 1,
                                .expected = 7,
                                .attached = 8,
                                .saved = 9,
                                .ended = 10,
                                .failed = 11,
                                .served = 12,
                                .need = {58, 59, 60, "1", "2", {61, 62, 63}},
                                .mismatch = 1,
                                .prepared = 1,
                                .stepped = 0,
                                .live = 29,
                                .done = 30,
                                .all_wait = 1,
                                .saved_step = 13,
                                .highest = 14,
                                .lowest = 15,
                                .own_step = 16,
                                .own_failed = 41,
                                .first_step = 17,
                                .stride = 18,
                                .last_step = 19,
                                .world_size = 20,
                                .roster = "0-3",
                                .rtt_ns = 23,
                                .checkpoint_asked = 24,
                                .stop_asked = 56,
                                .end_ns = 57,
                                .end_cut = 1,
                                .interrupted = 1,
                                .interrupted_by = 64,
                                .has_notice = 1,
                                .notice_left_ns = -25,
                                .notice_is_guess = 1,
                                .notice_has_signal = 1,
                                .notice_lead_ns = -31,
                                .notice_version = 32,
                                .knows_notice = 1,
                                .notice_hurry = 2,
                                .notice.source = "SIGTERM",
                                .notice.id = "e1",
                                .notice.text = "soon",
                                .save_error = "full",
                                .watch.motion = MOTION_STANDS,
                                .watch.still_ns = 42,
                                .watch.limit_ns = 43,
                                .watch.absent = 44,
                                .watch.behind_phase = PAGE_EVAL,
                                .watch.behind_count = 45,
                                .watch.behind_rank = 46,
                                .watch.behind_pid = 47,
                                .watch.behind_step = 48,
                                .watch.behind_ago_ns = 49,
                                .watch.behind_stopped = 1,
                                .watch.examined = 50,
                                .own.median_ns = 51,
                                .own.known = 52,
                                .own.slow = 53,
                                .own.rank = 54,
                                .own.local_rank = 57,
                                .own.rank_ns = 55,
                                .watch.patience_ns = 56,
                                .watch.gave_up = 58,
                                .dir = DIR_OTHER,
                                .checking = 1,
                                .paths = PATHS_SHARED,
                                .loading_ns = 66,
                                .link = {67, 1, {"a:1", {68, 69}}, 70, "no"}};
}

static struct peermsg sample_peermsg(uint8_t type)
{
    struct peermsg m = {
        .type = type,
        .stamp = {.attempt = 1, .generation = 2, .round = 3, .ballot = 4, .seq = 5, .epoch = 64},
    };
    if (type == PEERMSG_HELLO)
        m.hello =
            (struct peer_hello){0x1122334455667788, 6, 7, "n3", "run7", "a=b\n", 8, 9, 1, "a>b"};
    if (type == PEERMSG_WELCOME)
        m.welcome = (struct peer_welcome){.incarnation = 6, .resume_step = 7, .is_direct = 1};
    if (type == PEERMSG_REFUSED)
        m.refused = (struct peer_refused){"no"};
    if (type == PEERMSG_STATUS)
        m.status = sample_status(), m.cause = sample_cause();
    if (type == PEERMSG_ORDER)
        m.order = sample_order();
    if (type == PEERMSG_LOOK)
        m.look.number = 6;
    if (type == PEERMSG_RANKS)
        m.ranks = sample_ranks();
    if (type == PEERMSG_STANDBY)
        m.standby = (struct peer_standby){6, 1, 7, 42, "end"};
    return m;
}

static struct procmsg sample_procmsg(uint8_t type)
{
    return (struct procmsg){.type = type,
                            .rank = 1,
                            .local_rank = 2,
                            .world_size = 3,
                            .local_world_size = -1,
                            .step = 4,
                            .first_step = 5,
                            .stride = 6,
                            .last_step = 7,
                            .word = 8,
                            .tag = 9,
                            .flags = PROCMSG_FLAG_SHIELD,
                            .generation = 11,
                            .number = -10,
                            .wants_answer = 1,
                            .action = PROC_EXIT,
                            .committed = 0,
                            .text = "full",
                            .path = "/ckpt"};
}

static void expect_bytes(const char *name, const uint8_t *data, size_t size, const char *hex)
{
    char text[2 * ENCODED_MAX + 1];
    for (size_t i = 0; i < size; i++)
        snprintf(text + 2 * i, 3, "%02x", data[i]);
    cr_assert_str_eq(text, hex, "%s has become %s", name, text);
}

Test(peermsg, bytes)
{
    cr_assert_eq(PEERMSG_VERSION, 15, "a new version needs new bytes here");
    uint8_t data[ENCODED_MAX];
    for (uint8_t type = PEERMSG_HELLO; type < PEERMSG__COUNT; type++) {
        struct peermsg msg = sample_peermsg(type);
        size_t size = peermsg_encode(&msg, data, sizeof data);
        expect_bytes(peermsg_name(type), data, size, golden_peer[type]);
    }
}

Test(procmsg, bytes)
{
    cr_assert_eq(PROCMSG_VERSION, 3, "a new version needs new bytes here");
    uint8_t data[ENCODED_MAX];
    for (size_t t = 0; t < sizeof proc_types; t++) {
        struct procmsg msg = sample_procmsg(proc_types[t]);
        size_t size = procmsg_encode(&msg, data, sizeof data);
        expect_bytes(procmsg_name(msg.type), data, size, golden_proc[msg.type]);
    }
}

Test(gate, fields_do_not_touch)
{
    cr_assert_eq(gate_make(0x123456789abc, 1, false, false), 0x0001123456789abc);
    cr_assert_eq(gate_make(0x123456789abc, 1, true, false), 0x8001123456789abc);
    cr_assert_eq(gate_make(0x123456789abc, 1, false, true), 0x4001123456789abc);
    cr_assert_eq(gate_tag_of(0), 0);
    cr_assert_eq(gate_tag_of(1), 1);
    cr_assert_eq(gate_tag_of(GATE_TAGS), GATE_TAGS);
    cr_assert_eq(gate_tag_of(GATE_TAGS + 1), 1, "0 is for no round");
    uint64_t word = gate_make(GATE_STEP_MAX, GATE_TAGS, true, true);
    cr_assert_eq(word, 0xfffdffffffffffff);
    cr_assert(gate_is_decided(word) && gate_ends_run(word));
    cr_assert_eq(gate_tag(word), GATE_TAGS);
    cr_assert_eq(gate_step(word), GATE_STEP_MAX);
}

Test(gate, leave_stops_everybody)
{
    for (uint32_t round = 0; round < 3 * GATE_TAGS; round += 1000) {
        cr_assert_neq(gate_tag_of(round), GATE_TAG_LEAVE);
        cr_assert(gate_stops(gate_leave(), 0, gate_tag_of(round)));
        cr_assert(gate_stops(gate_bell(7), 7, gate_tag_of(round)));
        cr_assert(!gate_stops(gate_bell(7), 6, gate_tag_of(round)));
        cr_assert(!gate_is_bell(gate_make(7, round, false, false)));
    }
    cr_assert(gate_is_decided(gate_leave()) && gate_ends_run(gate_leave()));
    cr_assert_eq(gate_leave(), 0xffff000000000000);
}

Test(gate, who_stops)
{
    uint64_t word = gate_make(10, 3, false, false);
    cr_assert(!gate_stops(word, 9, 0));
    cr_assert(gate_stops(word, 10, 0));
    cr_assert(gate_stops(word, 11, 2));
    cr_assert(!gate_stops(word, 11, 3), "it has served this round");
    cr_assert(!gate_stops(gate_make(GATE_OPEN, 0, false, false), GATE_STEP_MAX - 1, 3));
}

/* A process that finds the gate open need not look at the step. */
Test(gate, is_open_without_a_round)
{
    cr_assert(gate_is_open(GATE_OPEN));
    cr_assert(gate_is_open(gate_make(7, 0, false, false)));
    cr_assert(!gate_is_open(gate_leave()));
    cr_assert(!gate_is_open(gate_bell(7)));
    for (uint32_t round = 1; round < 3 * GATE_TAGS; round += 1000)
        for (int flags = 0; flags < 4; flags++)
            cr_assert(!gate_is_open(gate_make(0, round, flags & 1, flags & 2)));
}

/* The layout is a protocol between programs that were built apart. */
Test(page, layout)
{
    cr_assert_eq(PAGE_VERSION, 4);
    cr_assert_eq(offsetof(struct page_supervisor, gate), 64);
    cr_assert_eq(offsetof(struct page_supervisor, alive), 128);
    cr_assert_eq(offsetof(struct page_supervisor, notice_seq), 192);
    cr_assert_eq(offsetof(struct page_supervisor, notice_len), 196);
    cr_assert_eq(offsetof(struct page_supervisor, notice_deadline_ns), 200);
    cr_assert_eq(offsetof(struct page_supervisor, notice_text), 208);
    cr_assert_eq(offsetof(struct page_process, step), 0);
    cr_assert_eq(offsetof(struct page_process, phase), 64);
    cr_assert_eq(offsetof(struct page_process, own_ns), 72);
    cr_assert_eq(offsetof(struct page_process, whole_ns), 80);
    cr_assert_eq(offsetof(struct page_process, loading), 88);
    cr_assert_eq(offsetof(struct page_process, holds[PAGE_OPENER].word), 128);
    cr_assert_eq(offsetof(struct page_process, holds[PAGE_TRAINER].word), 192);
    cr_assert_eq(offsetof(struct page_process, stacks_signal), 256);
}

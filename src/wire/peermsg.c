/* SPDX-License-Identifier: Apache-2.0
 * See peermsg.h. Each body has one list of its fields with their bounds, for the encoder and the
 * decoder. Enumerations and flags stay within their range, and a save step fits into the gate. The
 * core checks counts for sense.
 */
#include "wire/peermsg.h"

#include "wire/bytes.h"
#include "wire/gate.h"
#include "wire/page.h"

#include <string.h>

#define NUMBER(f)              BYTES_NUMBER(struct peermsg, f)
#define WITHIN(f, least, most) BYTES_WITHIN(struct peermsg, f, least, most)
#define FLAG(f)                WITHIN(f, 0, 1)
#define TEXT(f)                BYTES_TEXT(struct peermsg, f)

static const struct bytes_field stamp_fields[] = {
    NUMBER(stamp.attempt), NUMBER(stamp.generation), NUMBER(stamp.round),
    NUMBER(stamp.ballot),  NUMBER(stamp.seq),        NUMBER(stamp.epoch),
};

static const struct bytes_field refused_stamp_fields[] = {
    NUMBER(stamp.attempt), NUMBER(stamp.generation), NUMBER(stamp.epoch),
    NUMBER(stamp.ballot),  NUMBER(stamp.seq),
};

static const struct bytes_field hello_fields[] = {
    NUMBER(hello.incarnation), NUMBER(hello.node_rank), NUMBER(hello.nnodes),
    TEXT(hello.host),          TEXT(hello.job),         TEXT(hello.settings),
    NUMBER(hello.commit_step), NUMBER(hello.pid),       FLAG(hello.stands_by),
    TEXT(hello.line),
};

static const struct bytes_field welcome_fields[] = {
    NUMBER(welcome.incarnation),
    NUMBER(welcome.resume_step),
    FLAG(welcome.is_direct),
};

static const struct bytes_field refused_fields[] = {
    TEXT(refused.why),
};

static const struct bytes_field status_fields[] = {
    NUMBER(status.seen),
    FLAG(status.wants_reply),
    WITHIN(status.sent_ns, 0, INT64_MAX),
    WITHIN(status.life, 0, LIFE_DONE),
    WITHIN(status.vote, 0, VOTE_NACK),
    FLAG(status.closed),
    NUMBER(status.expected),
    NUMBER(status.attached),
    NUMBER(status.saved),
    NUMBER(status.ended),
    NUMBER(status.failed),
    NUMBER(status.served),
    NUMBER(status.need.came),
    NUMBER(status.need.hopes),
    NUMBER(status.need.whole),
    TEXT(status.need.gone),
    TEXT(status.need.unsaved),
    FLAG(status.mismatch),
    FLAG(status.prepared),
    FLAG(status.stepped),
    NUMBER(status.live),
    NUMBER(status.done),
    FLAG(status.all_wait),
    FLAG(status.own_more),
    NUMBER(status.saved_step),
    NUMBER(status.highest),
    NUMBER(status.lowest),
    NUMBER(status.own_step),
    NUMBER(status.own_failed),
    NUMBER(status.first_step),
    NUMBER(status.stride),
    NUMBER(status.last_step),
    NUMBER(status.world_size),
    TEXT(status.roster),
    NUMBER(status.rtt_ns),
    NUMBER(status.checkpoint_asked),
    NUMBER(status.stop_asked),
    FLAG(status.interrupted),
    WITHIN(status.interrupted_by, 0, 64),
    FLAG(status.left),
    WITHIN(status.end_ns, 0, INT64_MAX),
    FLAG(status.end_cut),
    FLAG(status.has_notice),
    NUMBER(status.notice_left_ns),
    FLAG(status.notice_is_guess),
    FLAG(status.notice_has_signal),
    NUMBER(status.notice_lead_ns),
    NUMBER(status.notice_version),
    FLAG(status.knows_notice),
    WITHIN(status.notice_hurry, 0, 2),
    TEXT(status.notice.source),
    TEXT(status.notice.id),
    TEXT(status.notice.text),
    TEXT(status.save_error),
    WITHIN(status.watch.motion, 0, MOTION_SILENT),
    WITHIN(status.watch.still_ns, 0, INT64_MAX),
    WITHIN(status.watch.limit_ns, 0, INT64_MAX),
    NUMBER(status.watch.absent),
    WITHIN(status.watch.behind_phase, 0, PAGE_PHASES - 1),
    NUMBER(status.watch.behind_count),
    NUMBER(status.watch.behind_rank),
    NUMBER(status.watch.behind_pid),
    NUMBER(status.watch.behind_step),
    WITHIN(status.watch.behind_ago_ns, 0, INT64_MAX),
    FLAG(status.watch.behind_stopped),
    NUMBER(status.watch.examined),
    WITHIN(status.own.median_ns, 0, PAGE_OWN_MAX),
    NUMBER(status.own.known),
    NUMBER(status.own.slow),
    NUMBER(status.own.rank),
    NUMBER(status.own.local_rank),
    WITHIN(status.own.rank_ns, 0, PAGE_OWN_MAX),
    WITHIN(status.watch.patience_ns, 0, INT64_MAX),
    NUMBER(status.watch.gave_up),
    WITHIN(status.dir, 0, DIR_OTHER),
    FLAG(status.checking),
    WITHIN(status.paths, 0, PATHS_OTHER),
    NUMBER(status.need.declares[NEEDS_ALL]),
    NUMBER(status.need.declares[NEEDS_RANK0]),
    NUMBER(status.need.declares[NEEDS_ANY]),
    WITHIN(status.loading_ns, 0, INT64_MAX),
    NUMBER(status.link.number),
    FLAG(status.link.is_over),
    TEXT(status.link.here.at),
    NUMBER(status.link.here.token[0]),
    NUMBER(status.link.here.token[1]),
    WITHIN(status.link.rate, 0, PEERMSG_RATE_MAX),
    TEXT(status.link.why),
};

static const struct bytes_field order_fields[] = {
    FLAG(order.start),
    FLAG(order.roster),
    WITHIN(order.phase, 0, PHASE_ABORTED),
    FLAG(order.ends_run),
    FLAG(order.leave),
    WITHIN(order.save_step, 0, GATE_STEP_MAX),
    NUMBER(order.commit_step),
    NUMBER(order.own_closed),
    WITHIN(order.bell, 0, GATE_STEP_MAX),
    WITHIN(order.echo_ns, 0, INT64_MAX),
    WITHIN(order.clock_ns, 0, INT64_MAX),
    WITHIN(order.end, 0, END_LEAVE),
    FLAG(order.restart),
    WITHIN(order.manner, 0, MANNER_ASK),
    NUMBER(order.outcome),
    NUMBER(order.exit_code),
    NUMBER(order.end_left_ms),
    FLAG(order.has_notice),
    FLAG(order.is_near),
    NUMBER(order.notice_node),
    NUMBER(order.notice_left_ns),
    TEXT(order.notice.source),
    TEXT(order.notice.id),
    TEXT(order.notice.text),
    TEXT(order.why),
    NUMBER(order.examine),
    NUMBER(order.port),
    WITHIN(order.save_ns, 0, INT64_MAX),
    WITHIN(order.own_ns, 0, PAGE_OWN_MAX),
    NUMBER(order.stop_answered),
    WITHIN(order.needs, 0, NEEDS_ANY),
    FLAG(order.is_late),
    NUMBER(order.commit_whole),
    NUMBER(order.waits.node),
    NUMBER(order.waits.left_ms),
    NUMBER(order.waits.fence_ms),
    NUMBER(order.measure.number),
    FLAG(order.measure.begins),
    TEXT(order.measure.next.at),
    NUMBER(order.measure.next.token[0]),
    NUMBER(order.measure.next.token[1]),
};

static const struct bytes_field look_fields[] = {
    NUMBER(look.number),
};

static const struct bytes_field ranks_fields[] = {
    NUMBER(ranks.number),
    NUMBER(ranks.node_rank),
    NUMBER(ranks.total),
    NUMBER(ranks.first),
    WITHIN(ranks.count, 0, PEERMSG_RANKS_MAX),
};

/* The fields of the first rank; the other ranks follow it in the struct. */
static const struct bytes_field rank_fields[] = {
    NUMBER(ranks.list[0].rank),
    NUMBER(ranks.list[0].local_rank),
    NUMBER(ranks.list[0].pid),
    FLAG(ranks.list[0].attached),
    FLAG(ranks.list[0].done),
    WITHIN(ranks.list[0].phase, 0, PAGE_PHASES - 1),
    NUMBER(ranks.list[0].step),
    NUMBER(ranks.list[0].saved_step),
    NUMBER(ranks.list[0].pace),
    WITHIN(ranks.list[0].age_ns, -1, INT64_MAX / 2),
    FLAG(ranks.list[0].is_least),
    FLAG(ranks.list[0].counts),
    WITHIN(ranks.list[0].life, 0, RANK_UNATTACHED),
    WITHIN(ranks.list[0].own_ns, 0, PAGE_OWN_MAX),
    NUMBER(ranks.list[0].slow),
};

static const struct bytes_field standby_fields[] = {
    WITHIN(standby.place, -1, INT32_MAX),
    FLAG(standby.is_over),
    NUMBER(standby.outcome),
    NUMBER(standby.exit_code),
    TEXT(standby.why),
};

/* The fields of a failure; without a failure only the first field is sent. */
static const struct bytes_field cause_fields[] = {
    WITHIN(cause.fault, 0, FAULT_UNFIT),
    NUMBER(cause.node),
    NUMBER(cause.rank),
    NUMBER(cause.pid),
    NUMBER(cause.code),
    WITHIN(cause.at_ns, 0, INT64_MAX),
    WITHIN(cause.error_ns, -1, INT64_MAX),
    WITHIN(cause.ago_ns, 0, INT64_MAX),
    NUMBER(cause.wall_ns),
    TEXT(cause.host),
    TEXT(cause.text),
    TEXT(cause.tail),
};

#define FIELDS(list) list, sizeof(list) / sizeof((list)[0])

static const struct {
    const char *name;
    const struct bytes_field *fields;
    size_t n;
    bool has_cause; /* a failure follows the fields */
} types[PEERMSG__COUNT] = {
    [PEERMSG_HELLO] = {"HELLO", FIELDS(hello_fields)},
    [PEERMSG_WELCOME] = {"WELCOME", FIELDS(welcome_fields)},
    [PEERMSG_REFUSED] = {"REFUSED", FIELDS(refused_fields)},
    [PEERMSG_STATUS] = {"STATUS", FIELDS(status_fields), true},
    [PEERMSG_ORDER] = {"ORDER", FIELDS(order_fields), true},
    [PEERMSG_BYE] = {"BYE"},
    [PEERMSG_LOOK] = {"LOOK", FIELDS(look_fields)},
    [PEERMSG_RANKS] = {"RANKS", FIELDS(ranks_fields)},
    [PEERMSG_STANDBY] = {"STANDBY", FIELDS(standby_fields)},
};

const char *peermsg_phase_name(unsigned phase)
{
    static const char *const names[] = {
        [PHASE_IDLE] = "idle",           [PHASE_PROPOSED] = "proposed", [PHASE_DECIDED] = "decided",
        [PHASE_COMMITTED] = "committed", [PHASE_FAILED] = "failed",     [PHASE_ABORTED] = "aborted",
    };
    return phase < sizeof names / sizeof names[0] ? names[phase] : "unknown";
}

const char *peermsg_name(unsigned type)
{
    return type < PEERMSG__COUNT && types[type].name ? types[type].name : "?";
}

/* Writes or reads a whole message. Too many ranks: reads none, so that the leftover bytes fail the
 * check of the length. */
static void walk_message(struct bytes *bytes, struct peermsg *m)
{
    if (m->type == PEERMSG_REFUSED)
        bytes_fields(bytes, m, FIELDS(refused_stamp_fields));
    else
        bytes_fields(bytes, m, FIELDS(stamp_fields));
    bytes_fields(bytes, m, types[m->type].fields, types[m->type].n);
    if (types[m->type].has_cause)
        bytes_fields(bytes, m, cause_fields, 1);
    if (types[m->type].has_cause && m->cause.fault != FAULT_NONE)
        bytes_fields(bytes, m, cause_fields + 1, sizeof cause_fields / sizeof cause_fields[0] - 1);
    if (m->type != PEERMSG_RANKS || m->ranks.count > PEERMSG_RANKS_MAX)
        return;
    for (unsigned i = 0; i < m->ranks.count; i++)
        bytes_fields(bytes, (uint8_t *)m + i * sizeof m->ranks.list[0], FIELDS(rank_fields));
}

size_t peermsg_encode(const struct peermsg *msg, uint8_t *data, size_t cap)
{
    if (cap < FRAME_HEADER_BYTES || msg->type >= PEERMSG__COUNT || !types[msg->type].name)
        return 0;
    struct bytes bytes = bytes_writer(data + FRAME_HEADER_BYTES, cap - FRAME_HEADER_BYTES);
    struct peermsg copy = *msg; /* the walk takes no const: it serves the decoder, too */
    walk_message(&bytes, &copy);
    if (!bytes.ok)
        return 0;
    frame_header(FRAME_PEER, PEERMSG_VERSION, msg->type, (uint32_t)bytes.at, data);
    return FRAME_HEADER_BYTES + bytes.at;
}

bool peermsg_decode(const struct frame *frame, struct peermsg *ret)
{
    if (frame->type >= PEERMSG__COUNT || !types[frame->type].name)
        return false;
    memset(ret, 0, sizeof *ret);
    ret->type = frame->type;
    if (frame->version != PEERMSG_VERSION && frame->type == PEERMSG_HELLO)
        return true; /* empty, so that it can be refused by name */
    if (frame->version != PEERMSG_VERSION && frame->type != PEERMSG_REFUSED)
        return false;
    struct bytes bytes = bytes_reader(frame->payload, frame->len);
    walk_message(&bytes, ret);
    bool has_all =
        ret->type != PEERMSG_RANKS || ret->ranks.first + ret->ranks.count <= ret->ranks.total;
    return bytes_done(&bytes) && has_all;
}

const char *peermsg_flaw(const struct frame *frame)
{
    struct peermsg msg = {.type = frame->type};
    if (frame->type >= PEERMSG__COUNT || !types[frame->type].name)
        return "there is no such type";
    struct bytes bytes = bytes_reader(frame->payload, frame->len);
    walk_message(&bytes, &msg);
    if (!bytes.ok)
        return bytes.at == bytes.size ? "it ends too early"
                                      : "a text in it is too long or holds a NUL";
    return bytes.at < bytes.size ? "it has bytes after its fields" : "a field is out of its range";
}

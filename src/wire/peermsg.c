/* SPDX-License-Identifier: Apache-2.0
 * See peermsg.h. Each body has one list of its fields, walked by the encoder and by the decoder, so
 * the two cannot differ.
 */
#include "wire/peermsg.h"

#include "wire/bytes.h"
#include "wire/gate.h"
#include "wire/page.h"

#include <string.h>

/* One pass over a message: writing or reading, never both. */
struct pass {
    struct bytes_out *out;
    struct bytes_in *in;
};

static void peermsg_number(struct pass *pass, void *field, unsigned size)
{
    if (pass->out)
        bytes_put_number(pass->out, field, size);
    else
        bytes_get_number(pass->in, field, size);
}

static void text(struct pass *pass, char *field, size_t cap)
{
    if (pass->out)
        bytes_put_text(pass->out, field);
    else
        bytes_get_text(pass->in, field, cap);
}

#define NUMBER(f) peermsg_number(pass, &(f), sizeof(f))
#define TEXT(f)   text(pass, (f), sizeof(f))

static void pass_stamp(struct pass *pass, struct peer_stamp *s)
{
    NUMBER(s->attempt);
    NUMBER(s->generation);
    NUMBER(s->round);
    NUMBER(s->ballot);
    NUMBER(s->seq);
}

static void pass_hello(struct pass *pass, struct peermsg *m)
{
    struct peer_hello *h = &m->hello;
    NUMBER(h->incarnation);
    NUMBER(h->node_rank);
    NUMBER(h->nnodes);
    TEXT(h->host);
    TEXT(h->job);
    TEXT(h->settings);
    NUMBER(h->commit_step);
    NUMBER(h->pid);
    TEXT(h->line);
}

static void pass_welcome(struct pass *pass, struct peermsg *m)
{
    NUMBER(m->welcome.incarnation);
    NUMBER(m->welcome.resume_step);
    NUMBER(m->welcome.is_direct);
}

static void pass_refused(struct pass *pass, struct peermsg *m)
{
    TEXT(m->refused.why);
}

static void pass_counts(struct pass *pass, struct peer_status *s)
{
    NUMBER(s->expected);
    NUMBER(s->attached);
    NUMBER(s->saved);
    NUMBER(s->ended);
    NUMBER(s->failed);
    NUMBER(s->served);
    NUMBER(s->mismatch);
    NUMBER(s->prepared);
    NUMBER(s->stepped);
    NUMBER(s->live);
    NUMBER(s->done);
    NUMBER(s->all_wait);
    NUMBER(s->own_more);
    NUMBER(s->saved_step);
    NUMBER(s->highest);
    NUMBER(s->lowest);
    NUMBER(s->own_step);
    NUMBER(s->own_failed);
    NUMBER(s->first_step);
    NUMBER(s->stride);
    NUMBER(s->last_step);
    NUMBER(s->world_size);
    TEXT(s->roster);
}

static void pass_motion(struct pass *pass, struct peer_status *s)
{
    NUMBER(s->motion);
    NUMBER(s->still_ns);
    NUMBER(s->limit_ns);
    NUMBER(s->absent);
    NUMBER(s->behind_phase);
    NUMBER(s->behind_count);
    NUMBER(s->behind_rank);
    NUMBER(s->behind_pid);
    NUMBER(s->behind_step);
    NUMBER(s->behind_ago_ns);
    NUMBER(s->behind_stopped);
    NUMBER(s->examined);
}

static void pass_cause(struct pass *pass, struct peer_cause *c)
{
    NUMBER(c->fault);
    if (c->fault == FAULT_NONE)
        return;
    NUMBER(c->node);
    NUMBER(c->rank);
    NUMBER(c->pid);
    NUMBER(c->code);
    NUMBER(c->at_ns);
    NUMBER(c->error_ns);
    NUMBER(c->ago_ns);
    NUMBER(c->wall_ns);
    TEXT(c->host);
    TEXT(c->text);
    TEXT(c->tail);
}

static void pass_status(struct pass *pass, struct peermsg *m)
{
    struct peer_status *s = &m->status;
    NUMBER(s->seen);
    NUMBER(s->wants_reply);
    NUMBER(s->life);
    NUMBER(s->vote);
    NUMBER(s->closed);
    pass_counts(pass, s);
    NUMBER(s->rtt_ns);
    NUMBER(s->checkpoint_asked);
    NUMBER(s->interrupted);
    NUMBER(s->left);
    NUMBER(s->has_notice);
    NUMBER(s->notice_left_ns);
    NUMBER(s->notice_lead_ns);
    NUMBER(s->notice_version);
    NUMBER(s->knows_notice);
    NUMBER(s->notice_hurry);
    TEXT(s->notice_source);
    TEXT(s->notice_id);
    TEXT(s->notice_text);
    TEXT(s->save_error);
    pass_motion(pass, s);
    pass_cause(pass, &m->cause);
}

static void pass_order(struct pass *pass, struct peermsg *m)
{
    struct peer_order *o = &m->order;
    NUMBER(o->start);
    NUMBER(o->roster);
    NUMBER(o->phase);
    NUMBER(o->ends_run);
    NUMBER(o->leave);
    NUMBER(o->save_step);
    NUMBER(o->commit_step);
    NUMBER(o->own_closed);
    NUMBER(o->bell);
    NUMBER(o->echo);
    NUMBER(o->clock_ns);
    NUMBER(o->end);
    NUMBER(o->restart);
    NUMBER(o->manner);
    NUMBER(o->outcome);
    NUMBER(o->exit_code);
    NUMBER(o->end_left_ms);
    NUMBER(o->has_notice);
    NUMBER(o->is_near);
    NUMBER(o->notice_node);
    NUMBER(o->notice_left_ns);
    TEXT(o->notice_source);
    TEXT(o->notice_id);
    TEXT(o->notice_text);
    TEXT(o->why);
    NUMBER(o->examine);
    NUMBER(o->port);
    NUMBER(o->save_ns);
    pass_cause(pass, &m->cause);
}

static void pass_look(struct pass *pass, struct peermsg *m)
{
    NUMBER(m->look.number);
}

static void pass_rank(struct pass *pass, struct peer_rank *r)
{
    NUMBER(r->rank);
    NUMBER(r->local_rank);
    NUMBER(r->pid);
    NUMBER(r->attached);
    NUMBER(r->done);
    NUMBER(r->phase);
    NUMBER(r->step);
    NUMBER(r->saved_step);
    NUMBER(r->pace);
    NUMBER(r->age_ns);
    NUMBER(r->is_least);
    NUMBER(r->counts);
    NUMBER(r->life);
}

/* Too many ranks: reads none, so that the leftover bytes fail the check of the length. */
static void pass_ranks(struct pass *pass, struct peermsg *m)
{
    struct peer_ranks *r = &m->ranks;
    NUMBER(r->number);
    NUMBER(r->node_rank);
    NUMBER(r->total);
    NUMBER(r->first);
    NUMBER(r->count);
    for (unsigned i = 0; r->count <= PEERMSG_RANKS_MAX && i < r->count; i++)
        pass_rank(pass, &r->list[i]);
}

static void pass_nothing(struct pass *pass, struct peermsg *m)
{
    (void)pass;
    (void)m;
}

static const struct {
    const char *name;
    void (*pass)(struct pass *pass, struct peermsg *m);
} types[PEERMSG__COUNT] = {
    [PEERMSG_HELLO] = {"HELLO", pass_hello},       [PEERMSG_WELCOME] = {"WELCOME", pass_welcome},
    [PEERMSG_REFUSED] = {"REFUSED", pass_refused}, [PEERMSG_STATUS] = {"STATUS", pass_status},
    [PEERMSG_ORDER] = {"ORDER", pass_order},       [PEERMSG_BYE] = {"BYE", pass_nothing},
    [PEERMSG_LOOK] = {"LOOK", pass_look},          [PEERMSG_RANKS] = {"RANKS", pass_ranks},
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

size_t peermsg_encode(const struct peermsg *msg, uint8_t *data, size_t cap)
{
    if (cap < FRAME_HEADER_BYTES || msg->type >= PEERMSG__COUNT || !types[msg->type].name)
        return 0;
    struct bytes_out out = bytes_out(data + FRAME_HEADER_BYTES, cap - FRAME_HEADER_BYTES);
    struct pass pass = {.out = &out};
    struct peermsg copy = *msg; /* the passes take no const: they serve the decoder, too */
    pass_stamp(&pass, &copy.stamp);
    types[msg->type].pass(&pass, &copy);
    if (!out.ok)
        return 0;
    frame_header(FRAME_PEER, PEERMSG_VERSION, msg->type, (uint32_t)out.len, data);
    return FRAME_HEADER_BYTES + out.len;
}

/* Enumerations and flags stay within their range, and a save step fits into the gate; counts are
 * checked for sense by the core. */
static bool is_status_in_range(const struct peer_status *s)
{
    return s->wants_reply <= 1 && s->life <= LIFE_GONE && s->vote <= VOTE_NACK && s->closed <= 1 &&
           s->mismatch <= 1 && s->prepared <= 1 && s->stepped <= 1 && s->all_wait <= 1 &&
           s->own_more <= 1 && s->interrupted <= 1 && s->left <= 1 && s->has_notice <= 1 &&
           s->knows_notice <= 1 && s->notice_hurry <= 2 && s->motion <= MOTION_SILENT &&
           s->behind_phase < PAGE_PHASES && s->behind_stopped <= 1 && s->behind_ago_ns >= 0 &&
           s->still_ns >= 0 && s->limit_ns >= 0;
}

static bool is_order_in_range(const struct peer_order *o)
{
    return o->start <= 1 && o->roster <= 1 && o->phase <= PHASE_ABORTED && o->ends_run <= 1 &&
           o->leave <= 1 && o->save_step <= GATE_STEP_MAX && o->bell <= GATE_STEP_MAX &&
           o->end <= END_LEAVE && o->restart <= 1 && o->manner <= MANNER_ASK &&
           o->has_notice <= 1 && o->is_near <= 1 && o->clock_ns >= 0 && o->save_ns >= 0;
}

static bool is_cause_in_range(const struct peer_cause *c)
{
    return c->fault <= FAULT_BROKEN && c->at_ns >= 0 && c->error_ns >= -1 && c->ago_ns >= 0;
}

static bool is_rank_in_range(const struct peer_rank *r)
{
    return r->attached <= 1 && r->done <= 1 && r->is_least <= 1 && r->counts <= 1 &&
           r->life <= RANK_UNATTACHED && r->phase < PAGE_PHASES && r->age_ns >= -1 &&
           r->age_ns <= INT64_MAX / 2;
}

static bool are_ranks_in_range(const struct peer_ranks *r)
{
    bool ok = r->count <= PEERMSG_RANKS_MAX && r->first + r->count <= r->total;
    for (unsigned i = 0; ok && i < r->count; i++)
        ok = is_rank_in_range(&r->list[i]);
    return ok;
}

static bool peermsg_is_in_range(const struct peermsg *m)
{
    switch (m->type) {
    case PEERMSG_WELCOME:
        return m->welcome.is_direct <= 1;
    case PEERMSG_STATUS:
        return is_status_in_range(&m->status) && is_cause_in_range(&m->cause);
    case PEERMSG_ORDER:
        return is_order_in_range(&m->order) && is_cause_in_range(&m->cause);
    case PEERMSG_RANKS:
        return are_ranks_in_range(&m->ranks);
    default:
        return true;
    }
}

/* Reads every field; returns where the reading ended. */
static struct bytes_in read_fields(const struct frame *frame, struct peermsg *ret)
{
    struct bytes_in in = bytes_in(frame->payload, frame->len);
    struct pass pass = {.in = &in};
    pass_stamp(&pass, &ret->stamp);
    types[frame->type].pass(&pass, ret);
    return in;
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
    struct bytes_in in = read_fields(frame, ret);
    return bytes_done(&in) && peermsg_is_in_range(ret);
}

const char *peermsg_flaw(const struct frame *frame)
{
    struct peermsg msg = {.type = frame->type};
    if (frame->type >= PEERMSG__COUNT || !types[frame->type].name)
        return "there is no such type";
    struct bytes_in in = read_fields(frame, &msg);
    if (!in.ok)
        return in.at == in.len ? "it ends too early" : "a text in it is too long or holds a NUL";
    return in.at < in.len ? "there is more in it than its fields" : "a field is out of its range";
}

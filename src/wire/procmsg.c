/* SPDX-License-Identifier: Apache-2.0
 * See procmsg.h. One table says which fields a type carries; they are written in the order of the
 * field list below, so encode and decode cannot differ.
 */
#include "wire/procmsg.h"

#include "wire/bytes.h"

#include <stddef.h>

enum {
    F_RANKS = 1 << 0, /* rank, local_rank, world_size, local_world_size */
    F_STEP = 1 << 1,
    F_PLAN = 1 << 2, /* first_step, stride, last_step, flags */
    F_WORD = 1 << 3,
    F_TAG = 1 << 4,
    F_NUMBER = 1 << 5,
    F_ANSWER = 1 << 6, /* wants_answer, action, committed */
    F_GENERATION = 1 << 7,
    F_TEXT = 1 << 8,
    F_PATH = 1 << 9,
};

static const struct {
    const char *name;
    unsigned fields;
} types[] = {
    [PROCMSG_ATTACH] = {"ATTACH", F_RANKS | F_STEP | F_PLAN},
    [PROCMSG_WAITING] = {"WAITING", F_STEP | F_WORD},
    [PROCMSG_SERVING] = {"SERVING", F_STEP | F_TAG},
    [PROCMSG_SAVED] = {"SAVED", F_STEP | F_TAG | F_ANSWER | F_PATH},
    [PROCMSG_SAVE_FAILED] = {"SAVE_FAILED", F_STEP | F_TAG | F_TEXT},
    [PROCMSG_HELD] = {"HELD", F_STEP | F_TAG},
    [PROCMSG_NOTICE] = {"NOTICE", F_NUMBER},
    [PROCMSG_ERROR] = {"ERROR", F_NUMBER | F_TEXT},
    [PROCMSG_DONE] = {"DONE", F_STEP},
    [PROCMSG_SCRATCH] = {"SCRATCH", 0},
    [PROCMSG_CLOSE] = {"CLOSE", F_STEP | F_NUMBER},
    [PROCMSG_WELCOME] = {"WELCOME",
                         F_RANKS | F_STEP | F_WORD | F_TAG | F_NUMBER | F_GENERATION | F_PATH},
    [PROCMSG_REFUSED] = {"REFUSED", F_TEXT},
    [PROCMSG_LOOK] = {"LOOK", 0},
    [PROCMSG_ANSWER] = {"ANSWER", F_STEP | F_ANSWER},
    [PROCMSG_SCRATCH_DIR] = {"SCRATCH_DIR", F_TEXT | F_PATH},
};
enum { TYPES = sizeof types / sizeof types[0] };

const char *procmsg_name(unsigned type)
{
    return type < TYPES && types[type].name ? types[type].name : "?";
}

static void put_fields(struct bytes_out *out, unsigned f, const struct procmsg *m)
{
    if (f & F_RANKS) {
        bytes_put(out, (uint32_t)m->rank, 4);
        bytes_put(out, (uint32_t)m->local_rank, 4);
        bytes_put(out, (uint32_t)m->world_size, 4);
        bytes_put(out, (uint32_t)m->local_world_size, 4);
    }
    if (f & F_STEP)
        bytes_put(out, m->step, 8);
    if (f & F_PLAN) {
        bytes_put(out, m->first_step, 8);
        bytes_put(out, m->stride, 8);
        bytes_put(out, m->last_step, 8);
        bytes_put(out, m->flags, 4);
    }
    if (f & F_WORD)
        bytes_put(out, m->word, 8);
    if (f & F_TAG)
        bytes_put(out, m->tag, 4);
    if (f & F_NUMBER)
        bytes_put(out, (uint64_t)m->number, 8);
    if (f & F_ANSWER) {
        bytes_put(out, m->wants_answer, 1);
        bytes_put(out, m->action, 1);
        bytes_put(out, m->committed, 1);
    }
    if (f & F_GENERATION)
        bytes_put(out, m->generation, 4);
    if (f & F_TEXT)
        bytes_put_text(out, m->text);
    if (f & F_PATH)
        bytes_put_text(out, m->path);
}

static void get_fields(struct bytes_in *in, unsigned f, struct procmsg *m)
{
    if (f & F_RANKS) {
        m->rank = (int32_t)bytes_get(in, 4);
        m->local_rank = (int32_t)bytes_get(in, 4);
        m->world_size = (int32_t)bytes_get(in, 4);
        m->local_world_size = (int32_t)bytes_get(in, 4);
    }
    if (f & F_STEP)
        m->step = bytes_get(in, 8);
    if (f & F_PLAN) {
        m->first_step = bytes_get(in, 8);
        m->stride = bytes_get(in, 8);
        m->last_step = bytes_get(in, 8);
        m->flags = (uint32_t)bytes_get(in, 4);
    }
    if (f & F_WORD)
        m->word = bytes_get(in, 8);
    if (f & F_TAG)
        m->tag = (uint32_t)bytes_get(in, 4);
    if (f & F_NUMBER)
        m->number = (int64_t)bytes_get(in, 8);
    if (f & F_ANSWER) {
        m->wants_answer = (uint8_t)bytes_get(in, 1);
        m->action = (uint8_t)bytes_get(in, 1);
        m->committed = (uint8_t)bytes_get(in, 1);
    }
    if (f & F_GENERATION)
        m->generation = (uint32_t)bytes_get(in, 4);
    if (f & F_TEXT)
        bytes_get_text(in, m->text, sizeof m->text);
    if (f & F_PATH)
        bytes_get_text(in, m->path, sizeof m->path);
}

size_t procmsg_encode(const struct procmsg *msg, uint8_t *data, size_t cap)
{
    if (cap < FRAME_HEADER_BYTES || msg->type >= TYPES || !types[msg->type].name)
        return 0;
    struct bytes_out out = bytes_out(data + FRAME_HEADER_BYTES, cap - FRAME_HEADER_BYTES);
    put_fields(&out, types[msg->type].fields, msg);
    if (!out.ok)
        return 0;
    frame_header(FRAME_PROC, PROCMSG_VERSION, msg->type, (uint32_t)out.len, data);
    return FRAME_HEADER_BYTES + out.len;
}

/* Checks the ranges that hold for every type. */
static bool procmsg_is_in_range(const struct procmsg *m)
{
    return m->rank >= PROCMSG_UNKNOWN && m->local_rank >= PROCMSG_UNKNOWN &&
           m->world_size >= PROCMSG_UNKNOWN && m->local_world_size >= PROCMSG_UNKNOWN &&
           m->wants_answer <= 1 && m->action <= PROC_EXIT && m->committed <= 1;
}

bool procmsg_decode(const struct frame *frame, struct procmsg *ret)
{
    if (frame->version != PROCMSG_VERSION || frame->type >= TYPES || !types[frame->type].name)
        return false;
    *ret = (struct procmsg){.type = frame->type};
    struct bytes_in in = bytes_in(frame->payload, frame->len);
    get_fields(&in, types[frame->type].fields, ret);
    return bytes_done(&in) && procmsg_is_in_range(ret);
}

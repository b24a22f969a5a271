/* SPDX-License-Identifier: Apache-2.0
 * See procmsg.h. One table says which groups of fields a type carries. They are sent in the order
 * of the list of fields, with the bounds that hold for every type.
 */
#include "wire/procmsg.h"

#include "wire/bytes.h"

#include <stddef.h>

enum {
    F_RANKS = 1 << 0,
    F_STEP = 1 << 1,
    F_PLAN = 1 << 2,
    F_WORD = 1 << 3,
    F_TAG = 1 << 4,
    F_NUMBER = 1 << 5,
    F_ANSWER = 1 << 6,
    F_GENERATION = 1 << 7,
    F_TEXT = 1 << 8,
    F_PATH = 1 << 9,
};

#define NUMBER(f)              BYTES_NUMBER(struct procmsg, f)
#define WITHIN(f, least, most) BYTES_WITHIN(struct procmsg, f, least, most)
#define TEXT(f)                BYTES_TEXT(struct procmsg, f)

static const struct {
    unsigned group;
    struct bytes_field field;
} fields[] = {
    {F_RANKS, WITHIN(rank, PROCMSG_UNKNOWN, INT32_MAX)},
    {F_RANKS, WITHIN(local_rank, PROCMSG_UNKNOWN, INT32_MAX)},
    {F_RANKS, WITHIN(world_size, PROCMSG_UNKNOWN, INT32_MAX)},
    {F_RANKS, WITHIN(local_world_size, PROCMSG_UNKNOWN, INT32_MAX)},
    {F_STEP, NUMBER(step)},
    {F_PLAN, NUMBER(first_step)},
    {F_PLAN, NUMBER(stride)},
    {F_PLAN, NUMBER(last_step)},
    {F_PLAN, NUMBER(flags)},
    {F_WORD, NUMBER(word)},
    {F_TAG, NUMBER(tag)},
    {F_NUMBER, NUMBER(number)},
    {F_ANSWER, WITHIN(wants_answer, 0, 1)},
    {F_ANSWER, WITHIN(action, 0, PROC_EXIT)},
    {F_ANSWER, WITHIN(committed, 0, 1)},
    {F_GENERATION, NUMBER(generation)},
    {F_TEXT, TEXT(text)},
    {F_PATH, TEXT(path)},
};
enum { FIELDS = sizeof fields / sizeof fields[0] };

static const struct {
    const char *name;
    unsigned groups;
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
    [PROCMSG_TIMEOUT] = {"TIMEOUT", F_NUMBER},
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

/* Writes or reads the fields of a message. */
static void walk_proc_message(struct bytes *bytes, struct procmsg *msg)
{
    for (size_t i = 0; i < FIELDS; i++)
        if (types[msg->type].groups & fields[i].group)
            bytes_fields(bytes, msg, &fields[i].field, 1);
}

size_t procmsg_encode(const struct procmsg *msg, uint8_t *data, size_t cap)
{
    if (cap < FRAME_HEADER_BYTES || msg->type >= TYPES || !types[msg->type].name)
        return 0;
    struct bytes bytes = bytes_writer(data + FRAME_HEADER_BYTES, cap - FRAME_HEADER_BYTES);
    struct procmsg copy = *msg; /* the walk takes no const: it serves the decoder, too */
    walk_proc_message(&bytes, &copy);
    if (!bytes.ok)
        return 0;
    frame_header(FRAME_PROC, PROCMSG_VERSION, msg->type, (uint32_t)bytes.at, data);
    return FRAME_HEADER_BYTES + bytes.at;
}

bool procmsg_decode(const struct frame *frame, struct procmsg *ret)
{
    if (frame->version != PROCMSG_VERSION || frame->type >= TYPES || !types[frame->type].name)
        return false;
    *ret = (struct procmsg){.type = frame->type};
    struct bytes bytes = bytes_reader(frame->payload, frame->len);
    walk_proc_message(&bytes, ret);
    return bytes_done(&bytes);
}

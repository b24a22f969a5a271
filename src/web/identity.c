/* SPDX-License-Identifier: Apache-2.0
 * See identity.h.
 */
#include "web/identity.h"

#include "base/str.h"

/* One answer may be printable and the other as it was received: this makes them equal. */
static void identity_copy(const struct json *answer, const char *path, char *ret, size_t size)
{
    str_copy(ret, size, json_text_at(answer, path));
    str_printable(ret);
}

void identity_take(const struct json *answer, struct identity *ret)
{
    identity_copy(answer, "report.job", ret->name, sizeof ret->name);
    identity_copy(answer, "state_dir", ret->state_dir, sizeof ret->state_dir);
    identity_copy(answer, "chief", ret->chief, sizeof ret->chief);
    identity_copy(answer, "command", ret->command, sizeof ret->command);
    ret->nnodes = json_int_at(answer, "report.nnodes", 0);
}

bool identity_is_same(const struct identity *a, const struct identity *b)
{
    if (!str_is(a->name, b->name) || !str_is(a->state_dir, b->state_dir))
        return false;
    if (a->state_dir[0])
        return true;
    return a->nnodes == b->nnodes && str_is(a->chief, b->chief) &&
           (a->chief[0] || str_is(a->command, b->command));
}

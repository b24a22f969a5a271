/* SPDX-License-Identifier: Apache-2.0
 * See noticewalk.h.
 */
#include "noticewalk.h"

#include "base/str.h"

#include <stdlib.h>
#include <string.h>

void told(struct walk *w, enum notice_type type, const char *id, int64_t left)
{
    struct notice notice = {.type = type, .source = "cloud", .left_ns = left};
    str_copy(notice.id, sizeof notice.id, id);
    feed(w, (struct event){.type = EV_NOTICE, .notice = &notice});
}

void told_end(struct walk *w, const char *id, int64_t left)
{
    told(w, NOTICE_TERMINATE, id, left);
    steps_are_read(w);
}

struct walk *begin_with(bool trains_on, int64_t save, int64_t end)
{
    struct core_params p = params_of(0, 1, 1);
    p.train_on = trains_on ? TRAIN_ON_ALWAYS : TRAIN_ON_NEVER;
    p.save_ns = save;
    p.end_ns = end;
    struct walk *w = begin_ranks(&p);
    steps[0] = 4;
    assert_acts(w, "0: WELCOME");
    return w;
}

struct walk *begin(bool trains_on, int64_t save)
{
    return begin_with(trains_on, save, MS);
}

void decide(struct walk *w)
{
    steps_are_read(w);
    steps_are_read(w);
}

void save(struct walk *w, uint64_t step, uint32_t tag, int64_t takes)
{
    steps[0] = step;
    serves(w, 0, step, tag);
    now += takes;
    saves_and_waits(w, 0, step, tag);
    committed(w);
}

void save_awake(struct walk *w, uint64_t step, uint32_t tag, int64_t takes)
{
    int64_t until = now + takes;
    steps[0] = step;
    serves(w, 0, step, tag);
    while (core_wake_at(w->core) < until)
        wake_and_read(w, step);
    now = until;
    saves_and_waits(w, 0, step, tag);
    committed(w);
}

uint64_t train(struct walk *w, int64_t until, int64_t step_time)
{
    w->acts[0] = '\0';
    while (!strstr(w->acts, "gate")) {
        int64_t before = now;
        w->acts[0] = '\0';
        wake(w);
        cr_assert_leq(now, until, "there is no other save: %s", w->acts);
        steps[0] += (uint64_t)((now - before) / step_time);
        if (!strstr(w->acts, "gate"))
            steps_are_read(w);
    }
    return strtoull(strstr(w->acts, "gate") + 5, NULL, 10);
}

void leave(struct walk *w)
{
    w->acts[0] = '\0';
    closes(w, 0);
    ends(w, 0);
}

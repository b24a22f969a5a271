/* SPDX-License-Identifier: Apache-2.0
 * See restart.h.
 */
#include "core/common/restart.h"

#include "base/clock.h"
#include "base/str.h"
#include "core/common/verdict.h"

#include <signal.h>
#include <string.h>

/* A simple random generator is enough: it spreads restarts after a common failure. */
static uint64_t next_random(struct restart *r)
{
    r->random = r->random * UINT64_C(6364136223846793005) + UINT64_C(1442695040888963407);
    return r->random >> 33;
}

static void forget_old(struct restart *r, int64_t now)
{
    int old = 0;
    while (old < r->n && r->policy->window_ns > 0 && r->times[old] <= now - r->policy->window_ns)
        old++;
    r->n -= old;
    memmove(r->times, r->times + old, (size_t)r->n * sizeof r->times[0]);
}

/* The first restart has no pause: most failures come from the machine, and are over. */
static int64_t pause_before(struct restart *r, int before)
{
    const struct restart_policy *p = r->policy;
    int64_t pause = before > 0 ? p->backoff_ns : 0;
    for (int i = 1; i < before && pause < p->backoff_max_ns; i++)
        pause = 2 * pause;
    pause = clock_min(pause, p->backoff_max_ns);
    return pause - (pause > 0 ? (int64_t)(next_random(r) % (uint64_t)(pause / 4 + 1)) : 0);
}

/* --- the same failure twice --- */

static const char *after_number(const char *text)
{
    bool is_hex = str_starts(text, "0x");
    return text + (is_hex ? 2 + strspn(text + 2, STR_DIGITS "abcdef") : strspn(text, STR_DIGITS));
}

/* Numbers do not count: they are process ids, addresses or losses. */
static bool is_same_text(const char *a, const char *b)
{
    for (;; a++, b++) {
        a = after_number(a);
        b = after_number(b);
        if (*a != *b)
            return false;
        if (!*a)
            return true;
    }
}

/* The program fails by itself in its training, at a step that is known. A person or the kernel's
 * OOM killer sends SIGKILL; a shell then exits with its number. A start may fail because of its
 * environment, and has a budget of its own. */
static bool is_in_training(const struct restart_failure *f)
{
    uint8_t fault = f->cause->fault;
    bool is_own = fault == FAULT_EXIT || fault == FAULT_SIGNAL || fault == FAULT_SILENT;
    return is_own && f->cause->code != EXIT_BY_SIGNAL + SIGKILL && f->has_ranks && !f->is_start;
}

/* Ranks may differ: if all ranks fail at a step, any of them is the first. */
static bool came_before(const struct restart *r, const struct restart_failure *f)
{
    return is_in_training(f) && r->last.fault == f->cause->fault &&
           r->last.code == f->cause->code && r->last_step == f->step &&
           r->last_commit == f->commit_step && is_same_text(r->last.text, f->cause->text);
}

void restart_note(struct restart *r, const struct restart_failure *f)
{
    if (!is_in_training(f))
        return;
    r->last = *f->cause;
    r->last_step = f->step;
    r->last_commit = f->commit_step;
}

/* --- whether --- */

bool restart_is_final(const struct restart *r, const struct restart_failure *f, char *text,
                      size_t size)
{
    text[0] = '\0';
    if (f->code >= 0 && f->code < 256 && r->policy->is_fatal[f->code])
        str_addf(text, size, "%d is one of restart.fatal_codes", f->code);
    else if (f->repeats[0])
        str_addf(text, size, "%s repeats at each start", f->repeats);
    else if (came_before(r, f))
        str_addf(text, size,
                 "the same failure came twice at step %llu, with no commit between; a restart "
                 "cannot mend it",
                 ull(f->step));
    return text[0];
}

/* True: `text` says what forbids the restart. */
static bool is_forbidden(const struct restart *r, const struct restart_failure *f, char *text,
                         size_t size)
{
    const struct restart_policy *p = r->policy;
    if (p->no_progress > 0 && f->has_ranks && r->stale >= p->no_progress)
        str_addf(text, size,
                 "%d generations in a row brought no commit (restart.no_progress_after)", r->stale);
    else if (f->is_start && r->starts > p->start_max)
        str_addf(text, size, "it has failed at its start %d times in a row (restart.start_max)",
                 r->starts);
    else if (!f->is_start && r->n >= p->max)
        str_addf(text, size, "the %d restart%s of restart.max %s spent", p->max,
                 p->max == 1 ? "" : "s", p->max == 1 ? "is" : "are");
    return text[0];
}

int restart_stale(const struct restart *r, bool has_commit)
{
    return has_commit ? 0 : r->stale + 1;
}

bool restart_allows(struct restart *r, const struct restart_failure *f, int64_t *ret_pause,
                    char *text, size_t size)
{
    text[0] = '\0';
    if (r->policy->max == 0)
        return false;
    forget_old(r, f->now);
    r->starts = f->is_start ? r->starts + 1 : 0;
    r->stale = restart_stale(r, f->has_commit);
    if (is_forbidden(r, f, text, size))
        return false;
    *ret_pause = pause_before(r, f->is_start ? r->starts - 1 : r->n);
    if (f->is_start)
        str_addf(text, size, "%d of %d after a failure at the start", r->starts,
                 r->policy->start_max);
    else
        str_addf(text, size, "%d of %d", r->n + 1, r->policy->max);
    if (!f->is_start)
        r->times[r->n++] = f->now;
    return true;
}

/* SPDX-License-Identifier: Apache-2.0
 * See grace.h.
 */
#include "core/common/grace.h"

#include "base/clock.h"
#include "base/sigtext.h"
#include "base/str.h"

#include <string.h>

/* A source that counts down may be inexact by this much. */
#define SAME_DEADLINE_NS NS_PER_S

/* --- the change that all notices together make --- */

const struct grace_notice *grace_first(const struct grace *grace)
{
    return &grace->notices[grace->first];
}

int64_t grace_deadline(const struct grace *grace)
{
    return grace->is_live ? grace->deadline : CLOCK_NEVER;
}

static bool ends_run(const struct grace_notice *n)
{
    return n->type == NOTICE_TERMINATE && !n->is_served && !n->is_repeated;
}

static int earliest(const struct grace *grace)
{
    int first = -1;
    for (int i = 0; i < grace->n; i++) {
        const struct grace_notice *n = &grace->notices[i];
        if (ends_run(n) && (first < 0 || n->deadline < grace->notices[first].deadline))
            first = i;
    }
    return first;
}

static enum grace_change conclude(struct grace *grace, int64_t now)
{
    int64_t before = grace_deadline(grace);
    bool was_live = grace->is_live;
    grace->first = earliest(grace);
    grace->is_live = grace->first >= 0;
    grace->deadline = grace->is_live ? grace_first(grace)->deadline : CLOCK_NEVER;
    if (grace->deadline == before)
        return GRACE_SAME;
    grace->version++;
    if (!was_live)
        grace->at = now;
    if (!grace->is_live) {
        grace->hurry = HURRY_NONE;
        return GRACE_OVER;
    }
    if (!was_live)
        return GRACE_NEW;
    return grace->deadline < before ? GRACE_SOONER : GRACE_LATER;
}

bool grace_has_signal(const struct grace *grace)
{
    for (int i = 0; i < grace->n; i++)
        if (grace->notices[i].signal)
            return true;
    return false;
}

/* --- the list --- */

static struct grace_notice *find(struct grace *grace, const char *source, const char *id)
{
    for (int i = 0; i < grace->n; i++)
        if (str_is(grace->notices[i].label.source, source) &&
            str_is(grace->notices[i].label.id, id))
            return &grace->notices[i];
    return NULL;
}

static void take_out(struct grace *grace, struct grace_notice *n)
{
    grace->n--;
    memmove(n, n + 1, (size_t)(&grace->notices[grace->n] - n) * sizeof *n);
}

/* A notice that ends the run matters more, then a signal, then the earlier deadline. A signal is
 * not sent again, so it must not be dropped. */
static bool matters_more(const struct grace_notice *a, const struct grace_notice *b)
{
    if (ends_run(a) != ends_run(b))
        return ends_run(a);
    if (!a->signal != !b->signal)
        return a->signal;
    return a->deadline < b->deadline;
}

/* The notice that matters least; the oldest of them if several matter equally little. */
static struct grace_notice *least(struct grace *grace)
{
    struct grace_notice *least = &grace->notices[0];
    for (int i = 1; i < grace->n; i++)
        if (matters_more(least, &grace->notices[i]))
            least = &grace->notices[i];
    return least;
}

/* NULL: the list is full, and all its notices matter more. */
static struct grace_notice *add(struct grace *grace, const struct grace_notice *notice)
{
    if (grace->n == GRACE_NOTICES_MAX) {
        struct grace_notice *out = least(grace);
        if (ends_run(out) && !matters_more(notice, out))
            return NULL;
        take_out(grace, out);
    }
    struct grace_notice *n = &grace->notices[grace->n++];
    *n = *notice;
    return n;
}

/* --- signals --- */

static enum grace_change add_signal(struct grace *grace, int signal, int64_t now,
                                    struct grace_left left, const char *text)
{
    struct grace_notice n = {.type = NOTICE_TERMINATE,
                             .signal = signal,
                             .at = now,
                             .last_at = now,
                             .deadline = now + left.ns,
                             .is_guess = left.is_guess,
                             .lead = left.ns};
    sigtext(signal, n.label.source);
    str_copy(n.label.text, sizeof n.label.text, text);
    add(grace, &n);
    return conclude(grace, now);
}

/* Another signal leaves less time, so a repeat of this one does not make the save more urgent. */
static bool is_outdone(const struct grace *grace, const struct grace_notice *known)
{
    for (int i = 0; i < grace->n; i++)
        if (grace->notices[i].signal && grace->notices[i].deadline < known->deadline)
            return true;
    return false;
}

enum grace_change grace_signal(struct grace *grace, int signal, int64_t now, struct grace_left left)
{
    struct grace_notice *known = find(grace, SIGTEXT(signal), "");
    if (!known)
        return add_signal(grace, signal, now, left, "");
    if (now - known->last_at <= GRACE_SAME_NS)
        return GRACE_SAME;
    known->last_at = now;
    if (is_outdone(grace, known) || grace->hurry == HURRY_STOP)
        return GRACE_SAME;
    grace->hurry++;
    return GRACE_HURRIED;
}

enum grace_change grace_shield(struct grace *grace, int signal, int64_t now, struct grace_left left)
{
    if (grace->is_live)
        return GRACE_SAME;
    return add_signal(grace, signal, now, left, "sent to a training process");
}

/* --- sources --- */

static enum grace_change cancel(struct grace *grace, const struct notice *notice, int64_t now)
{
    for (int i = grace->n - 1; i >= 0; i--) {
        struct grace_notice *n = &grace->notices[i];
        if (!n->signal && str_is(n->label.source, notice->source) &&
            (!notice->id[0] || str_is(n->label.id, notice->id)))
            take_out(grace, n);
    }
    return conclude(grace, now);
}

/* A deadline in the past gives no time, so it counts like an unknown one. */
static struct grace_left left_of(const struct notice *notice, struct grace_left unknown)
{
    bool is_named = notice->left_ns != NOTICE_LEFT_UNKNOWN && notice->left_ns > 0;
    return is_named ? (struct grace_left){grace_clamp(notice->left_ns), notice->is_guess} : unknown;
}

/* A repeated notice counts only if it leaves less time than before. A source that says "30 seconds"
 * each second means the 30 seconds of its first notice. */
static bool is_said_again(const struct grace_notice *known, const struct grace_notice *now)
{
    if (known->type != now->type)
        return false;
    return known->deadline == CLOCK_NEVER || now->deadline > known->deadline - SAME_DEADLINE_NS;
}

enum grace_change grace_notice(struct grace *grace, const struct notice *notice, int64_t now,
                               struct grace_left left)
{
    if (notice->type == NOTICE_CANCEL)
        return cancel(grace, notice, now);
    struct grace_left own = left_of(notice, left);
    bool ends = notice->type == NOTICE_TERMINATE;
    struct grace_notice n = {.type = notice->type,
                             .at = now,
                             .deadline = ends ? now + own.ns : CLOCK_NEVER,
                             .is_guess = own.is_guess,
                             .is_repeated = notice->is_repeated,
                             .lead = left.ns};
    str_copy(n.label.source, sizeof n.label.source, notice->source);
    str_copy(n.label.id, sizeof n.label.id, notice->id);
    str_copy(n.label.text, sizeof n.label.text, notice->text);
    struct grace_notice *known = find(grace, notice->source, notice->id);
    bool says_when = notice->left_ns != NOTICE_LEFT_UNKNOWN;
    if (known && (is_said_again(known, &n) || (known->type == n.type && !says_when)))
        return GRACE_SAME;
    if (known) {
        n.at = known->at;
        take_out(grace, known);
    }
    bool is_advice = add(grace, &n) && !ends_run(&n);
    enum grace_change change = conclude(grace, now);
    if (change != GRACE_SAME || !is_advice)
        return change;
    return n.is_repeated ? GRACE_PLAN : GRACE_ADVICE;
}

void grace_serve(struct grace *grace, int64_t now)
{
    for (int i = grace->n - 1; i >= 0; i--) {
        struct grace_notice *n = &grace->notices[i];
        if (n->deadline > now)
            continue;
        n->is_served = true;
        if (n->signal)
            take_out(grace, n);
    }
    conclude(grace, now);
}

/* --- repeated notices --- */

/* The save begins `grace` before the deadline, but not before half of the time. It begins earlier
 * if saves take long. */
static int64_t save_at(const struct grace_notice *n, int64_t save_ns)
{
    int64_t left = n->deadline - n->at;
    int64_t early = clock_min(n->lead, left / 2);
    early = 2 * save_ns > early ? 2 * save_ns : early;
    return n->deadline - clock_min(early, left);
}

int64_t grace_save_at(const struct grace *grace, int64_t save_ns)
{
    int64_t at = CLOCK_NEVER;
    for (int i = 0; i < grace->n; i++)
        if (grace->notices[i].is_repeated && !grace->notices[i].is_saved)
            at = clock_min(at, save_at(&grace->notices[i], save_ns));
    return at;
}

void grace_saved(struct grace *grace, int64_t save_ns, int64_t now)
{
    for (int i = 0; i < grace->n; i++)
        if (grace->notices[i].is_repeated && save_at(&grace->notices[i], save_ns) <= now)
            grace->notices[i].is_saved = true;
}

/* --- times --- */

int64_t grace_clamp(int64_t left_ns)
{
    if (left_ns > GRACE_MAX_NS)
        return GRACE_MAX_NS;
    return left_ns < -GRACE_MAX_NS ? -GRACE_MAX_NS : left_ns;
}

int64_t grace_near_at(int64_t deadline, int64_t lead, int64_t grace_ns)
{
    return deadline - (lead > grace_ns ? lead : grace_ns);
}

int64_t grace_plan_need(int64_t grace_ns, int64_t start_ns, int64_t save_ns)
{
    return start_ns && save_ns ? clock_min(grace_ns, 3 * (start_ns + save_ns)) : grace_ns;
}

int64_t grace_margin(int64_t left_ns)
{
    int64_t margin = left_ns / 16;
    if (margin > 3 * NS_PER_S)
        margin = 3 * NS_PER_S;
    return margin > 0 ? margin : 0;
}

int64_t grace_least_margin(int64_t left_ns)
{
    return clock_min(grace_margin(left_ns), NS_PER_S / 4);
}

int64_t grace_reserve(int64_t left_ns)
{
    int64_t part = clock_min(left_ns / 40, 3 * NS_PER_S / 2), half = NS_PER_S / 2;
    return clock_min(grace_margin(left_ns), part > half ? part : half);
}

int64_t grace_end_need(int64_t end_ns)
{
    return end_ns + end_ns / 7;
}

int64_t grace_save_need(int64_t slow_ns, int64_t quick_ns)
{
    int64_t slow = slow_ns + slow_ns / 4, quick = quick_ns + quick_ns / 2;
    return slow > quick ? slow : quick;
}

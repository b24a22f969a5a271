/* SPDX-License-Identifier: Apache-2.0
 * See cause.h.
 */
#include "core/common/cause.h"

#include "base/clock.h"
#include "base/str.h"
#include "core/common/verdict.h"

#include <signal.h>
#include <stddef.h>
#include <stdio.h>
#include <string.h>

/* When a process crashes, its connections end at once, and other processes exit for that reason.
 * pchrun may see those exits earlier than the crash, by up to this time. */
#define CRASH_LAG_NS (50 * NS_PER_MS)

/* A clock whose error is larger is compared as if it had this error. */
#define ERROR_MOST_NS NS_PER_S

/* SIGABRT and SIGTERM are no crash: many programs die of them because another process failed. */
static bool is_crash(unsigned fault, int code)
{
    static const int signals[] = {SIGSEGV, SIGBUS, SIGILL, SIGFPE, SIGSYS, SIGKILL};
    for (size_t i = 0; i < ARRAY_LEN(signals); i++)
        if (fault == FAULT_SIGNAL && code == EXIT_BY_SIGNAL + signals[i])
            return true;
    return false;
}

#define UNFIT_BEFORE " is not healthy: "
#define UNFIT_AFTER  "; start the job without this host, until it is repaired"

void cause_say_unfit(char *text, size_t size, const char *host, const char *illness)
{
    snprintf(text, size, "%s" UNFIT_BEFORE "%.*s" UNFIT_AFTER, host, CAUSE_ILLNESS_MAX - 1,
             illness);
}

char *cause_illness(const struct peer_cause *cause, char ret[CAUSE_ILLNESS_MAX])
{
    const char *begin = strstr(cause->text, UNFIT_BEFORE);
    begin = begin ? begin + strlen(UNFIT_BEFORE) : cause->text;
    const char *end = strstr(begin, UNFIT_AFTER);
    snprintf(ret, CAUSE_ILLNESS_MAX, "%.*s", end ? (int)(end - begin) : CAUSE_ILLNESS_MAX - 1,
             begin);
    return ret;
}

const char *cause_kind(unsigned fault)
{
    static const char *const kinds[] = {
        [FAULT_NONE] = "none",         [FAULT_EXIT] = "exit",       [FAULT_SIGNAL] = "signal",
        [FAULT_START] = "start",       [FAULT_RANKS] = "ranks",     [FAULT_SILENT] = "silent",
        [FAULT_REPLACED] = "replaced", [FAULT_LOST] = "lost",       [FAULT_STOPPED] = "stopped",
        [FAULT_BROKEN] = "broken",     [FAULT_GAVE_UP] = "gave_up", [FAULT_UNFIT] = "unhealthy"};
    return fault < ARRAY_LEN(kinds) ? kinds[fault] : "unknown";
}

int64_t cause_counts_from(unsigned fault, int code, int64_t at)
{
    return is_crash(fault, code) ? at - CRASH_LAG_NS : at;
}

static bool is_one(const struct peer_cause *a, const struct peer_cause *b)
{
    return a->fault == b->fault && a->node == b->node && a->rank == b->rank && a->pid == b->pid &&
           a->code == b->code && a->wall_ns == b->wall_ns;
}

bool cause_is_same(const struct peer_cause *a, const struct peer_cause *b)
{
    return is_one(a, b) && str_is(a->host, b->host) && str_is(a->text, b->text) &&
           str_is(a->tail, b->tail);
}

/* A failure is at least as old as its node says, even if the clocks differ. If the clocks cannot be
 * compared, only that age is known. */
static int64_t time_of(const struct peer_cause *told, int64_t now)
{
    int64_t latest = told->ago_ns < now ? now - told->ago_ns : 0;
    return told->error_ns >= 0 && told->at_ns < latest ? told->at_ns : latest;
}

/* An unknown error_ns (-1) counts as the largest error. */
static bool is_more_exact(const struct peer_cause *a, const struct peer_cause *b)
{
    if (a->error_ns < 0 || b->error_ns < 0)
        return a->error_ns < 0 ? b->error_ns < 0 && a->at_ns < b->at_ns : b->error_ns < 0;
    return a->error_ns < b->error_ns;
}

static struct peer_cause *of_node(struct causes *causes, int32_t node)
{
    for (int i = 0; i < causes->n; i++)
        if (causes->list[i].node == node)
            return &causes->list[i];
    return NULL;
}

/* A scheduler may start a job again without an unhealthy node, but not a job that was stopped. */
static bool comes_before(const struct peer_cause *a, const struct peer_cause *b)
{
    if (cause_is_final(a->fault) && cause_is_final(b->fault) &&
        (a->fault == FAULT_UNFIT) != (b->fault == FAULT_UNFIT))
        return b->fault == FAULT_UNFIT;
    return a->at_ns < b->at_ns;
}

static bool is_of_crash(const struct peer_cause *cause)
{
    return is_crash(cause->fault, cause->code);
}

/* A new place, or the place of the last cause of its kind if `cause` comes before it; else NULL.
 * Crashes have places of their own, because causes_first() may choose one that is not the earliest.
 */
static struct peer_cause *place_for(struct causes *causes, const struct peer_cause *cause)
{
    struct peer_cause *last = NULL;
    int n = 0;
    for (int i = 0; i < causes->n; i++) {
        struct peer_cause *other = &causes->list[i];
        if (is_of_crash(other) != is_of_crash(cause))
            continue;
        n++;
        if (!last || comes_before(last, other))
            last = other;
    }
    if (n < CAUSES_MAX && causes->n < (int)ARRAY_LEN(causes->list))
        return &causes->list[causes->n++];
    return last && comes_before(cause, last) ? last : NULL;
}

void causes_take(struct causes *causes, int64_t now, const struct peer_cause *told)
{
    struct peer_cause cause = *told;
    cause.at_ns = time_of(told, now);
    struct peer_cause *known = of_node(causes, told->node);
    if (known && is_one(known, &cause) && !is_more_exact(&cause, known)) {
        cause.at_ns = known->at_ns;
        cause.error_ns = known->error_ns;
    }
    if (!known)
        known = place_for(causes, &cause);
    if (known)
        *known = cause;
}

/* An unknown error counts as none: at_ns then is the latest possible time. */
static int64_t largest_error(const struct peer_cause *cause)
{
    return cause->error_ns > 0 ? clock_min(cause->error_ns, ERROR_MOST_NS) : 0;
}

/* The clocks allow that the crash was before the other failure. */
static bool may_be_before(const struct peer_cause *crash, const struct peer_cause *other)
{
    return is_of_crash(crash) && cause_is_process(other->fault) &&
           crash->at_ns - largest_error(crash) <= other->at_ns + largest_error(other);
}

const struct peer_cause *causes_first(const struct causes *causes)
{
    const struct peer_cause *earliest = NULL, *crash = NULL;
    for (int i = 0; i < causes->n; i++)
        if (!earliest || comes_before(&causes->list[i], earliest))
            earliest = &causes->list[i];
    for (int i = 0; i < causes->n; i++)
        if (may_be_before(&causes->list[i], earliest) &&
            (!crash || comes_before(&causes->list[i], crash)))
            crash = &causes->list[i];
    return crash ? crash : earliest;
}

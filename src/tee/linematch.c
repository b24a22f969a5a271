/* SPDX-License-Identifier: Apache-2.0
 * See linematch.h. Read first: regcomp(3).
 */
#include "tee/linematch.h"

#include "base/str.h"

#include <string.h>

/* False: the group matched nothing, or no number up to LINEMATCH_STEP_MAX. */
static bool step_in(const char *text, const regmatch_t *group, uint64_t *ret)
{
    char digits[24];
    int64_t step;
    size_t len = group->rm_so < 0 ? 0 : (size_t)(group->rm_eo - group->rm_so);
    if (len == 0 || len >= sizeof digits)
        return false;
    memcpy(digits, text + group->rm_so, len);
    digits[len] = '\0';
    if (!str_is_of(digits, STR_DIGITS) ||
        !str_to_i64(digits, 0, (int64_t)LINEMATCH_STEP_MAX, &step))
        return false;
    *ret = (uint64_t)step;
    return true;
}

static bool match_step(struct linematch *match, int64_t now)
{
    const regex_t *rule = match->rules.step;
    regmatch_t groups[2];
    uint64_t step;
    if (!rule || regexec(rule, match->text, 2, groups, 0) != 0 ||
        !step_in(match->text, &groups[1], &step))
        return false;
    bool is_first = match->found->step_at == 0;
    match->found->step = step;
    match->found->step_at = now;
    return is_first;
}

static bool match_failure(struct linematch *match)
{
    const regex_t *rule = match->rules.failure;
    struct linematch_found *found = match->found;
    if (!rule || found->has_failed || regexec(rule, match->text, 0, NULL, 0) != 0)
        return false;
    str_fit(found->failure, sizeof found->failure, match->text);
    str_printable(found->failure);
    found->has_failed = true;
    return true;
}

static bool match_line(struct linematch *match, int64_t now)
{
    bool is_news = false;
    match->text[match->len] = '\0';
    if (match->len > 0) {
        is_news |= match_step(match, now);
        is_news |= match_failure(match);
    }
    match->len = 0;
    return is_news;
}

bool linematch_end(struct linematch *match, int64_t now)
{
    bool is_news = match_line(match, now);
    match->found->is_within = false;
    return is_news;
}

bool linematch_add(struct linematch *match, const char *bytes, size_t n, int64_t now)
{
    bool is_news = false;
    for (size_t done = 0, len; done < n; done += len + 1) {
        const char *part = bytes + done;
        for (len = 0; len < n - done && part[len] != '\n' && part[len] != '\r'; len++)
            ;
        size_t room = LINEMATCH_MAX - match->len, kept = len < room ? len : room;
        memcpy(match->text + match->len, part, kept);
        match->len += kept;
        if (len < n - done)
            is_news |= match_line(match, now);
    }
    match->found->is_within = match->len > 0;
    return is_news;
}

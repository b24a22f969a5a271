/* SPDX-License-Identifier: Apache-2.0
 * See tally.h.
 */
#include "ctl/tally.h"

#include "base/clock.h"

#include <inttypes.h>
#include <stdio.h>

int64_t tally_step(const struct json *rank)
{
    int64_t step = json_int_at(rank, "step", 0);
    return step > 0 ? step : 0;
}

bool tally_phase(const struct json *rank, enum page_phase *ret)
{
    for (*ret = PAGE_START; *ret < PAGE_PHASES; (*ret)++)
        if (json_is_at(rank, "phase", page_phase_name(*ret)))
            return true;
    return false;
}

static void tally_attached(struct tally *tally, const struct json *rank)
{
    double age = json_real_at(rank, "step_age", -1);
    enum page_phase phase;
    tally->attached++;
    if (tally_phase(rank, &phase))
        tally->in_phase[phase]++;
    if (age >= 0 && (tally->youngest < 0 || age < tally->youngest))
        tally->youngest = age;
}

void tally_take(const struct json *answer, struct tally *ret)
{
    int64_t save_step = json_int_at(answer, "report.round.save_step", INT64_MAX);
    double paces = 0;
    int n = 0;
    *ret = (struct tally){.youngest = -1};
    for (const struct json *rank = json_items_at(answer, "ranks"); rank; rank = json_next(rank)) {
        int64_t step = tally_step(rank);
        double pace = json_real_at(rank, "steps_per_second", 0);
        ret->ranks++;
        ret->at_top = step > ret->top ? 1 : ret->at_top + (step == ret->top);
        ret->top = step > ret->top ? step : ret->top;
        bool has_saved = json_int_at(rank, "saved_step", 0) >= save_step;
        ret->saved += has_saved;
        ret->come += has_saved || step >= save_step;
        if (json_bool_at(rank, "done"))
            ret->done++;
        else if (json_bool_at(rank, "attached"))
            tally_attached(ret, rank);
        else
            ret->starting += json_is_at(rank, "state", "starting");
        if (pace > 0) {
            paces += pace;
            n++;
        }
    }
    int64_t written = json_int_at(answer, "ledger.step", 0);
    ret->at_top = written > ret->top ? 0 : ret->at_top;
    ret->top = written > ret->top ? written : ret->top;
    ret->pace = n > 0 ? paces / n : 0;
}

static bool has_no_connection(const struct json *node)
{
    bool is_connected = true;
    return json_bool(json_find(node, "connected"), &is_connected) && !is_connected;
}

bool tally_is_cut(const struct json *node)
{
    return has_no_connection(node) && !json_is_at(node, "state", "missing") &&
           !json_is_at(node, "state", "gone");
}

const char *tally_why_unknown(const struct json *node)
{
    return has_no_connection(node) ? "" : json_text_at(node, "ranks_unknown_why");
}

bool tally_is_saving(const struct json *answer)
{
    return json_is_at(answer, "report.round.phase", "decided");
}

static int64_t tally_span(const char *from, const char *to)
{
    int64_t from_ns, to_ns;
    return date_parse(from, &from_ns) && date_parse(to, &to_ns) ? to_ns - from_ns : INT64_MIN;
}

int64_t tally_between(const struct json *answer, const char *from, const char *to)
{
    return tally_span(json_text_at(answer, from), json_text_at(answer, to));
}

int64_t tally_since(const struct json *answer, const struct json *item)
{
    return tally_span(json_text_at(item, "since"), json_text_at(answer, "now"));
}

int tally_more_vacant(const struct json *answer)
{
    int64_t more = json_int_at(answer, "report.waits_for.more", 0);
    return more > 0 && more < INT32_MAX / 2 ? (int)more : 0; /* a file may have any number */
}

int64_t tally_time(const struct json *answer, const char *path)
{
    int64_t ms = json_int_at(answer, path, 0);
    return ms > 0 && ms < INT64_MAX / NS_PER_MS ? ms * NS_PER_MS : 0;
}

bool tally_is_over(const struct json *answer)
{
    return json_is_at(answer, "report.state", "done") || json_bool_at(answer, "gone");
}

const char *tally_host(const struct json *answer, int64_t node)
{
    for (const struct json *item = json_items_at(answer, "nodes"); item; item = json_next(item))
        if (json_int_at(item, "node_rank", -1) == node)
            return json_text_at(item, "host");
    return json_int_at(answer, "report.node_rank", -1) == node ? json_text_at(answer, "host") : "";
}

char *tally_number(int64_t number, char text[TALLY_NUMBER_SIZE])
{
    char digits[TALLY_NUMBER_SIZE];
    size_t len =
        (size_t)snprintf(digits, sizeof digits, "%" PRIu64, number < 0 ? 0 : (uint64_t)number);
    size_t out = 0;
    for (size_t i = 0; i < len; i++) {
        if (i > 0 && (len - i) % 3 == 0)
            text[out++] = ',';
        text[out++] = digits[i];
    }
    text[out] = '\0';
    return text;
}

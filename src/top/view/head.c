/* SPDX-License-Identifier: Apache-2.0
 * See head.h.
 */
#include "top/view/head.h"

#include "base/clock.h"
#include "base/str.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

/* Lines of one paragraph, of what a failed process said, and of ranks that are waited for. */
enum { PARAGRAPH_MAX = 3, OUTPUT_MAX = 8, WAITS_SHOWN_MAX = 3 };
/* With fewer lines for the head, paragraphs and lists are shorter. */
enum { ROOMY = 16, CROWDED = 5 };
/* The words that tell what a rank does. */
enum { KINDS_MAX = 12 };

/* --- the gist --- */

/* "1,000 training, 24 evaluating": how many ranks do what. */
static void gist_count(const struct json *answer, char text[WORDS_MAX])
{
    char number[TALLY_NUMBER_SIZE];
    const char *words[KINDS_MAX];
    int counts[KINDS_MAX] = {0}, n = 0;
    const struct json *rank = json_items_at(answer, "ranks");
    for (; rank; rank = json_next(rank)) {
        const char *word = words_rank(rank);
        int i = 0;
        while (i < n && !str_is(words[i], word))
            i++;
        if (i == n && n < KINDS_MAX)
            words[n++] = word;
        if (i < n)
            counts[i]++;
    }
    for (int i = 0; i < n; i++)
        str_addf(text, WORDS_MAX, "%s%s %s", i ? ", " : "", tally_number(counts[i], number),
                 *words[i] ? words[i] : "unknown");
}

void gist_take(const struct json *answer, struct gist *ret)
{
    *ret = (struct gist){0};
    tally_take(answer, &ret->tally);
    waits_find(answer, &ret->tally, &ret->waits);
    gist_count(answer, ret->ranks);
}

/* --- what the lines say --- */

static void head_add_state(struct prose *head, const struct picture *picture,
                           const struct tally *tally)
{
    char text[WORDS_MAX];
    int most = head->most < CROWDED && !picture->end ? PARAGRAPH_MAX - 1 : PARAGRAPH_MAX;
    if (picture->end)
        prose_add(head, STYLE_BOLD, "", picture->end, most);
    else if (picture->answer)
        prose_add(head, STYLE_BOLD, "", words_say(picture->answer, tally, text), most);
    else if (!picture->lost_why)
        prose_add(head, STYLE_PLAIN, "", "pchctl has asked pchrun, and waits for the answer.", 1);
}

static void head_add_contact(struct prose *head, const struct picture *picture)
{
    char text[WORDS_MAX], lost[24], age[24];
    if (!picture->lost_why || picture->end)
        return;
    snprintf(text, sizeof text, "no contact for %s",
             str_about(picture->lost_ns - picture->lost_ns % NS_PER_S, lost, sizeof lost));
    if (picture->answer)
        str_addf(text, sizeof text, ", this picture is %s old",
                 str_about(picture->age_ns - picture->age_ns % NS_PER_S, age, sizeof age));
    str_addf(text, sizeof text, ": %s", picture->lost_why);
    prose_add(head, STYLE_BAD, "", text, PARAGRAPH_MAX);
}

static void head_add_notice(struct prose *head, const struct picture *picture,
                            const struct tally *tally)
{
    char text[WORDS_MAX], about[24];
    const struct json *answer = picture->answer;
    const char *said = json_text_at(answer, "report.notice.text");
    int64_t node = json_int_at(answer, "report.notice.node_rank", -1);
    int64_t left = tally_between(answer, "now", "report.notice.deadline");
    if (node < 0 || picture->end)
        return;
    snprintf(text, sizeof text, "%s on node %" PRId64 "%s%s; %s left.",
             json_text_at(answer, "report.notice.source"), node, *said ? ": " : "", said,
             left == INT64_MIN ? "any time" : str_about(left < 0 ? 0 : left, about, sizeof about));
    str_addf(text, sizeof text, " %s", words_then(answer, tally));
    prose_add(head, STYLE_WARN, "notice", text, PARAGRAPH_MAX);
}

static void head_add_waits(struct prose *head, const struct picture *picture,
                           const struct waits *waits)
{
    char text[sizeof waits->list[0].text + 32];
    int shown = head->most < ROOMY ? 1 : WAITS_SHOWN_MAX;
    shown = waits->n < shown ? waits->n : shown;
    int more = waits->n - shown + waits->more;
    bool is_over = picture->end || !json_is_at(picture->answer, "report.outcome", "unknown");
    for (int i = 0; i < shown && !is_over; i++) {
        str_copy(text, sizeof text, waits->list[i].text);
        if (i == shown - 1 && more > 0)
            str_addf(text, sizeof text, " (and %d more)", more);
        prose_add(head, STYLE_BAD, i == 0 ? "waiting" : " ", text, 2);
    }
}

static void head_add_spares(struct prose *head, const struct picture *picture)
{
    char text[WORDS_MAX];
    if (!picture->end && picture->answer && *words_spares(picture->answer, text))
        prose_add(head, STYLE_PLAIN, "spares", text, 1);
}

/* The last lines of what the failed process wrote. */
static void head_add_output(struct prose *head, const char *output)
{
    char line[PROSE_TEXT_MAX];
    const char *begins[OUTPUT_MAX] = {0};
    size_t len = strlen(output);
    int n = 0, most = head->most < ROOMY ? 2 : OUTPUT_MAX;
    while (len > 0 && output[len - 1] == '\n')
        len--;
    for (size_t end = len; n < most && end > 0;) {
        size_t begin = end;
        while (begin > 0 && output[begin - 1] != '\n')
            begin--;
        begins[n++] = output + begin;
        end = begin > 0 ? begin - 1 : 0;
    }
    while (n-- > 0) {
        size_t bytes = strcspn(begins[n], "\n");
        snprintf(line, sizeof line, "| %.*s", (int)bytes, begins[n]);
        prose_add(head, STYLE_DIM, " ", line, 1);
    }
}

static void head_add_cause(struct prose *head, const struct picture *picture)
{
    char text[WORDS_MAX];
    const struct json *cause = json_at(picture->answer, "report.first_cause");
    const char *host = json_text_at(cause, "host");
    int64_t node = json_int_at(cause, "node_rank", -1);
    /* A pchrun that ends at once may not have answered since the failure. After a restart in place
     * the job has none. */
    if (node < 0 && json_int_at(picture->failed, "generation", 0) >=
                        json_int_at(picture->answer, "report.generation", 0)) {
        cause = picture->failed;
        node = json_int_at(cause, "of_node", -1);
    }
    int64_t rank = json_int_at(cause, "rank", -1);
    if (node < 0)
        return;
    snprintf(text, sizeof text, "node %" PRId64 "%s%s%s", node, *host ? " (" : "", host,
             *host ? ")" : "");
    if (rank >= 0)
        str_addf(text, sizeof text, ", rank %" PRId64, rank);
    str_addf(text, sizeof text, ": %s", json_text_at(cause, "text"));
    prose_add(head, STYLE_BAD, "cause", text, PARAGRAPH_MAX);
    head_add_output(head, json_text_at(cause, "stderr"));
}

/* Names the ranks that the tables lack. */
static void head_add_gaps(struct prose *head, const struct json *answer)
{
    char text[WORDS_MAX];
    int unknown = 0;
    const struct json *first = NULL;
    if (json_is_at(answer, "ranks_of", "node")) {
        snprintf(text, sizeof text,
                 "This is one node's part of the job. pchctl on node 0 (%s) shows all.",
                 json_text_at(answer, "chief"));
        prose_add(head, STYLE_WARN, "", text, 2);
    }
    for (const struct json *node = json_items_at(answer, "nodes"); node; node = json_next(node)) {
        bool is_unknown = *tally_why_unknown(node);
        first = is_unknown && !first ? node : first;
        unknown += is_unknown;
    }
    if (!first)
        return;
    snprintf(text, sizeof text, "the ranks of node %" PRId64 ": %s",
             json_int_at(first, "node_rank", -1), tally_why_unknown(first));
    if (unknown > 1)
        str_addf(text, sizeof text, " (and of %d more nodes)", unknown - 1);
    prose_add(head, STYLE_WARN, "unknown", text, 1);
}

void head_build(struct prose *head, const struct picture *picture, const struct gist *gist)
{
    head->n = 0;
    head_add_state(head, picture, &gist->tally);
    head_add_contact(head, picture);
    head_add_notice(head, picture, &gist->tally);
    head_add_waits(head, picture, &gist->waits);
    head_add_spares(head, picture);
    head_add_cause(head, picture);
    if (gist->ranks[0] && !picture->end)
        prose_add(head, STYLE_PLAIN, "ranks", gist->ranks, 1);
    head_add_gaps(head, picture->answer);
}

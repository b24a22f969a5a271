/* SPDX-License-Identifier: Apache-2.0
 * See picture.h.
 */
#include "web/picture.h"

#include "base/clock.h"
#include "base/str.h"
#include "ctl/waits.h"
#include "ctl/words.h"

#include <stdlib.h>
#include <string.h>

/* --- letters --- */

struct letter {
    const char *word;
    char letter;
};

static const struct letter phases[] = {{"start", 's'},   {"train", 't'}, {"eval", 'e'},
                                       {"compile", 'c'}, {"save", 'v'},  {NULL, '?'}};
static const struct letter lives[] = {
    {"done", 'd'}, {"gone", 'g'}, {"starting", 'b'}, {"not attached", 'n'}, {NULL, '?'}};
static const struct letter nodes[] = {
    {"missing", 'm'}, {"waiting", 'w'}, {"running", 'r'}, {"ended", 'e'},    {"finished", 'f'},
    {"failed", 'x'},  {"gone", 'g'},    {"lost", 'l'},    {"checking", 'k'}, {NULL, '?'}};

static char letter_of(const struct letter *letters, const char *word)
{
    while (letters->word && !str_is(letters->word, word))
        letters++;
    return letters->letter;
}

static char rank_letter(const struct json *rank)
{
    if (json_is_at(rank, "state", "attached"))
        return letter_of(phases, json_text_at(rank, "phase"));
    return letter_of(lives, json_text_at(rank, "state"));
}

static char node_letter(const struct json *node)
{
    return letter_of(nodes, json_text_at(node, "state"));
}

/* A letter that says whether the node is connected, and whether it has a notice. */
static char link_letter(const struct json *node)
{
    static const char letters[] = {'-', 'N', 'c', 'n'};
    return letters[2 * json_bool_at(node, "connected") + json_bool_at(node, "notice")];
}

static void add_letters(struct writer *w, const char *key, const struct json *items,
                        char (*letter)(const struct json *))
{
    size_t n = 0;
    for (const struct json *item = items; item; item = json_next(item))
        n++;
    char *text = malloc(n + 1);
    if (!text) {
        w->has_failed = true;
        return;
    }
    n = 0;
    for (const struct json *item = items; item; item = json_next(item))
        text[n++] = letter(item);
    text[n] = '\0';
    writer_text(w, key, text);
    free(text);
}

/* --- columns --- */

static void add_numbers(struct writer *w, const char *key, const struct json *items,
                        const char *member)
{
    writer_list(w, key);
    for (; items; items = json_next(items))
        writer_int(w, NULL, json_int_at(items, member, -1));
    writer_end(w);
}

/* How many steps each rank is behind `top`. */
static void add_behind(struct writer *w, const struct json *ranks, int64_t top)
{
    writer_list(w, "behind");
    for (; ranks; ranks = json_next(ranks))
        writer_int(w, NULL, top - tally_step(ranks));
    writer_end(w);
}

/* Tenths of seconds; -1: unknown. */
static void add_tenths(struct writer *w, const char *key, const struct json *items,
                       const char *member)
{
    writer_list(w, key);
    for (; items; items = json_next(items)) {
        double seconds = json_real_at(items, member, -1);
        writer_int(w, NULL, seconds < 0 || seconds > 1e9 ? -1 : (int64_t)(seconds * 10 + 0.5));
    }
    writer_end(w);
}

/* --- the layout --- */

static void picture_add_cause(struct writer *w, const struct json *answer)
{
    const struct json *cause = json_at(answer, "report.first_cause");
    if (!writer_object_if(w, "cause", cause && json_kind(cause) == JSON_IS_OBJECT))
        return;
    writer_int(w, "node", json_int_at(cause, "node_rank", -1));
    writer_int(w, "rank", json_int_at(cause, "rank", -1));
    writer_text(w, "host", json_text_at(cause, "host"));
    writer_text(w, "at", json_text_at(cause, "at"));
    writer_text(w, "text", json_text_at(cause, "text"));
    writer_text(w, "output", json_text_at(cause, "stderr"));
    writer_end(w);
}

static void add_hosts(struct writer *w, const struct json *answer)
{
    const struct json *node = json_items_at(answer, "nodes");
    writer_list(w, "nodes");
    for (; node; node = json_next(node)) {
        writer_object(w, NULL);
        writer_int(w, "node", json_int_at(node, "node_rank", -1));
        writer_text(w, "host", json_text_at(node, "host"));
        writer_int(w, "expected", json_int_at(node, "ranks_expected", -1));
        writer_text(w, "why", json_text_at(node, "why"));
        writer_text(w, "unknown", tally_why_unknown(node));
        writer_end(w);
    }
    writer_end(w);
}

char *picture_done(struct writer *w, size_t *ret_len)
{
    size_t len;
    writer_end(w);
    const char *text = writer_done(w, &len);
    char *copy = text ? strndup(text, len - 1) : NULL;
    *ret_len = copy ? len - 1 : 0;
    writer_free(w);
    return copy;
}

char *picture_layout(const struct json *answer, size_t *ret_len)
{
    struct writer w;
    const struct json *ranks = json_items_at(answer, "ranks");
    writer_init(&w, PICTURE_MAX, WRITER_LINE);
    writer_object(&w, NULL);
    writer_text(&w, "job", json_text_at(answer, "report.job"));
    writer_int(&w, "attempt", json_int_at(answer, "report.attempt", 0));
    writer_int(&w, "generation", json_int_at(answer, "report.generation", 0));
    writer_int(&w, "node", json_int_at(answer, "report.node_rank", -1));
    writer_int(&w, "nnodes", json_int_at(answer, "report.nnodes", 0));
    writer_text(&w, "host", json_text_at(answer, "host"));
    writer_text(&w, "chief", json_text_at(answer, "chief"));
    writer_text(&w, "command", json_text_at(answer, "command"));
    writer_text(&w, "since", json_text_at(answer, "since"));
    writer_text(&w, "ranks_of", json_text_at(answer, "ranks_of"));
    add_numbers(&w, "rank", ranks, "rank");
    add_numbers(&w, "rank_node", ranks, "node_rank");
    add_hosts(&w, answer);
    picture_add_cause(&w, answer);
    return picture_done(&w, ret_len);
}

/* --- the state --- */

static void picture_add_notice(struct writer *w, const struct json *answer,
                               const struct tally *tally)
{
    const struct json *notice = json_at(answer, "report.notice");
    if (!writer_object_if(w, "notice", notice && json_kind(notice) == JSON_IS_OBJECT))
        return;
    int64_t left = tally_between(answer, "now", "report.notice.deadline");
    writer_text(w, "source", json_text_at(notice, "source"));
    writer_text(w, "text", json_text_at(notice, "text"));
    writer_int(w, "node", json_int_at(notice, "node_rank", -1));
    writer_int_if(w, "left_ms", left < 0 ? 0 : left / NS_PER_MS, left != INT64_MIN);
    writer_text(w, "follows", words_then(answer, tally));
    writer_end(w);
}

static void picture_add_waits(struct writer *w, const struct json *answer,
                              const struct tally *tally)
{
    struct waits waits;
    waits_find(answer, tally, &waits);
    writer_list(w, "waits");
    for (int i = 0; i < waits.n; i++) {
        writer_object(w, NULL);
        writer_int(w, "rank", waits.list[i].rank);
        writer_text(w, "text", waits.list[i].text);
        writer_end(w);
    }
    writer_end(w);
    writer_int(w, "more_waits", waits.more);
}

static void add_rank_columns(struct writer *w, const struct json *ranks, int64_t top)
{
    writer_object(w, "ranks");
    add_behind(w, ranks, top);
    add_tenths(w, "age", ranks, "step_age");
    add_letters(w, "phase", ranks, rank_letter);
    writer_end(w);
}

static void add_node_columns(struct writer *w, const struct json *items)
{
    writer_object(w, "nodes");
    add_letters(w, "state", items, node_letter);
    add_letters(w, "link", items, link_letter);
    add_numbers(w, "attached", items, "ranks_attached");
    add_tenths(w, "heard", items, "heard_age");
    writer_end(w);
}

char *picture_state(const struct json *answer, size_t *ret_len)
{
    struct writer w;
    struct tally tally;
    char says[WORDS_MAX], spares[WORDS_MAX];
    tally_take(answer, &tally);
    writer_init(&w, PICTURE_MAX, WRITER_LINE);
    writer_object(&w, NULL);
    writer_text(&w, "at", json_text_at(answer, "now"));
    writer_text(&w, "state", words_state(answer, &tally));
    writer_text(&w, "says", words_say(answer, &tally, says));
    writer_text(&w, "spares", words_spares(answer, spares));
    writer_int(&w, "top", tally.top);
    writer_real(&w, "pace", tally.pace);
    writer_int(&w, "commit", json_int_at(answer, "report.commit.step", -1));
    picture_add_notice(&w, answer, &tally);
    picture_add_waits(&w, answer, &tally);
    add_rank_columns(&w, json_items_at(answer, "ranks"), tally.top);
    add_node_columns(&w, json_items_at(answer, "nodes"));
    return picture_done(&w, ret_len);
}

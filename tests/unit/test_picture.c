/* SPDX-License-Identifier: Apache-2.0
 *
 * picture: what the page gets of a supervisor's answer: the sentence, what the job waits for, and
 * the columns of ranks and nodes, with the bound of their size.
 */
#include "web/picture.h"

#include "base/str.h"
#include "web/waits.h"
#include "web/words.h"

#include "unit.h"

#include <stdio.h>
#include <stdlib.h>

#define NOW "\"now\":\"2026-11-29T06:10:00.000Z\""
#define RUNNING                                                                           \
    "\"report\":{\"job\":\"run7\",\"node_rank\":0,\"nnodes\":2,\"state\":\"running\","    \
    "\"outcome\":\"unknown\",\"save_every_ms\":600000,\"commit\":{\"step\":48000,\"at\":" \
    "\"2026-11-29T06:05:50.000Z\"}}"
#define RANK(n, state, phase, step, age)                                                         \
    "{\"rank\":" n ",\"node_rank\":1,\"state\":\"" state "\",\"attached\":" IS_##phase           \
        ",\"phase\":\"" #phase "\",\"step\":" step ",\"steps_per_second\":3.1,\"step_age\":" age \
        ",\"saved_step\":48000}"
#define IS_train "true"
#define IS_eval  "true"
#define IS_none  "false"
#define NODE(n, state, connected)                                                               \
    "{\"node_rank\":" n ",\"host\":\"h" n "\",\"state\":\"" state "\",\"connected\":" connected \
    ",\"notice\":false,\"ranks_attached\":2,\"ranks_expected\":2,\"lowest_step\":48209,"        \
    "\"heard_age\":12.3}"
#define BOTH_NODES "\"nodes\":[" NODE("0", "running", "true") "," NODE("1", "running", "true") "]"

static struct json *parse(const char *text)
{
    struct err err;
    struct json *root = json_read("answer", text, strlen(text), &err);
    cr_assert(root, "%s in %s", err.text, text);
    return root;
}

/* --- the sentence --- */

static const struct {
    const char *answer, *says;
} sentences[] = {
    {"{" NOW "," RUNNING ",\"ranks\":[" RANK("0", "attached", train, "48210", "0.1") "]}",
     "training at step 48,210, 3.1 steps/s, last commit 4 min ago, next save in 5 min"},
    {"{" NOW "," RUNNING ",\"ranks\":[" RANK("0", "attached", train, "48210", "0.1") "," RANK(
         "1", "attached", eval, "48210", "0.1") "," RANK("2", "attached", eval, "48210",
                                                         "0.1") "]}",
     "evaluating at step 48,210, 3.1 steps/s, last commit 4 min ago, next save in 5 min"},
    {"{" NOW "," RUNNING ",\"ranks\":[]}",
     "not attached: the command runs, and no rank has attached so far"},
    {"{\"report\":{\"state\":\"running\",\"outcome\":\"unknown\"},\"ranks\":[{\"attached\":true,"
     "\"phase\":\"start\",\"step\":0}]}",
     "starting, no commit so far"},
    {"{\"report\":{\"state\":\"running\",\"outcome\":\"unknown\"},\"ranks\":[{\"done\":true}]}",
     "finishing: 1 of 1 ranks are done"},
    {"{\"report\":{\"state\":\"waiting\",\"outcome\":\"unknown\"},\"nodes\":[" NODE(
         "0", "waiting", "true") "," NODE("1", "missing", "false") "]}",
     "starting: 1 of 2 nodes have joined"},
    {"{\"report\":{\"state\":\"restarting\",\"generation\":2,\"outcome\":\"unknown\"}}",
     "restarting in place, generation 2"},
    {"{\"report\":{\"state\":\"saving\",\"outcome\":\"unknown\",\"round\":{\"phase\":\"decided\","
     "\"save_step\":48211}},\"ranks\":[{\"saved_step\":48211},{\"saved_step\":48000}]}",
     "saving step 48,211: 1 of 2 ranks have saved"},
    {"{\"report\":{\"state\":\"stopping\",\"outcome\":\"preempted\",\"exit_code\":42,\"why\":"
     "\"a notice\"}}",
     "ending: preempted, exit code 42: a notice"},
    {"{\"report\":{\"state\":\"done\",\"outcome\":\"completed\",\"exit_code\":0,\"why\":\"all "
     "commands ended\"}}",
     "ended: completed, exit code 0: all commands ended"},
    {"{}", "not attached: the command runs, and no rank has attached so far"},
};

Test(words, say_the_state)
{
    for (size_t i = 0; i < ARRAY_LEN(sentences); i++) {
        JSON_CLEANUP struct json *answer = parse(sentences[i].answer);
        struct tally tally;
        char text[WORDS_MAX];
        tally_take(answer, &tally);
        cr_expect_str_eq(words_say(answer, &tally, text), sentences[i].says);
    }
}

Test(words, group_digits)
{
    static const struct {
        int64_t number;
        const char *text;
    } numbers[] = {
        {0, "0"},          {999, "999"},           {1000, "1,000"},
        {48210, "48,210"}, {1234567, "1,234,567"}, {INT64_MAX, "9,223,372,036,854,775,807"}};
    char text[TALLY_NUMBER_SIZE];
    for (size_t i = 0; i < ARRAY_LEN(numbers); i++)
        cr_expect_str_eq(tally_number(numbers[i].number, text), numbers[i].text);
}

/* --- what it waits for --- */

static const struct {
    const char *answer, *texts; /* each text with a newline */
    int more;
} waiting[] = {
    {"{" RUNNING "," BOTH_NODES
     ",\"ranks\":[" RANK("0", "attached", train, "48210", "0.1") "," RANK("1", "attached", train,
                                                                          "48209", "0.3") "]}",
     "", 0},
    {"{" RUNNING "," BOTH_NODES
     ",\"ranks\":[" RANK("0", "attached", train, "48210", "0.1") "," RANK(
         "5", "attached", eval, "48208", "40.2") "," RANK("3", "attached", train, "48209",
                                                          "39") "]}",
     "rank 5 on h1: step 48,208, 2 behind, last step 40.2 s ago, in eval\n"
     "rank 3 on h1: step 48,209, 1 behind, last step 39 s ago, in train\n",
     0},
    {"{" RUNNING ",\"nodes\":[" NODE("0", "running", "true") "," NODE("1", "running", "false") "]}",
     "node 1 (h1) has no connection; last heard 12.3 s ago\n", 0},
    {"{" RUNNING ",\"nodes\":[" NODE("0", "waiting", "true") "," NODE("1", "missing", "false") "]}",
     "node 1 (h1) has not joined\n", 0},
    {"{" RUNNING "," BOTH_NODES ",\"ranks\":[" RANK("0", "attached", train, "9", "0.1") "," RANK(
         "1", "not attached", none, "0", "null") "," RANK("2", "gone", none, "0", "null") "]}",
     "rank 1 on h1 has not attached\n", 0},
    {"{\"report\":{\"state\":\"saving\",\"round\":{\"phase\":\"decided\",\"save_step\":48211}},"
     "\"ranks\":[" RANK("0", "attached", train, "48211", "0.1") "," RANK("1", "not attached", none,
                                                                         "0", "null") "]}",
     "rank 0 has not saved step 48,211; it is at step 48,211, in train\n", 0},
    {"{" RUNNING ",\"ranks\":[{\"rank\":0,\"attached\":true,\"phase\":\"train\",\"step\":9,"
     "\"step_age\":31},{\"rank\":1,\"attached\":true,\"phase\":\"train\",\"step\":9,"
     "\"step_age\":30}]}",
     "no rank has finished a step for 30 s\n", 0},
};

static void waits_text(const struct waits *waits, char *text, size_t size)
{
    text[0] = '\0';
    for (int i = 0; i < waits->n; i++)
        str_addf(text, size, "%s\n", waits->list[i].text);
}

Test(waits, name_what_the_job_waits_for)
{
    for (size_t i = 0; i < ARRAY_LEN(waiting); i++) {
        JSON_CLEANUP struct json *answer = parse(waiting[i].answer);
        struct tally tally;
        struct waits waits;
        char text[2048];
        tally_take(answer, &tally);
        waits_find(answer, &tally, &waits);
        waits_text(&waits, text, sizeof text);
        cr_expect_str_eq(text, waiting[i].texts);
        cr_expect_eq(waits.more, waiting[i].more);
    }
}

/* --- large jobs --- */

/* An answer with `ranks` ranks, `each` on a node; every 10th is behind, by i steps. The caller
 * frees it. */
static char *large_answer(int ranks, int each)
{
    char *text = NULL;
    size_t size = 0;
    FILE *out = open_memstream(&text, &size);
    fprintf(out, "{" NOW "," RUNNING ",\"ranks\":[");
    for (int i = 0; i < ranks; i++)
        fprintf(
            out,
            "%s{\"rank\":%d,\"node_rank\":%d,\"state\":\"attached\",\"attached\":true,\"phase\":"
            "\"train\",\"step\":%d,\"steps_per_second\":3.1,\"step_age\":%.3f}",
            i ? "," : "", i, i / each, 48210 - (i % 10 ? 0 : i), i % 10 ? 0.1 * (i % 9) : 47.1);
    fprintf(out, "],\"nodes\":[");
    for (int i = 0; i < ranks / each; i++)
        fprintf(out,
                "%s{\"node_rank\":%d,\"host\":\"gpu-a%04d.cluster.example\",\"state\":\"running\","
                "\"connected\":true,\"notice\":%s,\"ranks_attached\":%d,\"ranks_expected\":%d,"
                "\"lowest_step\":48200,\"heard_age\":0.%d}",
                i ? "," : "", i, i, i ? "false" : "true", each, each, i % 10);
    fprintf(out, "]}");
    cr_assert_eq(fclose(out), 0);
    return text;
}

Test(waits, the_worst_are_named)
{
    char *text = large_answer(1024, 8), all[2048];
    JSON_CLEANUP struct json *answer = parse(text);
    struct tally tally;
    struct waits waits;
    free(text);
    tally_take(answer, &tally);
    waits_find(answer, &tally, &waits);
    waits_text(&waits, all, sizeof all);
    cr_expect_eq(waits.n, WAITS_MAX);
    cr_expect(waits.list[0].rank == 1020 && waits.list[1].rank == 1010 && waits.list[4].rank == 980,
              "%s", all);
    cr_expect_eq(waits.more, 102 - WAITS_MAX); /* rank 0 is at the top step */
}

Test(picture, a_state_of_1024_ranks_is_small)
{
    static const int each[] = {1, 8};
    for (size_t i = 0; i < ARRAY_LEN(each); i++) {
        size_t len;
        char *text = large_answer(1024, each[i]);
        JSON_CLEANUP struct json *answer = parse(text);
        char *state = picture_state(answer, &len);
        cr_expect(len == strlen(state) && len < 20000, "%zu bytes at %d a node", len, each[i]);
        free(text);
        free(state);
    }
}

Test(picture, the_columns_have_one_value_for_each_rank)
{
    size_t len;
    char *text = large_answer(16, 8);
    JSON_CLEANUP struct json *answer = parse(text);
    char *layout_text = picture_layout(answer, &len), *state_text = picture_state(answer, &len);
    JSON_CLEANUP struct json *layout = parse(layout_text);
    JSON_CLEANUP struct json *state = parse(state_text);
    cr_expect(strchr(state_text, '\n') == NULL && strchr(layout_text, '\n') == NULL);
    cr_expect(json_is_at(state, "ranks.phase", "tttttttttttttttt"));
    cr_expect(json_is_at(state, "nodes.state", "rr") && json_is_at(state, "nodes.link", "nc"));
    int64_t behind[16], n = 0;
    for (const struct json *item = json_items_at(state, "ranks.behind"); item;
         item = json_next(item))
        cr_assert(n < 16 && json_int(item, &behind[n++]));
    cr_expect(n == 16 && behind[0] == 0 && behind[1] == 0 && behind[10] == 10);
    const struct json *node = json_items_at(layout, "nodes");
    cr_expect(json_is_at(node, "host", "gpu-a0000.cluster.example"));
    cr_expect(json_is_at(layout, "job", "run7") && json_int_at(state, "top", 0) == 48210);
    free(text);
    free(layout_text);
    free(state_text);
}

Test(picture, says_whose_ranks_are_missing)
{
    size_t len;
    JSON_CLEANUP struct json *answer =
        parse("{\"ranks_of\":\"node\",\"chief\":\"n0:14242\",\"nodes\":[{\"node_rank\":0,"
              "\"ranks_known\":true,\"ranks_unknown_why\":null},{\"node_rank\":1,\"ranks_known\":"
              "false,\"ranks_unknown_why\":\"it was not asked\"}]}");
    char *text = picture_layout(answer, &len);
    JSON_CLEANUP struct json *layout = parse(text);
    const struct json *node = json_items_at(layout, "nodes");
    cr_expect(json_is_at(node, "unknown", ""));
    cr_expect(json_is_at(json_next(node), "unknown", "it was not asked"));
    cr_expect(json_is_at(layout, "ranks_of", "node") && json_is_at(layout, "chief", "n0:14242"));
    free(text);
}

Test(picture, of_an_answer_without_its_members)
{
    size_t len;
    JSON_CLEANUP struct json *answer = parse("{\"ok\":true}");
    char *layout = picture_layout(answer, &len), *state = picture_state(answer, &len);
    cr_expect(layout && strstr(layout, "\"rank\": []") && strstr(layout, "\"cause\": null"), "%s",
              layout);
    cr_expect(state && strstr(state, "\"phase\": \"\""), "%s", state);
    free(layout);
    free(state);
}

Test(picture, the_output_of_the_first_cause_keeps_its_lines)
{
    size_t len;
    JSON_CLEANUP struct json *answer =
        parse("{\"report\":{\"first_cause\":{\"node_rank\":1,\"rank\":-1,\"host\":\"h1\",\"at\":"
              "\"2026-11-29T06:10:00.000Z\",\"text\":\"it ended with 1\",\"stderr\":\"a\\nb\"}}}");
    char *text = picture_layout(answer, &len);
    JSON_CLEANUP struct json *layout = parse(text);
    cr_expect(json_is_at(layout, "cause.output", "a\nb") && json_is_at(layout, "cause.host", "h1"));
    free(text);
}

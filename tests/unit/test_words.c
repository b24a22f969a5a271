/* SPDX-License-Identifier: Apache-2.0
 *
 * words: a supervisor's answer in words: the state of the job, and what the job waits for.
 */
#include "ctl/words.h"

#include "base/str.h"
#include "ctl/waits.h"

#include "answers.h"

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
#define SAVING(ranks)                                                                           \
    "{\"report\":{\"state\":\"saving\",\"round\":{\"phase\":\"decided\",\"save_step\":48211}}," \
    "\"ranks\":[" ranks "]}"
#define SAVER(n, step, saved)                                                                     \
    "{\"rank\":" n ",\"state\":\"attached\",\"attached\":true,\"phase\":\"train\",\"step\":" step \
    ",\"saved_step\":" saved "}"
/* Without a node: each place is taken, and the lost node's processes may still run. */
#define WAITS_FOR(nodes, more)                                                               \
    "\"report\":{\"state\":\"restarting\",\"outcome\":\"unknown\",\"waits_for\":{\"nodes\":" \
    "[" nodes "],\"more\":" more "," UNTIL                                                   \
    "\"since\":\"2026-11-29T06:05:00.000Z\",\"starts_after\":"                               \
    "\"2026-11-29T06:10:03.000Z\"}}"
#define UNTIL             "\"until\":\"2026-11-29T06:15:00.000Z\","
#define VACANT(n, minute) "{\"node_rank\":" n ",\"host\":\"h" n "\",\"since\":" minute "}"
#define AT(minute)        "\"2026-11-29T06:" minute ":00.000Z\""
#define NODE_1            VACANT("1", AT("05"))
#define BOTH_NODES        "\"nodes\":[" NODE("0", "running", "true") "," NODE("1", "running", "true") "]"

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
    {"{\"report\":{\"state\":\"running\",\"outcome\":\"unknown\",\"commit\":{\"step\":7,\"at\":"
     "null}},"
     "\"ranks\":[" RANK("0", "attached", train, "9", "0.1") "]}",
     "training at step 9, 3.1 steps/s, last commit before this pchrun began"},
    {"{" NOW "," RUNNING ",\"ranks\":[]}",
     "not attached: the command runs, and no rank has attached so far"},
    {"{\"report\":{\"state\":\"running\",\"outcome\":\"unknown\"},\"ranks\":[{\"attached\":true,"
     "\"phase\":\"start\",\"step\":0}]}",
     "starting, no commit so far"},
    {"{\"report\":{\"state\":\"running\",\"outcome\":\"unknown\"},\"ranks\":[{\"state\":"
     "\"starting\"},"
     "{\"state\":\"gone\"}]}",
     "starting: 0 of 2 ranks have attached"},
    {"{\"report\":{\"state\":\"running\",\"outcome\":\"unknown\"},\"ranks\":[{\"state\":\"not "
     "attached\"}]}",
     "not attached: the command runs, and no rank has attached so far"},
    {"{\"report\":{\"state\":\"running\",\"outcome\":\"unknown\"},\"ranks\":[{\"done\":true}]}",
     "finishing: 1 of 1 ranks are done"},
    {"{\"report\":{\"state\":\"waiting\",\"outcome\":\"unknown\"},\"nodes\":[" NODE(
         "0", "waiting", "true") "," NODE("1", "missing", "false") "]}",
     "starting: 1 of 2 nodes have joined"},
    {"{\"report\":{\"state\":\"restarting\",\"generation\":2,\"outcome\":\"unknown\"}}",
     "restarting in place, generation 2"},
    {"{" NOW "," WAITS_FOR(NODE_1, "0") "}",
     "waiting for a replacement of node 1, 5 min more at most"},
    {"{" NOW "," WAITS_FOR(NODE_1 "," VACANT("2", "null"), "0") "}",
     "waiting for a replacement of nodes 1 and 2, 5 min more at most"},
    {"{" NOW "," WAITS_FOR(NODE_1 "," VACANT("2", "null") "," VACANT("5", "null"), "0") "}",
     "waiting for a replacement of nodes 1, 2 and 5, 5 min more at most"},
    {"{" NOW "," WAITS_FOR(NODE_1 "," VACANT("2", "null") "," VACANT("5", "null"), "7") "}",
     "waiting for a replacement of nodes 1, 2, 5 and 7 more, 5 min more at most"},
    {"{" NOW "," WAITS_FOR(NODE_1, "9223372036854775807") "}",
     "waiting for a replacement of node 1, 5 min more at most"},
    {"{" NOW "," WAITS_FOR("", "0") "}",
     "waiting: every place is taken; the lost node's processes must end"},
    {"{\"report\":{\"state\":\"saving\",\"outcome\":\"unknown\",\"round\":{\"phase\":\"decided\","
     "\"save_step\":48211}},\"ranks\":[{\"saved_step\":48211},{\"saved_step\":48000}]}",
     "saving step 48,211: 1 of 2 ranks have saved"},
    {"{\"report\":{\"state\":\"stopping\",\"outcome\":\"preempted\",\"exit_code\":42,\"why\":"
     "\"a notice\"}}",
     "ending: preempted, exit code 42: a notice"},
    {"{\"report\":{\"state\":\"done\",\"outcome\":\"completed\",\"exit_code\":0,\"why\":\"all "
     "commands ended\"}}",
     "ended: completed, exit code 0: all commands ended"},
    {"{" NOW
     ",\"as_of\":\"2026-11-29T06:04:30.000Z\",\"gone\":true,\"ledger\":{\"step\":48214}," RUNNING
     ",\"ranks\":[" RANK("0", "attached", train, "48210", "null") "]}",
     "gone: it was killed, or its machine is; its last sign is of 5 min ago, at step 48,214"},
    {"{\"ledger\":{\"phase\":\"training\",\"step\":7},\"report\":{\"state\":\"running\","
     "\"outcome\":"
     "\"unknown\"},\"ranks\":[{\"state\":\"attached\",\"attached\":true,\"phase\":\"start\"}]}",
     "training at step 7, no commit so far"},
    {"{\"ledger\":{\"phase\":\"unattached\"},\"report\":{\"state\":\"running\",\"outcome\":"
     "\"unknown\"}}",
     "not attached: the command runs, and no rank has attached so far"},
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

Test(words, name_the_state_of_a_rank)
{
    static const char *const ranks[][2] = {
        {"{\"state\":\"attached\",\"phase\":\"train\"}", "training"},
        {"{\"state\":\"attached\",\"phase\":\"compile\"}", "compiling"},
        {"{\"state\":\"attached\",\"phase\":\"start\"}", "starting"},
        {"{\"state\":\"done\",\"phase\":\"train\"}", "done"},
        {"{\"state\":\"gone\"}", "gone"},
        {"{\"state\":\"attached\"}", ""},
        {"{}", ""}};
    for (size_t i = 0; i < ARRAY_LEN(ranks); i++) {
        JSON_CLEANUP struct json *rank = parse(ranks[i][0]);
        cr_expect_str_eq(words_rank(rank), ranks[i][1]);
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
     "rank 5 on h1: at step 48,208 for 40.2 s, the furthest at 48,210, evaluating\n"
     "rank 3 on h1: at step 48,209 for 39 s, the furthest at 48,210\n",
     0},
    {"{" RUNNING "," BOTH_NODES
     ",\"ranks\":[" RANK("0", "attached", train, "48210", "0.1") "," RANK("1", "attached", train,
                                                                          "48209", "12") "]}",
     "rank 1 on h1: at step 48,209 for 12 s, all others at 48,210\n", 0},
    {"{" RUNNING "," BOTH_NODES ",\"ranks\":[{\"rank\":7,\"node_rank\":1,\"attached\":true,"
     "\"phase\":\"train\",\"step\":9,\"steps_per_second\":2,\"step_age\":0.1,\"slow\":1.42}]}",
     "rank 7 on h1: it is slow, its own part of a step takes 1.42 x the median\n", 0},
    {"{" RUNNING ",\"ranks\":[{\"rank\":0,\"attached\":true,\"phase\":\"train\",\"step\":9,"
     "\"step_age\":31}]}",
     "rank 0: at step 9 for 31 s\n", 0},
    {"{" NOW ",\"since\":\"2026-11-29T06:09:20.000Z\"," RUNNING
     ",\"nodes\":[{\"node_rank\":1,\"host\":null,\"name\":\"b:14242\",\"state\":\"missing\"}]}",
     "node 1 (b:14242): it has not joined for 40 s\n", 0},
    {"{" RUNNING ",\"nodes\":[{\"node_rank\":0,\"host\":\"a\",\"state\":\"running\",\"connected\":"
     "true,\"ranks_known\":true,\"ranks_expected\":2},{\"node_rank\":1,\"host\":\"b\",\"state\":"
     "\"running\",\"connected\":true,\"ranks_known\":true,\"ranks_expected\":2}],\"ranks\":["
     "{\"node_rank\":0},{\"node_rank\":0},{\"node_rank\":1}]}",
     "node 1 (b): 1 of 2 ranks have attached\n", 0},
    {"{" RUNNING ",\"nodes\":[" NODE("0", "running", "true") "," NODE("1", "running", "false") "]}",
     "node 1 (h1): it has no connection; last heard 12.3 s ago\n", 0},
    {"{" RUNNING ",\"nodes\":[" NODE("0", "waiting", "true") "," NODE("1", "missing", "false") "]}",
     "node 1 (h1): it has not joined\n", 0},
    {"{" RUNNING ",\"nodes\":[" NODE("0", "waiting", "true") "," NODE("1", "checking", "true") "]}",
     "node 1 (h1): its health check is under way\n", 0},
    {"{" NOW "," WAITS_FOR(NODE_1, "0") ",\"nodes\":[" NODE("1", "lost", "false") "]}",
     "node 1 (h1): its replacement, for 5 min so far; the job ends in 5 min, or by pchctl stop\n",
     0},
    /* Each is named once, with its own time. Another node than node 0 knows no time. */
    {"{" NOW "," WAITS_FOR(NODE_1 "," VACANT("2", AT("04")) "," VACANT("3", "null"),
                           "2") ",\"nodes\":[" NODE("1", "lost", "false") "," NODE("2", "lost",
                                                                                   "false") "]}",
     "node 1 (h1): its replacement, for 5 min so far; the job ends in 5 min, or by pchctl stop\n"
     "node 2 (h2): its replacement, for 6 min so far; the job ends in 5 min, or by pchctl stop\n"
     "node 3 (h3): its replacement, for 5 min so far; the job ends in 5 min, or by pchctl stop\n",
     2},
    {"{" NOW "," WAITS_FOR("", "0") "}",
     "the end of the lost node's processes, which may run for 3 s more\n", 0},
    {"{" RUNNING "," BOTH_NODES ",\"ranks\":[" RANK("0", "attached", train, "9", "0.1") "," RANK(
         "1", "not attached", none, "0", "null") "," RANK("2", "gone", none, "0", "null") "]}",
     "rank 1 on h1: it has not attached\n", 0},
    /* A save in which nothing is amiss: no rank is behind the others. */
    {SAVING(SAVER("0", "48211", "48000") "," SAVER("1", "48211", "48000") "," SAVER("2", "48210",
                                                                                    "48000")),
     "rank 2: it has not saved step 48,211; it is at step 48,210, training\n", 0},
    {SAVING(SAVER("0", "48211", "48000") "," SAVER("1", "48210", "48000") "," SAVER(
         "2", "48210", "48000") "," SAVER("3", "48210", "48000")),
     "", 0},
    {SAVING(SAVER("0", "48211", "48211") "," SAVER("1", "48211", "48000")),
     "rank 1: it has not saved step 48,211; it is at step 48,211, training\n", 0},
    {SAVING(SAVER("0", "48211", "48211") "," SAVER("1", "48211", "48000") "," SAVER(
         "2", "48211", "48000") "," SAVER("3", "48211", "48000")),
     "", 0},
    {SAVING(SAVER("0", "48211", "48000")), "", 0},
    /* The last heartbeat is older than three intervals, and than two seconds. */
    {"{\"heartbeat_ms\":1000," RUNNING ",\"nodes\":[" NODE("0", "running", "true") "]}",
     "node 0 (h0): no message from it for 12.3 s\n", 0},
    {"{\"heartbeat_ms\":4100," RUNNING ",\"nodes\":[" NODE("0", "running", "true") "]}",
     "node 0 (h0): no message from it for 12.3 s\n", 0},
    {"{\"heartbeat_ms\":4101," RUNNING ",\"nodes\":[" NODE("0", "running", "true") "]}", "", 0},
    {"{\"heartbeat_ms\":1000," RUNNING ",\"nodes\":[" NODE("0", "gone", "true") "]}", "", 0},
    {"{" RUNNING ",\"nodes\":[" NODE("0", "running", "true") "]}", "", 0},
    {"{" RUNNING ",\"ranks\":[{\"rank\":0,\"attached\":true,\"phase\":\"train\",\"step\":9,"
     "\"step_age\":31},{\"rank\":1,\"attached\":true,\"phase\":\"train\",\"step\":9,"
     "\"step_age\":30}]}",
     "all ranks: none has finished a step for 30 s\n", 0},
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

/* --- the spares --- */

#define SPARES(list)       "{\"report\":{\"state\":\"running\",\"spares\":[" list "]}}"
#define SPARE(host, place) "{\"number\":4,\"host\":\"" host "\",\"takes_place_of\":" place "}"
#define STANDING(host)     SPARE(host, "null")
#define FIVE_STANDING \
    STANDING("a") "," STANDING("b") "," STANDING("c") "," STANDING("d") "," STANDING("e")

static const struct {
    const char *answer, *says;
} spares[] = {
    {"{\"report\":{\"state\":\"running\",\"spares\":null}}", ""},
    {"{\"report\":{\"state\":\"running\"}}", ""},
    {"{\"report\":{\"state\":\"done\",\"spares\":[]}}", ""},
    {SPARES(""), "none stands by"},
    {SPARES(STANDING("h4")), "1 stands by (h4)"},
    {SPARES(FIVE_STANDING), "5 stand by (a, b, c, d, ...)"},
    {SPARES(STANDING("h5") "," SPARE("h4", "1")), "1 stands by (h5); h4 takes the place of node 1"},
    {SPARES(SPARE("h4", "3")), "none stands by; h4 takes the place of node 3"},
};

Test(words, name_the_spares)
{
    for (size_t i = 0; i < ARRAY_LEN(spares); i++) {
        JSON_CLEANUP struct json *answer = parse(spares[i].answer);
        char text[WORDS_MAX];
        cr_expect_str_eq(words_spares(answer, text), spares[i].says);
    }
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

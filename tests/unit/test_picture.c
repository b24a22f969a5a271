/* SPDX-License-Identifier: Apache-2.0
 *
 * picture: what the page gets of a supervisor's answer: the columns of ranks and nodes, with the
 * bound of their size.
 */
#include "web/picture.h"

#include "base/str.h"

#include "answers.h"

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

/* SPDX-License-Identifier: Apache-2.0
 *
 * answers: answers of a supervisor to CONTROL_STATUS, for the tests of what pchctl and pchrun-web
 * make of them.
 */
#pragma once

#include "json/json.h"

#include "unit.h"

#include <stdio.h>
#include <stdlib.h>

#define NOW "\"now\":\"2026-11-29T06:10:00.000Z\""
#define RUNNING                                                                           \
    "\"report\":{\"job\":\"run7\",\"node_rank\":0,\"nnodes\":2,\"state\":\"running\","    \
    "\"outcome\":\"unknown\",\"save_every_ms\":600000,\"commit\":{\"step\":48000,\"at\":" \
    "\"2026-11-29T06:05:50.000Z\"}}"

static inline struct json *parse(const char *text)
{
    struct err err;
    struct json *root = json_read("answer", text, strlen(text), &err);
    cr_assert(root, "%s in %s", err.text, text);
    return root;
}

/* An answer with `ranks` ranks, `each` on a node; every 10th is behind, by i steps. The caller
 * frees it. */
static inline char *large_answer(int ranks, int each)
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

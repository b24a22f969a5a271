/* SPDX-License-Identifier: Apache-2.0
 *
 * Any bytes as an environment, a variable on each line. A job that is found is possible: its node
 * rank is within its nodes, and the address of node 0 is valid. A refused environment has an error.
 */
#include "fuzz.h"

#include "discover/discover.h"

#include <string.h>

enum { VARIABLES_MAX = 64 };

static void check(char **env, enum discover_from from)
{
    struct discovery found;
    struct address chief;
    struct err err = {0};
    if (!discover(env, "/nowhere", from, &found, &err)) {
        FUZZ_MUST(err.text[0]);
        return;
    }
    FUZZ_MUST(found.nnodes >= 0 && found.nnodes <= DISCOVER_NODES_MAX);
    FUZZ_MUST(found.node_rank >= -1);
    FUZZ_MUST(found.nnodes == 0 || found.node_rank < found.nnodes);
    FUZZ_MUST(!found.chief[0] || address_parse(found.chief, 1, &chief, &err));
    FUZZ_MUST(found.port == 0 || (found.port >= DISCOVER_PORT_FIRST &&
                                  found.port < DISCOVER_PORT_FIRST + DISCOVER_PORTS));
    FUZZ_MUST(strlen(found.why) < sizeof found.why && (from == DISCOVER_NONE || found.why[0]));
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    char *env[VARIABLES_MAX + 1], *save;
    char *text = malloc(size + 1);
    size_t n = 0;
    FUZZ_MUST(text);
    memcpy(text, data, size);
    text[size] = '\0';
    for (char *line = strtok_r(text, "\n", &save); line && n < VARIABLES_MAX;
         line = strtok_r(NULL, "\n", &save))
        env[n++] = line;
    env[n] = NULL;
    for (int from = DISCOVER_NONE; from < DISCOVER__COUNT; from++)
        check(env, (enum discover_from)from);
    free(text);
    return 0;
}

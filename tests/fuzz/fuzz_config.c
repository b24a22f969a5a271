/* SPDX-License-Identifier: Apache-2.0
 *
 * Any bytes as a configuration file. --print-config prints an accepted file. Its output is a
 * configuration file that prints as itself. A refused file has an error of one line. The files are
 * in memory alone.
 */
#include "fuzz.h"

#include "config/config.h"

#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

static void name_of(int fd, char name[32])
{
    snprintf(name, 32, "/proc/self/fd/%d", fd);
}

static int put(const void *data, size_t size)
{
    int fd = memfd_create("config", MFD_CLOEXEC);
    FUZZ_MUST(fd >= 0 && write(fd, data, size) == (ssize_t)size);
    return fd;
}

/* Returns the output of --print-config for this file; NULL: it is refused. The caller frees. */
static char *print(const void *data, size_t size)
{
    char name[32], *text = NULL;
    char *argv[] = {"pchrun", "--print-config", "-c", name, NULL};
    char *env[] = {NULL};
    int fd = put(data, size);
    size_t len;
    struct config config;
    struct err err;
    FILE *out = open_memstream(&text, &len);
    name_of(fd, name);
    enum args_end result = config_load(argv, env, out, &config, &err);
    FUZZ_MUST(fclose(out) == 0 && result != ARGS_RUN);
    close(fd);
    if (result == ARGS_SHOWN)
        return text;
    FUZZ_MUST(err.text[0] && !strchr(err.text, '\n') && strlen(err.text) < sizeof err.text);
    free(text);
    return NULL;
}

/* A run accepts fewer files; it must leave no memory, either. */
static void run(const void *data, size_t size)
{
    char name[32], binding[4096];
    char *argv[] = {"pchrun", "-c", name, "--", "true", NULL};
    char *env[] = {NULL};
    int fd = put(data, size);
    struct config config;
    struct err err;
    name_of(fd, name);
    if (config_load(argv, env, stdout, &config, &err) == ARGS_RUN) {
        FUZZ_MUST(config_binding(&config, binding, sizeof binding));
        config_free(&config);
    }
    close(fd);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    char *first = print(data, size);
    if (!first)
        return 0;
    char *again = print(first, strlen(first));
    FUZZ_MUST(again);
    /* Compares the part between the findings and the origins of the values. */
    char *begin = strstr(first, "\"job\""), *begin_again = strstr(again, "\"job\"");
    char *end = strstr(first, "\"$sources\""), *end_again = strstr(again, "\"$sources\"");
    FUZZ_MUST(begin && begin_again && end && end_again);
    FUZZ_MUST(end - begin == end_again - begin_again);
    FUZZ_MUST(memcmp(begin, begin_again, (size_t)(end - begin)) == 0);
    free(first);
    free(again);
    run(data, size);
    return 0;
}

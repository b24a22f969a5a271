/* SPDX-License-Identifier: Apache-2.0
 * See lastline.h.
 */
#include "status/lastline.h"

#include "base/clock.h"
#include "base/log.h"
#include "base/str.h"
#include "os/statefile.h"

#include <stdlib.h>
#include <string.h>

#define WAIT_NS (2 * NS_PER_S)

/* Kubernetes reads no more than this. */
enum { BYTES_MAX = 4096 };

static void lastline_on_written(void *ctx, uint64_t tag, const struct err *err)
{
    if (err)
        log_debug("end", "%s", err->text);
}

void lastline_write(const char *path, const char *text)
{
    struct reap reap = {0};
    struct statefile file = {.manner = STATEFILE_OVERWRITE, .fn = lastline_on_written};
    struct err err;
    size_t len = strnlen(text, BYTES_MAX);
    if (!path || len == 0 || (str_is(path, LASTWORD_FILE) && !getenv("KUBERNETES_SERVICE_HOST")))
        return;
    reap_begin(&reap);
    if (statefile_init(&file, path, &reap, &err)) {
        if (statefile_write(&file, 0, text, len, &err))
            statefile_wait(&file, WAIT_NS);
        statefile_free(&file);
    }
    reap_end(&reap);
}

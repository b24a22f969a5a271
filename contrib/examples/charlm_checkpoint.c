/* SPDX-License-Identifier: Apache-2.0
 *
 * charlm_checkpoint: the example's checkpoints: a struct state as it is in memory. It owns nothing.
 * Errors: see charlm.h. Any thread may write.
 */
#include "charlm.h"

#include <errno.h>
#include <limits.h>
#include <stdio.h>
#include <unistd.h>

#define MAGIC UINT64_C(0x314d4c5241484301) /* of this struct state, in this byte order */

uint64_t digest(const void *data, size_t len)
{
    uint64_t hash = UINT64_C(0xcbf29ce484222325);
    for (const uint8_t *p = data; len > 0; p++, len--)
        hash = (hash ^ *p) * UINT64_C(0x100000001b3);
    return hash;
}

static uint64_t digest_of(const struct state *state)
{
    return digest(&state->text, sizeof *state - offsetof(struct state, text));
}

bool checkpoint_write(struct state *state, int dir_fd, const char *path)
{
    char temp[PATH_MAX + 100];
    snprintf(temp, sizeof temp, "%s.tmp", path);
    state->magic = MAGIC;
    state->digest = digest_of(state);
    FILE *file = fopen(temp, "wbe");
    bool ok = file && fwrite(state, sizeof *state, 1, file) == 1 && fflush(file) == 0 &&
              fsync(fileno(file)) == 0 && rename(temp, path) == 0 &&
              fsync(dir_fd) == 0; /* the rename is on disk when the directory is */
    int failed = errno;
    if (file)
        fclose(file);
    if (!ok)
        unlink(temp);
    errno = failed;
    return ok;
}

void checkpoint_read(struct state *state, const char *path)
{
    const struct state want = *state;
    FILE *file = fopen(path, "rbe");
    if (!file)
        die("cannot read checkpoint %s: %m", path);
    bool is_whole = fread(state, sizeof *state, 1, file) == 1 && getc(file) == EOF;
    fclose(file);
    if (!is_whole || state->magic != MAGIC || state->digest != digest_of(state))
        die("checkpoint %s is damaged: it is not what was written", path);
    if (state->text != want.text || state->rank != want.rank || state->world != want.world)
        die("checkpoint %s is of another --text, or of rank %ld of %ld, and this is rank %ld of "
            "%ld",
            path, state->rank, state->world, want.rank, want.world);
}

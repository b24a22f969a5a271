/* SPDX-License-Identifier: Apache-2.0
 * See samedir.h.
 */
#include "record/samedir.h"

#include "base/clock.h"
#include "base/fd.h"
#include "base/log.h"
#include "base/str.h"

#include <dirent.h>
#include <limits.h>
#include <poll.h>
#include <unistd.h>

/* NFS believes what it knows of a directory for up to 60 seconds (acdirmax). */
#define SETTLE_NS (65 * NS_PER_S)
#define GAP_MS    1000
/* More than SETTLE_NS: the rest is for a file system that is slow to answer. */
#define LOOK_WAIT_NS (80 * NS_PER_S)

enum { SEEN_OTHER = 'o', SEEN_SAME = 's' };

/* --- in the child --- */

/* Opening the directory makes NFS ask its server. */
static char look_once(const struct samedir *samedir)
{
    char path[PATH_MAX] = "", id[HISTORY_ID_SIZE];
    DIR *entries = opendir(samedir->dir);
    if (entries)
        closedir(entries);
    bool is_read =
        str_addf(path, sizeof path, "%s/" HISTORY_FILE, samedir->dir) && history_read_id(path, id);
    return !is_read || str_is(id, samedir->id) ? SEEN_SAME : SEEN_OTHER;
}

static void samedir_look(const void *arg, int answer)
{
    const struct samedir *samedir = arg;
    int64_t until = clock_now_ns() + (fd_is_local_dir(samedir->dir) ? 0 : SETTLE_NS);
    char seen = look_once(samedir);
    while (seen == SEEN_OTHER && clock_now_ns() < until) {
        poll(NULL, 0, GAP_MS);
        seen = look_once(samedir);
    }
    if (!fd_write_all(answer, &seen, sizeof seen))
        _exit(1);
}

/* --- in the parent --- */

static void samedir_tell(struct samedir *samedir, bool is_other)
{
    log_line(is_other ? LOG_INFO : LOG_DEBUG, "record",
             "the state directory %s is %sthat of node 0", samedir->dir, is_other ? "not " : "");
    loop_post(samedir->loop, &(struct event){.type = EV_DIR_SEEN, .is_other_dir = is_other});
}

static void on_looked(void *ctx, bool is_late)
{
    struct samedir *samedir = ctx;
    const struct buf *text = &samedir->inquiry.text;
    samedir_tell(samedir, !is_late && buf_len(text) == 1 && buf_bytes(text)[0] == SEEN_OTHER);
}

void samedir_seek(struct samedir *samedir, uint64_t chief)
{
    struct err err;
    history_make_id(chief, samedir->id);
    samedir->inquiry = (struct inquiry){.fn = samedir_look,
                                        .arg = samedir,
                                        .base = samedir->loop->base,
                                        .wait_ns = LOOK_WAIT_NS,
                                        .max = 16,
                                        .on_over = on_looked,
                                        .ctx = samedir,
                                        .helper = {.reap = samedir->reap}};
    if (inquiry_start(&samedir->inquiry, &err))
        return;
    log_debug("record", "cannot look for node 0's record in %s: %s", samedir->dir, err.text);
    samedir_tell(samedir, false);
}

void samedir_stop(struct samedir *samedir)
{
    inquiry_stop(&samedir->inquiry);
}

void samedir_free(struct samedir *samedir)
{
    inquiry_free(&samedir->inquiry);
}

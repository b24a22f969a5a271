/* SPDX-License-Identifier: Apache-2.0
 * See stray.h.
 */
#include "os/stray.h"

#include "os/tree.h"

#include <signal.h>

enum {
    KNOWN_MAX = 1024,
    ROUNDS_MAX = 8 /* processes that fork faster are found when the next source ends */
};

/* One pass over our descendants. False: no stray found. */
static bool kill_round(struct reap *reap, const char *mark)
{
    pid_t known[KNOWN_MAX];
    size_t n = reap_known(reap, known, KNOWN_MAX);
    struct tree tree = {0};
    bool has_found = false;
    tree_scan(&tree, &(struct tree_job){.helpers = known, .nhelpers = n});
    for (size_t i = 0; i < tree.n; i++) {
        struct tree_entry *entry = &tree.entries[i];
        bool is_ours = entry->parent < 0;
        /* pid 0 marks a stray: parents come first. */
        bool is_below = !is_ours && tree.entries[entry->parent].proc.pid == 0;
        if (!is_below && (!is_ours || !proc_has_env(entry->proc.pid, mark)))
            continue;
        has_found = true;
        proc_signal(&entry->proc, SIGKILL);
        if (is_ours)
            reap_keep(reap, entry->proc.pid);
        entry->proc.pid = 0;
    }
    tree_free(&tree);
    return has_found;
}

void stray_kill(struct reap *reap, const char *mark)
{
    bool has_found = true;
    for (int round = 0; has_found && round < ROUNDS_MAX && !reap_knows_all(reap); round++)
        has_found = kill_round(reap, mark);
}

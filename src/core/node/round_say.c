/* SPDX-License-Identifier: Apache-2.0
 * See round_say.h.
 */
#include "core/node/round_say.h"

#include "base/clock.h"
#include "base/str.h"

#include <string.h>

void round_say_wait(struct out *out, const struct ranks *ranks, const struct member *m)
{
    char missing[64] = "";
    for (int i = 0; i < ranks->n; i++)
        if (!ranks_has_own(&ranks->members[i], m->wait_step))
            str_addf(missing, sizeof missing, "%s%d", missing[0] ? ", " : "of rank ",
                     ranks->members[i].rank);
    out_log(
        out, LOG_WARN, "save",
        "rank %d has waited %d s in pch_saved for the commit of step %llu; the save %s is missing; "
        "every rank has to call pch_saved (in Python: saved)",
        m->rank, (int)(ROUND_TOLD_NS / NS_PER_S), ull(m->wait_step),
        missing[0] ? missing : "of another node");
}

void round_say_past(struct out *out, const struct member *m, uint64_t step)
{
    out_log(out, LOG_WARN, "commit",
            "step %llu is not committed: rank %d has not saved it; that rank waits for the commit "
            "of its step %llu",
            ull(step), m->rank, ull(m->wait_step));
}

void round_say_unsaved(struct out *out, const struct ranks *ranks, uint32_t round, uint64_t step)
{
    char list[96] = "";
    int n = 0;
    for (int i = 0; i < ranks->n && strlen(list) + 20 < sizeof list; i++) {
        const struct member *m = &ranks->members[i];
        if (!m->is_ended && m->saved_round != round && m->failed_round != round)
            str_addf(list, sizeof list, "%s%d", n++ ? ", " : "", m->rank);
    }
    if (n > 0)
        out_log(
            out, LOG_NOTICE, "save",
            "rank%s %s%s had not reported a save of step %llu; every rank has to call pch_saved "
            "(in Python: saved)",
            n == 1 ? "" : "s", list, strlen(list) + 20 < sizeof list ? "" : ", ...", ull(step));
}

void round_say_return(struct out *out, const struct member *m, uint64_t step, uint64_t commit_step)
{
    out_log(out, LOG_WARN, "save",
            "rank %d saves step %llu, below the last commit at step %llu: it is not committed; did "
            "the training go back to an earlier step?",
            m->rank, ull(step), ull(commit_step));
}

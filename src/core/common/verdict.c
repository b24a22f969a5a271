/* SPDX-License-Identifier: Apache-2.0
 * See verdict.h. One table of outcomes.
 */
#include "core/common/verdict.h"

#include <signal.h>
#include <sys/wait.h>

static const struct {
    const char *name;
    bool is_restart, gives_way, may_resume;
} outcomes[OUTCOME__COUNT] = {
    [OUTCOME_UNKNOWN] = {"unknown", false, false, false},
    [OUTCOME_COMPLETED] = {"completed", false, false, false},
    [OUTCOME_PREEMPTED] = {"preempted", true, false, false},
    [OUTCOME_PREEMPTED_UNSAVED] = {"preempted_unsaved", true, true, true},
    [OUTCOME_PREEMPTED_UNKNOWN] = {"preempted_unknown", false, true, false},
    [OUTCOME_FAILED] = {"failed", false, false, true},
    [OUTCOME_NODE_LOST] = {"node_lost", true, true, true},
    [OUTCOME_HANG] = {"hang", true, true, true},
    [OUTCOME_NO_PROGRESS] = {"no_progress", false, true, false},
    [OUTCOME_NOT_STARTED] = {"not_started", false, false, false},
    [OUTCOME_STOPPED] = {"stopped", false, false, false},
    [OUTCOME_INTERRUPTED] = {"interrupted", false, false, false},
    [OUTCOME_UNHEALTHY] = {"unhealthy", true, true, true},
};

const char *verdict_name(enum outcome outcome)
{
    return outcome < OUTCOME__COUNT ? outcomes[outcome].name : "unknown";
}

bool verdict_is_preempted(enum outcome outcome)
{
    return outcome == OUTCOME_PREEMPTED || outcome == OUTCOME_PREEMPTED_UNSAVED ||
           outcome == OUTCOME_PREEMPTED_UNKNOWN;
}

bool verdict_is_restart(enum outcome outcome)
{
    return outcome < OUTCOME__COUNT && outcomes[outcome].is_restart;
}

bool verdict_may_resume(enum outcome outcome)
{
    return outcome < OUTCOME__COUNT && outcomes[outcome].may_resume;
}

bool verdict_gives_way(enum outcome outcome)
{
    return outcome < OUTCOME__COUNT && outcomes[outcome].gives_way;
}

int verdict_of_order(enum outcome outcome, int code)
{
    bool fits = code >= (outcome == OUTCOME_COMPLETED ? 0 : 1) && code <= 255;
    return fits ? code : EXIT_OWN_ERROR;
}

int verdict_code(const struct exit_codes *codes, enum outcome outcome, int code)
{
    const int of[OUTCOME__COUNT] = {[OUTCOME_COMPLETED] = code == codes->done_killed ? code : 0,
                                    [OUTCOME_PREEMPTED] = codes->preempted,
                                    [OUTCOME_PREEMPTED_UNSAVED] = codes->preempted_unsaved,
                                    [OUTCOME_PREEMPTED_UNKNOWN] = codes->preempted,
                                    [OUTCOME_FAILED] = code,
                                    [OUTCOME_NODE_LOST] = codes->node_lost,
                                    [OUTCOME_HANG] = codes->hang,
                                    [OUTCOME_NO_PROGRESS] = codes->no_progress,
                                    [OUTCOME_NOT_STARTED] = code,
                                    [OUTCOME_STOPPED] = codes->stopped,
                                    [OUTCOME_INTERRUPTED] = code,
                                    [OUTCOME_UNHEALTHY] = codes->node_lost};
    /* A failure must never return 0, whatever code the fault has. */
    return verdict_of_order(outcome, outcome < OUTCOME__COUNT ? of[outcome] : 0);
}

int verdict_of_status(int status)
{
    if (WIFEXITED(status))
        return WEXITSTATUS(status);
    if (WIFSIGNALED(status))
        return EXIT_BY_SIGNAL + WTERMSIG(status);
    return EXIT_OWN_ERROR;
}

int verdict_signal_of(int status)
{
    int number = verdict_of_status(status) - EXIT_BY_SIGNAL;
    return number > 0 && number < _NSIG ? number : 0;
}

/* SPDX-License-Identifier: Apache-2.0
 * See watchdog.h.
 */
#include "core/common/watchdog.h"

#include "base/clock.h"
#include "base/str.h"
#include "core/common/slowness.h"

/* Remembers the longest pause for one to two times TERM_NS, to cover a pause once an epoch. */
#define TERM_NS (6 * 3600 * NS_PER_S)
/* How often the steps are read within the shortest limit. */
#define LOOKS       8
#define LOOK_MIN_NS (100 * NS_PER_MS)
/* How often the steps are read to find slow ranks. */
#define LOOK_SLOW_NS (5 * NS_PER_S)

static const struct watchdog_plan *plan_of(const struct watchdog *dog)
{
    return &dog->out->params->watchdog;
}

void watchdog_init(struct watchdog *dog, struct ranks *ranks, struct out *out)
{
    dog->ranks = ranks;
    dog->out = out;
    dog->look_at = CLOCK_NEVER;
}

/* --- how long it may take --- */

static int64_t longest(const struct watchdog *dog, enum page_phase phase)
{
    const int64_t *of = dog->longest[phase];
    return of[0] > of[1] ? of[0] : of[1];
}

/* How exactly the time-out of the rank's collectives is kept. An examination fits into it. */
static int64_t margin_of(const struct watchdog *dog, const struct member *m)
{
    int64_t least = plan_of(dog)->evidence_ns + WATCHDOG_WORD_NS, timeout = m->timeout_ns;
    return least > timeout / 5 ? least : timeout / 5;
}

/* A rank that has waited for so long may give up soon. CLOCK_NEVER: its collectives never do. */
static int64_t within_timeout(const struct watchdog *dog, const struct member *m)
{
    int64_t timeout = m->timeout_ns;
    return timeout ? timeout - clock_min(margin_of(dog, m), timeout / 2) : CLOCK_NEVER;
}

/* The limit of the rank ends before its collectives give up. A process that only counts does not
 * tell an evaluation from a step, and ranks that evaluate apart wait for no other. */
static bool follows_timeout(const struct watchdog *dog, const struct member *m,
                            enum page_phase phase)
{
    const struct watchdog_plan *plan = plan_of(dog);
    return phase == PAGE_TRAIN && plan->follows_timeout && !m->is_counter &&
           within_timeout(dog, m) < plan->limit_ns[phase];
}

/* CLOCK_NEVER: no limit. */
static int64_t limit_of(const struct watchdog *dog, const struct member *m, enum page_phase phase)
{
    const struct watchdog_plan *plan = plan_of(dog);
    int64_t limit = plan->limit_ns[phase];
    if (limit == 0)
        return CLOCK_NEVER;
    if (follows_timeout(dog, m, phase))
        limit = within_timeout(dog, m);
    int64_t by_experience = longest(dog, phase) * plan->factor;
    return by_experience > limit ? by_experience : limit;
}

static int64_t start_limit(const struct watchdog *dog)
{
    return limit_of(dog, NULL, PAGE_START);
}

int64_t watchdog_start_until(const struct watchdog *dog)
{
    int64_t limit = start_limit(dog);
    return limit == CLOCK_NEVER ? CLOCK_NEVER : dog->began_at + limit;
}

static bool is_over(int64_t since, int64_t limit, int64_t now)
{
    return limit != CLOCK_NEVER && now - since >= limit;
}

static void note_pause(struct watchdog *dog, enum page_phase phase, int64_t pause)
{
    int64_t now = dog->out->now;
    if (now - dog->term_at >= TERM_NS) {
        for (int i = 0; i < PAGE_PHASES; i++) {
            dog->longest[i][1] = dog->longest[i][0];
            dog->longest[i][0] = 0;
        }
        dog->term_at = now;
    }
    if (pause > dog->longest[phase][0])
        dog->longest[phase][0] = pause;
}

/* --- what the ranks do --- */

/* A rank that trains is in its start phase until its first step is finished. Other phases count as
 * announced. In an open round that the rank serves its phase is always PAGE_SAVE. */
static enum page_phase phase_of(const struct member *m, const struct watchdog_node *node)
{
    bool is_serving = node->round && m->served_round == node->round &&
                      m->saved_round != node->round && m->failed_round != node->round;
    if (is_serving)
        return PAGE_SAVE;
    bool has_stepped = m->stand.step > m->first_step;
    return m->stand.phase == PAGE_TRAIN && !has_stepped ? PAGE_START : m->stand.phase;
}

/* A rank that waits for pchrun, and so for other ranks, is not stuck. A rank that gave up its wait
 * is about to end. */
static bool is_watched(const struct member *m)
{
    return m->slot >= 0 && !m->is_ended && !m->gave_up && !m->stand.is_dead && m->wait == WAIT_NONE;
}

/* When the steps are read next. */
static void plan_look(struct watchdog *dog)
{
    dog->looked_at = dog->out->now;
    const struct watchdog_plan *plan = plan_of(dog);
    int64_t least = plan->silence_ns ? plan->silence_ns : CLOCK_NEVER;
    const struct member *m;
    for (int i = 0; i < PAGE_PHASES; i++)
        if (plan->limit_ns[i])
            least = clock_min(least, plan->limit_ns[i]);
    for (int i = 0; (m = ranks_at(dog->ranks, i)); i++)
        least = clock_min(least, within_timeout(dog, m));
    int64_t pause = least / LOOKS > LOOK_MIN_NS ? least / LOOKS : LOOK_MIN_NS;
    dog->look_at = least == CLOCK_NEVER ? CLOCK_NEVER : dog->out->now + pause;
}

void watchdog_begin(struct watchdog *dog)
{
    dog->began_at = dog->moved_at = dog->term_at = dog->out->now;
    dog->output_at = 0;
    dog->examine = dog->examined = dog->examined_steps = 0;
    dog->stopped_pid = 0;
    plan_look(dog);
}

void watchdog_heard(struct watchdog *dog, struct member *m)
{
    m->stand.since = dog->moved_at = dog->out->now;
}

void watchdog_take_timeout(struct watchdog *dog, struct member *m, int64_t timeout_ns)
{
    char text[32], limit[32];
    bool is_news = m->timeout_ns != timeout_ns;
    m->timeout_ns = timeout_ns;
    plan_look(dog);
    if (!is_news || timeout_ns == 0)
        return;
    str_about(timeout_ns, text, sizeof text);
    str_about(limit_of(dog, m, PAGE_TRAIN), limit, sizeof limit);
    out_log(dog->out, LOG_DEBUG, "watchdog",
            "the collectives of rank %d give up after %s; its step may take %s", m->rank, text,
            limit);
}

bool watchdog_waited_out(const struct watchdog *dog, const struct member *m)
{
    return is_over(m->stand.since, within_timeout(dog, m), dog->out->now);
}

void watchdog_ended(struct watchdog *dog, int pid, bool has_failed)
{
    struct member *m;
    if (!has_failed)
        dog->moved_at = dog->out->now;
    for (int i = 0; (m = ranks_at(dog->ranks, i)); i++)
        if (m->pid == pid)
            m->stand.is_dead = true;
}

static bool has_moved(const struct member *m, const struct event *event, enum page_phase *ret_phase)
{
    const uint8_t *phases = event->steps.phase_by_slot;
    uint8_t phase = phases ? phases[m->slot] : PAGE_TRAIN;
    *ret_phase = phase < PAGE_PHASES ? (enum page_phase)phase : PAGE_TRAIN;
    return event->steps.by_slot[m->slot] != m->stand.step || *ret_phase != m->stand.phase;
}

/* Learn from this pause? A pause at start-up does not count, nor does an overrun that other ranks
 * excuse. But if an examination suspected a hang, the pause counts: it was no hang. */
static bool is_telling(const struct watchdog *dog, const struct member *m, enum page_phase phase)
{
    int64_t since = m->stand.since;
    bool was_excused = is_over(since, limit_of(dog, m, phase), dog->out->now);
    return phase != PAGE_START && is_watched(m) && (!was_excused || dog->examined_at > since);
}

static void read_member(struct watchdog *dog, struct member *m, const struct event *event,
                        const struct watchdog_node *node)
{
    enum page_phase phase;
    int64_t now = dog->out->now;
    if (!has_moved(m, event, &phase)) {
        if (!is_watched(m) || node->is_quiet)
            m->stand.since = now;
        return;
    }
    enum page_phase was = phase_of(m, node);
    if (is_telling(dog, m, was) && !node->is_quiet)
        note_pause(dog, was, now - m->stand.since);
    m->stand.step = event->steps.by_slot[m->slot];
    m->stand.phase = phase;
    m->stand.since = dog->moved_at = now;
    m->gave_up = false;
    dog->has_told_stopped = false;
    dog->stopped_pid = 0;
}

void watchdog_read(struct watchdog *dog, const struct event *event,
                   const struct watchdog_node *node)
{
    struct member *m;
    for (int i = 0; (m = ranks_at(dog->ranks, i)); i++)
        if (m->slot >= 0)
            read_member(dog, m, event, node);
    dog->output_at = event->steps.output_at;
    dog->examined = dog->examined_steps;
    plan_look(dog);
}

/* --- the view of the node --- */

/* The pid of a rank in another PID namespace is unknown, and is 0 here. */
static bool is_stopped(const struct watchdog *dog, const struct member *m)
{
    return dog->stopped_pid && m->pid == dog->stopped_pid;
}

/* If one of several ranks at the same step is stopped, the others wait for it. A rank that trains
 * most often waits for a rank in another phase. */
static bool is_behind(const struct watchdog *dog, const struct watchdog_node *node,
                      const struct member *a, const struct member *b)
{
    if (a->stand.step != b->stand.step)
        return a->stand.step < b->stand.step;
    if (is_stopped(dog, a) || is_stopped(dog, b))
        return !is_stopped(dog, b);
    return phase_of(b, node) == PAGE_TRAIN && phase_of(a, node) != PAGE_TRAIN;
}

/* Of the ranks whose steps are read from the output, often one prints for all. So the others are
 * not absent. */
static bool reads_steps(const struct watchdog *dog)
{
    return dog->ranks->n == 0 && plan_of(dog)->reads_steps;
}

static bool awaits_first_line(const struct watchdog *dog)
{
    return reads_steps(dog) && dog->ranks->ncounters == 0;
}

/* The node holds up no other, which may print the steps of all. */
static struct peer_watch view_before_lines(const struct watchdog *dog)
{
    int64_t ago = dog->out->now - dog->began_at;
    bool is_late = is_over(dog->began_at, start_limit(dog), dog->out->now);
    return (struct peer_watch){.motion = is_late ? MOTION_SILENT : MOTION_RESTS,
                               .still_ns = ago,
                               .behind_rank = -1,
                               .behind_ago_ns = ago};
}

/* No process tells its steps, so only the output of the commands shows progress. */
static bool tells_by_output(const struct watchdog *dog)
{
    return dog->ranks->n == 0 && dog->ranks->ncounting == 0 && plan_of(dog)->silence_ns > 0;
}

static struct peer_watch view_of_output(const struct watchdog *dog)
{
    int64_t limit = plan_of(dog)->silence_ns;
    int64_t since = dog->output_at > dog->began_at ? dog->output_at : dog->began_at;
    bool is_silent = dog->output_at > 0 && is_over(since, limit, dog->out->now);
    int64_t ago = dog->out->now - since;
    return (struct peer_watch){.motion = is_silent ? MOTION_SILENT : MOTION_MOVES,
                               .still_ns = ago,
                               .limit_ns = limit,
                               .behind_rank = -1,
                               .behind_ago_ns = ago};
}

static void name_behind(const struct watchdog *dog, const struct member *behind,
                        struct peer_watch *view)
{
    view->behind_rank = behind->rank;
    view->behind_pid = behind->pid;
    view->behind_step = behind->stand.step;
    view->behind_ago_ns = dog->out->now - behind->stand.since;
    view->behind_stopped = is_stopped(dog, behind);
}

/* A launcher ends its other ranks when one has given up. The rank that they waited for needs a
 * signal, and so ends last. */
static void name_last_to_end(const struct watchdog *dog, struct peer_watch *view)
{
    const struct member *m, *last = NULL;
    for (int i = 0; (m = ranks_at(dog->ranks, i)); i++)
        if (ranks_is_silent(m) && !m->gave_up && (!last || m->gone_at > last->gone_at))
            last = m;
    if (!last)
        return;
    name_behind(dog, last, view);
    view->behind_step = last->step; /* its last step may have come after the last look */
    view->behind_phase = (uint8_t)last->stand.phase;
    view->behind_count = 1;
}

/* A rank that has stood for long may have waited for a rank that just moved. So the limit of all
 * ranks runs from the last move of any rank. */
static struct peer_watch view_of_ranks(const struct watchdog *dog, const struct watchdog_node *node)
{
    int64_t now = dog->out->now;
    struct peer_watch view = {
        .motion = MOTION_RESTS, .still_ns = now - dog->moved_at, .behind_rank = -1};
    const struct member *m, *behind = NULL;
    for (int i = 0; (m = ranks_at(dog->ranks, i)); i++) {
        if (!is_watched(m))
            continue;
        enum page_phase phase = phase_of(m, node);
        int64_t limit = limit_of(dog, m, phase);
        view.limit_ns = limit > view.limit_ns ? limit : view.limit_ns;
        view.still_ns = clock_min(view.still_ns, now - m->stand.since);
        int64_t patience = follows_timeout(dog, m, phase) ? m->timeout_ns + margin_of(dog, m) : 0;
        view.patience_ns = patience > view.patience_ns ? patience : view.patience_ns;
        if (!behind || is_behind(dog, node, m, behind)) {
            behind = m;
            view.behind_phase = (uint8_t)phase;
            view.behind_count = 0;
        }
        view.behind_count += m->stand.step == behind->stand.step && phase == view.behind_phase;
    }
    if (!behind)
        return view;
    view.motion = is_over(now - view.still_ns, view.limit_ns, now) ? MOTION_STANDS : MOTION_MOVES;
    name_behind(dog, behind, &view);
    return view;
}

/* Ranks that have not attached yet have the start limit. */
static void add_absent(const struct watchdog *dog, struct peer_watch *view)
{
    int expected = dog->ranks->expected == RANKS_UNKNOWN ? 1 : dog->ranks->expected;
    int absent = expected - dog->ranks->n - dog->ranks->ncounters;
    int64_t limit = start_limit(dog);
    if (absent <= 0 || view->motion == MOTION_MOVES || reads_steps(dog))
        return;
    if (!is_over(dog->began_at, limit, dog->out->now)) {
        view->motion = MOTION_MOVES;
        return;
    }
    view->absent = (uint16_t)absent;
    if (view->motion == MOTION_RESTS)
        view->motion = MOTION_ABSENT;
}

static struct peer_watch view_of(const struct watchdog *dog, const struct watchdog_node *node)
{
    if (plan_of(dog)->mode == WATCHDOG_OFF || node->is_quiet)
        return (struct peer_watch){.motion = MOTION_MOVES, .behind_rank = -1};
    if (!node->is_running || dog->ranks->expected == 0)
        return (struct peer_watch){
            .motion = MOTION_RESTS, .still_ns = dog->out->now - dog->moved_at, .behind_rank = -1};
    if (tells_by_output(dog))
        return view_of_output(dog);
    if (awaits_first_line(dog))
        return view_before_lines(dog);
    struct peer_watch view = view_of_ranks(dog, node);
    add_absent(dog, &view);
    return view;
}

struct peer_watch watchdog_view(const struct watchdog *dog, const struct watchdog_node *node)
{
    struct peer_watch view = view_of(dog, node);
    view.examined = dog->examined;
    view.gave_up = (uint16_t)ranks_count_gave_up(dog->ranks);
    if (view.gave_up > 0 && view.behind_rank < 0)
        name_last_to_end(dog, &view);
    return view;
}

/* --- examinations --- */

void watchdog_order(struct watchdog *dog, uint32_t examine)
{
    if (examine == 0 || examine == dog->examine)
        return;
    dog->examine = examine;
    dog->examined_at = dog->out->now;
    out_act(dog->out, &(struct action){.type = ACT_EXAMINE, .examine = examine});
}

/* A debugger holds a process. Other ranks may wait for it, so all limits begin anew. */
static void excuse(struct watchdog *dog)
{
    struct member *m;
    dog->began_at = dog->moved_at = dog->out->now;
    for (int i = 0; (m = ranks_at(dog->ranks, i)); i++)
        m->stand.since = dog->out->now;
}

/* Names a stopped process. Without a debugger, its stop counts as longer than any step may take. */
static void tell_stopped(struct watchdog *dog, int pid, bool is_traced)
{
    if (is_traced)
        out_log(dog->out, LOG_WARN, "watchdog", "process %d is stopped by a debugger: no hang",
                pid);
    else
        out_log(dog->out, LOG_WARN, "watchdog",
                "process %d is stopped by a signal, and no debugger is attached: that is a hang; "
                "kill -CONT %d lets it go on",
                pid, pid);
    dog->has_told_stopped = true;
}

void watchdog_examined(struct watchdog *dog, const struct event *event)
{
    int pid = event->examined.stopped_pid;
    if (event->examined.number != dog->examine)
        return;
    dog->stopped_pid = event->examined.is_traced ? 0 : pid;
    if (event->examined.is_traced)
        excuse(dog);
    if (pid && !dog->has_told_stopped)
        tell_stopped(dog, pid, event->examined.is_traced);
    dog->examined_steps = dog->examine;
    out_simple(dog->out, ACT_READ_STEPS);
}

void watchdog_forgive(struct watchdog *dog, int64_t away)
{
    struct member *m;
    dog->began_at += away;
    dog->moved_at += away;
    for (int i = 0; (m = ranks_at(dog->ranks, i)); i++)
        m->stand.since += away;
}

/* --- time --- */

/* When the time for a step is read next. Until a rank has marked a wait, the watchdog looks for
 * marks less and less often. */
static int64_t slow_look_at(const struct watchdog *dog)
{
    int64_t pause = (dog->looked_at - dog->began_at) / 2;
    if (dog->ranks->nconnected + dog->ranks->ncounting < 2)
        return CLOCK_NEVER;
    if (pause < LOOK_SLOW_NS || slowness_is_known(dog->ranks))
        pause = LOOK_SLOW_NS;
    return dog->looked_at + pause;
}

int64_t watchdog_wake_at(const struct watchdog *dog, const struct watchdog_node *node)
{
    const struct core_params *params = dog->out->params;
    bool has_some = dog->ranks->nconnected > 0 || dog->ranks->ncounting > 0 ||
                    tells_by_output(dog) || awaits_first_line(dog);
    if (params->nnodes > 1 || !has_some || !node->is_running)
        return CLOCK_NEVER;
    int64_t look_at = plan_of(dog)->mode != WATCHDOG_OFF ? dog->look_at : CLOCK_NEVER;
    return clock_min(look_at, slow_look_at(dog));
}

void watchdog_look(struct watchdog *dog)
{
    plan_look(dog); /* EV_STEPS follows */
    out_simple(dog->out, ACT_READ_STEPS);
}

/* SPDX-License-Identifier: Apache-2.0
 * See grace.h.
 */
#include "core/grace.h"

#include "base/clock.h"
#include "base/sigtext.h"
#include "base/str.h"

static void open_notice(struct grace *grace, int signal, int64_t now, int64_t grace_ns)
{
    *grace = (struct grace){
        .is_live = true, .at = now, .deadline = now + grace_ns, .signal = signal, .last_at = now};
    sigtext(signal, grace->source);
}

enum grace_change grace_signal(struct grace *grace, int signal, int64_t now, int64_t grace_ns)
{
    if (!grace->is_live) {
        open_notice(grace, signal, now, grace_ns);
        return GRACE_NEW;
    }
    bool is_repeat = signal == grace->signal;
    if (is_repeat && now - grace->last_at <= GRACE_SAME_NS)
        return GRACE_SAME;
    if (!is_repeat) {
        if (now + grace_ns >= grace->deadline)
            return GRACE_SAME;
        grace->deadline = now + grace_ns;
        grace->signal = signal;
        grace->last_at = now;
        sigtext(signal, grace->source);
        return GRACE_SOONER;
    }
    grace->last_at = now;
    if (grace->hurry == HURRY_STOP)
        return GRACE_SAME;
    grace->hurry++;
    return GRACE_HURRIED;
}

enum grace_change grace_shield(struct grace *grace, int signal, int64_t now, int64_t grace_ns)
{
    if (grace->is_live)
        return GRACE_SAME;
    open_notice(grace, signal, now, grace_ns);
    str_copy(grace->text, sizeof grace->text, "sent to a training process");
    return GRACE_NEW;
}

int64_t grace_clamp(int64_t left_ns)
{
    if (left_ns > GRACE_MAX_NS)
        return GRACE_MAX_NS;
    return left_ns < -GRACE_MAX_NS ? -GRACE_MAX_NS : left_ns;
}

int64_t grace_margin(int64_t left_ns)
{
    int64_t margin = left_ns / 8;
    if (margin > 3 * NS_PER_S)
        margin = 3 * NS_PER_S;
    return margin > 0 ? margin : 0;
}

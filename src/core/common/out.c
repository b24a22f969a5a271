/* SPDX-License-Identifier: Apache-2.0
 * See out.h.
 */
#include "core/common/out.h"

#include "base/str.h"
#include "core/common/params.h"

#include <assert.h>
#include <stdio.h>
#include <string.h>

void out_act(struct out *out, const struct action *action)
{
    out->act(out->shell, action);
}

void out_simple(struct out *out, enum action_type type)
{
    out_act(out, &(struct action){.type = type});
}

void out_log(struct out *out, enum log_level level, const char *topic, const char *fmt, ...)
{
    char text[1024]; /* room for a `why` of PEERMSG_WHY_SIZE */
    va_list ap;
    va_start(ap, fmt);
    vsnprintf(text, sizeof text, fmt, ap);
    va_end(ap);
    out_act(out, &(struct action){.type = ACT_LOG,
                                  .log = {.level = (int)level, .topic = topic, .text = text}});
}

bool out_promise(struct out *out, int number, bool holds, const char *what)
{
    if (holds)
        return true;
    out_log(out, LOG_ERROR, "bug", "promise %d is broken: not %s", number, what);
    out->broken = out->broken ? out->broken : number;
    return false;
}

void out_send(struct out *out, int conn, const struct peermsg *msg)
{
    if (conn == CONN_NONE)
        return;
    if (conn == CONN_SELF) {
        assert(out->nqueue < OUT_QUEUE);
        out->queue[out->nqueue++] = *msg;
        return;
    }
    out_act(out, &(struct action){.type = ACT_SEND, .peer = {.conn = conn, .msg = msg}});
}

void out_hello(struct out *out, int conn, struct peermsg *msg)
{
    const struct core_params *p = out->params;
    msg->type = PEERMSG_HELLO;
    msg->stamp.epoch = p->epoch;
    msg->hello.incarnation = p->incarnation;
    msg->hello.node_rank = (uint32_t)p->node_rank;
    msg->hello.nnodes = (uint32_t)p->nnodes;
    msg->hello.pid = (uint32_t)p->pid;
    str_copy(msg->hello.host, sizeof msg->hello.host, p->host);
    str_copy(msg->hello.job, sizeof msg->hello.job, p->identity);
    str_copy(msg->hello.settings, sizeof msg->hello.settings, p->settings);
    out_send(out, conn, msg);
}

bool out_next(struct out *out, struct peermsg *ret)
{
    if (out->nqueue == 0)
        return false;
    *ret = out->queue[0];
    out->nqueue--;
    memmove(out->queue, out->queue + 1, (size_t)out->nqueue * sizeof out->queue[0]);
    return true;
}

void out_proc(struct out *out, int slot, const struct procmsg *msg)
{
    out_act(out, &(struct action){.type = ACT_PROC_SEND, .proc = {.slot = slot, .msg = msg}});
}

void out_close_proc(struct out *out, int slot)
{
    out_act(out, &(struct action){.type = ACT_PROC_CLOSE, .proc = {.slot = slot}});
}

void out_signal(struct out *out, int number, enum signal_target target)
{
    out_act(out,
            &(struct action){.type = ACT_SIGNAL, .signal = {.number = number, .target = target}});
}

uint16_t out_port(struct out *out)
{
    uint16_t port = 0;
    out_act(out, &(struct action){.type = ACT_PORT, .port = &port});
    return port;
}

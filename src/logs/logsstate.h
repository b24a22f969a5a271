/* SPDX-License-Identifier: Apache-2.0
 *
 * logsstate: what logs (the generations, and what others read) and logsrun (the pipes and the log
 * process of one generation) share. Only they use the private fields.
 */
#pragma once

#include "base/log.h"
#include "config/config.h"
#include "core/common/params.h"
#include "loop/loop.h"
#include "os/dirlock.h"

#include <regex.h>

enum logs_stream { LOGS_STDOUT, LOGS_STDERR, LOGS_STREAM__COUNT };
enum logs_pattern { LOGS_STEP, LOGS_FAILURE, LOGS_PATTERN__COUNT };

struct logs {
    const struct config *config;
    const struct core_params *params;
    struct reap *reap;
    struct loop *loop;
    unsigned closed; /* standard descriptors that pchrun was started without */
    /* The result of logs_found() may have changed; may be NULL. */
    void (*on_found)(void *ctx);
    void *ctx;
    /* private from here on */
    bool is_on;
    int out; /* a copy of pchrun's standard output; -1: none */
    regex_t patterns[LOGS_PATTERN__COUNT];
    bool has_pattern[LOGS_PATTERN__COUNT];
    struct log_limit limit;
    struct dirlock dir;   /* logs.dir; its helper has checked the directory */
    struct logs_run *run; /* the newest generation, then older ones whose log process runs */
};

/* SPDX-License-Identifier: Apache-2.0
 *
 * pchrun-watch: prints a line each time that a source announces what will happen to this machine.
 * See pchrun-watch(1).
 *
 * This file has the command line, the run, and the only exit.
 */
#include "base/fd.h"
#include "base/log.h"
#include "watch/watchrun.h"

#include <stdlib.h>

int main(int argc, char **argv)
{
    struct watch_options options;
    struct log_options log = {.level = LOG_INFO, .node_rank = -1, .program = "pchrun-watch"};
    struct err err;
    unsigned opened;
    log_init(&log);
    if (!fd_fill_standard(&opened, &err)) {
        log_error(NULL, "%s", err.text);
        return EXIT_FAILURE;
    }
    switch (watch_options_read(argv, stdout, &options, &err)) {
    case ARGS_RUN:
        log.format = (enum log_format)options.log_format;
        log_init(&log);
        return watch_run(&options);
    case ARGS_SHOWN:
        return EXIT_SUCCESS;
    case ARGS_BAD:
        break;
    }
    log_error(NULL, "%s", err.text);
    return err.code == ERR_USAGE ? WATCH_EXIT_USAGE : EXIT_FAILURE;
}

/* SPDX-License-Identifier: Apache-2.0
 *
 * standby: a spare (cluster.spares): one connection to node 0, the notice sources, and signals,
 * until node 0 gives it the place of a lost node or the job ends. It opens no part of the shell, so
 * it holds no file of the job. src/core/spare decides. Main thread, before shell_run() or between
 * two runs of it.
 */
#pragma once

#include "config/config.h"
#include "run/shell.h"

/* Stands by. True: config->cluster.node_rank is the node whose place this pchrun takes. False: it
 * has ended, see *ret_end. */
MUST_CHECK bool standby_run(struct config *config, struct shell_end *ret_end);

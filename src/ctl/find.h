/* SPDX-License-Identifier: Apache-2.0
 *
 * find: which supervisor is meant. Those of this user (for root: of all) have private directories
 * in the usual places; each is asked who it is. Main thread.
 */
#ifndef PCHRUN_CTL_FIND_H
#define PCHRUN_CTL_FIND_H

#include "ctl/options.h"

#define FIND_DIR_MAX 108 /* bytes of a Unix socket's path */

/* The one that the options mean, as the path of its directory. False: there is none, or more than
 * one, and *err names where was looked or the options that tell them apart; those that there are
 * were listed on `list`. */
MUST_CHECK bool find_dir(const struct ctl_options *options, char ret[FIND_DIR_MAX], FILE *list,
                         struct err *err);

#endif

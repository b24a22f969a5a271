/* SPDX-License-Identifier: Apache-2.0
 *
 * savepath: the path that a program reports for its checkpoint. A relative path becomes absolute,
 * since the next start may have another working directory. A path at which there is nothing makes
 * the save fail: a commit of it could not be resumed. Owns nothing, never waits. Any thread.
 */
#ifndef PCHRUN_LIBPCH_SAVEPATH_H
#define PCHRUN_LIBPCH_SAVEPATH_H

#include "base/err.h"
#include "wire/procmsg.h"

/* The path as the supervisor keeps it, "" for NULL. A path with a scheme (gs://bucket/7) is copied
 * and not looked for. False: the save has failed, and the text says why. */
MUST_CHECK bool savepath_take(char ret[PROCMSG_PATH_MAX], const char *path, struct err *err);
/* Is there a checkpoint at a path that savepath_take() has given, as far as can be known? */
MUST_CHECK bool savepath_look(const char *path, struct err *err);

#endif

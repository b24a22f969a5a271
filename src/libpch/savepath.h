/* SPDX-License-Identifier: Apache-2.0
 *
 * savepath: the checkpoint path that a program reports. A relative path becomes absolute, because
 * the next start may have another working directory. If nothing exists at the path, the save fails:
 * no job could resume from it. Owns nothing, never waits. Any thread.
 */
#pragma once

#include "base/err.h"
#include "wire/procmsg.h"

/* The path as the supervisor keeps it, "" for NULL. A path with a scheme (gs://bucket/7) is copied
 * and not checked. False: the save has failed; *err says why. */
MUST_CHECK bool savepath_take(char ret[PROCMSG_PATH_MAX], const char *path, struct err *err);
/* True if something exists at this path, which is from savepath_take(). Always true for a URL. */
MUST_CHECK bool savepath_look(const char *path, struct err *err);

/* SPDX-License-Identifier: Apache-2.0
 *
 * keyfile: the file with the key that the nodes of a job share: how it is made, and how it is read.
 *
 * It holds one line, "pchrun-key-1:" and 64 hexadecimal digits: 32 random bytes. Nobody but its
 * owner and perhaps a group may read it, and only its owner, this user or root, may write it;
 * symbolic links to such a file will do, as Kubernetes makes them. Owns nothing. Main thread.
 */
#ifndef PCHRUN_BASE_KEYFILE_H
#define PCHRUN_BASE_KEYFILE_H

#include "base/err.h"

#include <stddef.h>
#include <stdint.h>

struct key {
    uint8_t bytes[32];
};

/* The error names the command that mends it. key_wipe() what was read. */
MUST_CHECK bool keyfile_read(const char *path, struct key *ret, struct err *err);
/* What the file holds, without its last newline or with it. False: that is no key. */
MUST_CHECK bool keyfile_parse(const char *text, size_t len, struct key *ret);
/* Writes a new random key to a new file that this user alone can read. */
MUST_CHECK bool keyfile_make(const char *path, struct err *err);
void key_wipe(struct key *key);

#endif

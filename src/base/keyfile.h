/* SPDX-License-Identifier: Apache-2.0
 *
 * keyfile: makes and reads the file with the key that the nodes of a job share.
 *
 * It holds one line, "pchrun-key-1:" and 64 hexadecimal digits: 32 random bytes. Only its owner,
 * and perhaps a group, may read it. Only its owner, who is this user or root, may write it.
 * Symbolic links to such a file are allowed, because Kubernetes makes them. Owns nothing. Main
 * thread.
 */
#pragma once

#include "base/err.h"

#include <stddef.h>
#include <stdint.h>

struct key {
    uint8_t bytes[32];
};

/* The error names the command that repairs the file. Call key_wipe() on the result. */
MUST_CHECK bool keyfile_read(const char *path, struct key *ret, struct err *err);
/* Parses the file's content, with or without the last newline. False: not a key. */
MUST_CHECK bool keyfile_parse(const char *text, size_t len, struct key *ret);
/* Writes a new random key to a new file that this user alone can read. */
MUST_CHECK bool keyfile_make(const char *path, struct err *err);
void key_wipe(struct key *key);

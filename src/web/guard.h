/* SPDX-License-Identifier: Apache-2.0
 *
 * guard: which requests pchrun-web answers: the check of the Host header, and of the token. Pure;
 * any thread.
 */
#pragma once

#include "base/address.h"

enum { GUARD_TOKEN_MIN = 16, GUARD_TOKEN_MAX = 128 };

struct guard {
    struct address listen;
    char host[ADDRESS_HOST_MAX];     /* the name of this machine; "": unknown */
    char token[GUARD_TOKEN_MAX + 1]; /* "": none is needed */
};

/* True if a browser that asked for a name of this server sends this Host header (NULL: none). The
 * page of another site cannot make its own name pass: a name must be that of this machine, and an
 * address must be of this machine, or any if a token is needed. The port is free, because ssh -L
 * may change it. */
bool guard_knows_host(const struct guard *guard, const char *header);
/* True if no token is needed, or if this Authorization header (NULL: none) has it: "Bearer TOKEN".
 * The time does not tell how much of the token is right. */
bool guard_admits(const struct guard *guard, const char *header);

/* SPDX-License-Identifier: Apache-2.0
 *
 * address: where somebody listens, as people write it: "n0", "n0:14242", "10.0.0.1:14242",
 * "fd00::1", "[fd00::1]:14242". Text only: nothing is looked up. Pure; any thread.
 */
#ifndef PCHRUN_BASE_ADDRESS_H
#define PCHRUN_BASE_ADDRESS_H

#include "base/err.h"

#define ADDRESS_HOST_MAX 256

struct address {
    char host[ADDRESS_HOST_MAX]; /* without brackets */
    int port;
};

/* Takes a text apart; one without a port gets `port`. False with what is wrong and how to write it.
 */
MUST_CHECK bool address_parse(const char *text, int port, struct address *ret, struct err *err);
/* Is it surely this machine? A name other than "localhost" is not, whatever it resolves to. */
bool address_is_loopback(const struct address *address);
/* Written alike, but for the case of letters. */
bool address_equal(const struct address *a, const struct address *b);

#endif

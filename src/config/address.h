/* SPDX-License-Identifier: Apache-2.0
 *
 * address: "host", "host:port", "[::1]" and "[::1]:port" as users write them. Nothing is looked up.
 * Pure; any thread.
 */
#ifndef PCHRUN_CONFIG_ADDRESS_H
#define PCHRUN_CONFIG_ADDRESS_H

#include "base/err.h"

#define ADDRESS_HOST_MAX 256

struct address {
    char host[ADDRESS_HOST_MAX]; /* without brackets */
    int port;
};

/* `port` is what an entry without one gets. */
MUST_CHECK bool address_parse(const char *text, int port, struct address *ret, struct err *err);
/* Is it surely this machine? A name other than "localhost" is not, whatever it resolves to. */
bool address_is_loopback(const struct address *address);
bool address_equal(const struct address *a, const struct address *b);
/* Is the port free of the uses that training frameworks make of it? */
MUST_CHECK bool address_port_ok(int port, struct err *err);

#endif

/* SPDX-License-Identifier: Apache-2.0
 *
 * address: a host and perhaps a port, as people write them: "n0", "n0:14242", "10.0.0.1:14242",
 * "fd00::1", "[fd00::1]:14242". Text only: nothing is looked up. Pure; any thread.
 */
#pragma once

#include "base/err.h"

#define ADDRESS_HOST_MAX 256

struct address {
    char host[ADDRESS_HOST_MAX]; /* without brackets */
    int port;
};

/* Parses a text; `port` is the default. False: *err says what is wrong and how to write it.
 */
MUST_CHECK bool address_parse(const char *text, int port, struct address *ret, struct err *err);
/* The most that address_text() writes. */
#define ADDRESS_TEXT_MAX (ADDRESS_HOST_MAX + 16)
/* Writes it with its port, as address_parse() reads it; returns `text`. */
char *address_text(const struct address *address, char text[ADDRESS_TEXT_MAX]);
/* True for a loopback address and for "localhost". Other names are not resolved. */
bool address_is_loopback(const struct address *address);
/* Compares like strcmp(3), first the ports, then the hosts, ignoring case; resolves no name. */
int address_compare(const struct address *a, const struct address *b);

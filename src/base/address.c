/* SPDX-License-Identifier: Apache-2.0
 * See address.h.
 */
#include "base/address.h"

#include "base/str.h"

#include <arpa/inet.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <strings.h>

#define HOW_TO_WRITE "write host, host:port or [IPv6 address]:port"

/* Copies the host: the text up to `end`. */
static bool take_host(const char *text, const char *end, struct address *a)
{
    return end > text && str_addf(a->host, sizeof a->host, "%.*s", (int)(end - text), text);
}

static bool is_ipv6(const struct address *a)
{
    struct in6_addr ignored;
    char host[sizeof a->host];
    snprintf(host, sizeof host, "%.*s", (int)strcspn(a->host, "%"), a->host);
    return inet_pton(AF_INET6, host, &ignored) == 1;
}

static bool is_name(const char *host)
{
    /* inet_aton() takes "14242" for an address; no user means it as a host. */
    return host[0] != '-' && host[0] != '.' && str_is_of(host, STR_LETTERS STR_DIGITS "-._") &&
           !str_is_of(host, STR_DIGITS);
}

/* Fills in the host. *ret_port points to the text of the port (NULL: none). */
static bool split(const char *text, struct address *a, const char **ret_port)
{
    const char *colon = strchr(text, ':');
    *ret_port = NULL;
    if (text[0] == '[') {
        const char *end = strchr(text, ']');
        if (!end || (end[1] != '\0' && end[1] != ':') || !take_host(text + 1, end, a))
            return false;
        *ret_port = end[1] ? end + 2 : NULL;
        return is_ipv6(a);
    }
    if (colon && strchr(colon + 1, ':'))
        return take_host(text, text + strlen(text), a) && is_ipv6(a);
    *ret_port = colon ? colon + 1 : NULL;
    return take_host(text, colon ? colon : text + strlen(text), a) && is_name(a->host);
}

bool address_parse(const char *text, int port, struct address *ret, struct err *err)
{
    struct address a = {.port = port};
    const char *digits;
    if (!split(text, &a, &digits))
        return err_set(err, ERR_USAGE, 0, "'%.100s' is not an address; " HOW_TO_WRITE, text);
    int64_t number;
    if (digits && !str_to_i64(digits, 1, UINT16_MAX, &number))
        return err_set(err, ERR_USAGE, 0, "the port of '%.100s' is not a number from 1 to 65535",
                       text);
    if (digits)
        a.port = (int)number;
    *ret = a;
    return true;
}

char *address_text(const struct address *address, char text[ADDRESS_TEXT_MAX])
{
    bool is_v6 = strchr(address->host, ':') != NULL;
    snprintf(text, ADDRESS_TEXT_MAX, "%s%s%s:%d", is_v6 ? "[" : "", address->host, is_v6 ? "]" : "",
             address->port);
    return text;
}

bool address_is_loopback(const struct address *address)
{
    struct in_addr in;
    struct in6_addr in6;
    if (inet_pton(AF_INET, address->host, &in) == 1)
        return ntohl(in.s_addr) >> 24 == IN_LOOPBACKNET;
    if (inet_pton(AF_INET6, address->host, &in6) == 1)
        return IN6_IS_ADDR_LOOPBACK(&in6);
    return strcasecmp(address->host, "localhost") == 0;
}

int address_compare(const struct address *a, const struct address *b)
{
    int ports = (a->port > b->port) - (a->port < b->port);
    return ports != 0 ? ports : strcasecmp(a->host, b->host);
}

/* SPDX-License-Identifier: Apache-2.0
 * See guard.h.
 */
#include "web/guard.h"

#include <arpa/inet.h>
#include <string.h>
#include <strings.h>

#define BEARER "Bearer "

static bool is_ip(const char *host)
{
    struct in6_addr ignored;
    return inet_pton(AF_INET, host, &ignored) == 1 || inet_pton(AF_INET6, host, &ignored) == 1;
}

bool guard_knows_host(const struct guard *guard, const char *header)
{
    struct address asked;
    if (!header || !address_parse(header, 80, &asked, NULL))
        return false;
    /* 127.0.0.1 and localhost: also the near end of ssh -L. */
    if (address_is_loopback(&asked) || strcasecmp(asked.host, guard->listen.host) == 0)
        return true;
    if (address_is_loopback(&guard->listen))
        return false;
    return is_ip(asked.host) || (guard->host[0] && strcasecmp(asked.host, guard->host) == 0);
}

bool guard_admits(const struct guard *guard, const char *header)
{
    const char *token = guard->token;
    if (!token[0])
        return true;
    if (!header || strncasecmp(header, BEARER, strlen(BEARER)) != 0)
        return false;
    const char *given = header + strlen(BEARER);
    size_t len = strlen(token), given_len = strlen(given);
    unsigned differ = len != given_len;
    /* Every byte of the token is compared, whatever was given. */
    for (size_t i = 0; i < len; i++)
        differ |= (unsigned)((unsigned char)token[i] ^ (unsigned char)given[i % (given_len + 1)]);
    return differ == 0;
}

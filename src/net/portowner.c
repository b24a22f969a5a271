/* SPDX-License-Identifier: Apache-2.0
 * See portowner.h. Finds the inode of the port's socket in /proc/net/tcp and tcp6, then the process
 * that has this inode in /proc/PID/fd.
 */
#include "net/portowner.h"

#include "base/fd.h"
#include "base/str.h"

#include <glob.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

/* Reads a line's local address: 8 or 32 hexadecimal digits, as words in the host's byte order. */
static bool parse_host(const char *hex, union netaddr *ret)
{
    size_t words = strlen(hex) / 8;
    uint32_t raw[4] = {0};
    if (words != 1 && words != 4)
        return false;
    for (size_t i = 0; i < words; i++)
        if (sscanf(hex + 8 * i, "%8" SCNx32, &raw[i]) != 1)
            return false;
    memset(ret, 0, sizeof *ret);
    ret->any.sa_family = words == 1 ? AF_INET : AF_INET6;
    if (words == 1)
        memcpy(&ret->v4.sin_addr, raw, 4);
    else
        memcpy(&ret->v6.sin6_addr, raw, 16);
    return true;
}

static bool is_any(const union netaddr *a)
{
    return a->any.sa_family == AF_INET ? a->v4.sin_addr.s_addr == INADDR_ANY
                                       : IN6_IS_ADDR_UNSPECIFIED(&a->v6.sin6_addr);
}

/* True if a socket at address `there` keeps us from binding `where`. */
static bool is_in_the_way(const union netaddr *there, const union netaddr *where)
{
    return is_any(there) || is_any(where) || netaddr_same_host(there, where);
}

/* The inode of the socket; 0: not found. Prefers a listening socket to a connection. */
static uint64_t find_inode(const char *path, const union netaddr *where)
{
    FILE *file = fopen(path, "re");
    if (!file)
        return 0;
    uint64_t best = 0;
    bool is_listening = false;
    char line[512];
    while (!is_listening && fgets(line, sizeof line, file)) {
        char host[40];
        unsigned port, state;
        uint64_t inode;
        union netaddr there;
        if (sscanf(line, " %*d: %32[0-9A-F]:%x %*s %x %*s %*s %*s %*s %*s %" SCNu64, host, &port,
                   &state, &inode) != 4)
            continue;
        if ((int)port != netaddr_port(where) || inode == 0 || !parse_host(host, &there) ||
            !is_in_the_way(&there, where))
            continue;
        best = inode;
        is_listening = state == 0x0a; /* TCP_LISTEN */
    }
    fclose(file);
    return best;
}

static bool find_process(uint64_t inode, char *text, size_t size)
{
    char socket[64], target[64], path[64], name[64];
    glob_t all;
    bool found = false;
    snprintf(socket, sizeof socket, "socket:[%" PRIu64 "]", inode);
    if (glob("/proc/[1-9]*/fd/*", GLOB_NOSORT, NULL, &all) != 0)
        return false;
    for (size_t i = 0; !found && i < all.gl_pathc; i++) {
        ssize_t n = readlink(all.gl_pathv[i], target, sizeof target - 1);
        target[n > 0 ? n : 0] = '\0';
        found = str_is(target, socket);
        if (!found)
            continue;
        int pid = atoi(all.gl_pathv[i] + strlen("/proc/"));
        snprintf(path, sizeof path, "/proc/%d/comm", pid);
        if (!fd_read_line(path, name, sizeof name))
            str_copy(name, sizeof name, "?");
        snprintf(text, size, "pid %d (%s) holds it", pid, name);
    }
    globfree(&all);
    return found;
}

char *portowner_of(const union netaddr *where, char *text, size_t size)
{
    uint64_t inode = find_inode("/proc/net/tcp", where);
    if (!inode)
        inode = find_inode("/proc/net/tcp6", where);
    if (!inode || !find_process(inode, text, size))
        str_copy(text, size, "no permission to see which process holds it");
    return text;
}

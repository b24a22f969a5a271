/* SPDX-License-Identifier: Apache-2.0
 *
 * portowner: which process has a TCP port, for the error that says it is in use.
 *
 * Reads /proc. Only root sees other users' processes. Other network namespaces are invisible. Any
 * thread.
 */
#pragma once

#include "net/netaddr.h"

/* "pid 4711 (python3) holds it", or that the process cannot be seen. Returns text. */
char *portowner_of(const union netaddr *where, char *text, size_t size);

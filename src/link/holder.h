/* SPDX-License-Identifier: Apache-2.0
 *
 * holder: which process has a TCP port, for the error that says it is in use.
 *
 * Reads /proc. Only root sees other users' processes. Other network namespaces are invisible. Any
 * thread.
 */
#ifndef PCHRUN_LINK_HOLDER_H
#define PCHRUN_LINK_HOLDER_H

#include "link/netaddr.h"

/* "pid 4711 (python3) holds it", or that the process cannot be seen. Returns text. */
char *holder_of(const union netaddr *where, char *text, size_t size);

#endif

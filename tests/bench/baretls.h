/* SPDX-License-Identifier: Apache-2.0
 *
 * baretls: TLS as pchrun speaks it with a key, for exchange: the same version, suite, group and
 * secret, by OpenSSL's own socket calls and without a check. One key in a process; what fails ends
 * it.
 */
#ifndef PCHRUN_BENCH_BARETLS_H
#define PCHRUN_BENCH_BARETLS_H

#include <openssl/ssl.h>
#include <sys/types.h>

SSL_CTX *baretls_new(const char *key_file, const char *job);
SSL *baretls_accept(SSL_CTX *context, int fd);
/* As recv(2), the handshake before the first byte: EAGAIN while there is nothing, 0 at the end,
 * whatever it is. */
ssize_t baretls_read(SSL *ssl, void *data, size_t size);

#endif

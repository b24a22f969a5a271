/* SPDX-License-Identifier: Apache-2.0
 *
 * baretls: TLS for exchange, with the version, suite, group and secret of pchrun. It uses OpenSSL's
 * own socket calls and checks nothing. A process has one key; a failure ends the process.
 */
#pragma once

#include <openssl/ssl.h>
#include <sys/types.h>

SSL_CTX *baretls_new(const char *key_file, const char *job);
SSL *baretls_accept(SSL_CTX *context, int fd);
/* As recv(2), with the handshake before the first byte: EAGAIN while there is no data, 0 at any
 * kind of end. */
ssize_t baretls_read(SSL *ssl, void *data, size_t size);

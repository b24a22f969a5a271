/* SPDX-License-Identifier: Apache-2.0
 *
 * fuzz.h: the common parts of the fuzzers. Each fuzzer is one function that libFuzzer calls with
 * any bytes. The function must return, whatever the bytes are. FUZZ_MUST ends the program if a
 * promise is broken, and libFuzzer keeps the bytes.
 */
#pragma once

#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

#define FUZZ_MUST(promise)                                                \
    do {                                                                  \
        if (!(promise)) {                                                 \
            fprintf(stderr, "%s:%d: %s\n", __FILE__, __LINE__, #promise); \
            abort();                                                      \
        }                                                                 \
    } while (0)

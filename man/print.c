/* SPDX-License-Identifier: Apache-2.0
 *
 * print: what pchrun prints about its own options, for the schema file that is made at build time.
 * It contains only pchrun's configuration, so the file can be made before pchrun is built. Exits
 * with 1 and a line on standard error if it cannot.
 */
#include "config/config.h"

#include <stdio.h>

int main(int argc, char **argv)
{
    char *no_environment[] = {NULL};
    struct config config;
    struct err err;
    switch (config_load(argv, no_environment, stdout, &config, &err)) {
    case ARGS_SHOWN:
        return 0;
    case ARGS_RUN:
        config_free(&config);
        fprintf(stderr, "print: nothing to print\n");
        return 1;
    default:
        fprintf(stderr, "print: %s\n", err.text);
        return 1;
    }
}

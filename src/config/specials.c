/* SPDX-License-Identifier: Apache-2.0
 * See options.h: the flags that are not options of the configuration.
 */
#include "config/options.h"

static const char *const manual_formats[] = {"mdoc", NULL};

const struct option_special option_specials[SPECIAL__COUNT] = {
    [SPECIAL_CONFIG] = {"config", 'c', "FILE", "read this configuration file (also PCHRUN_CONFIG)",
                        NULL},
    [SPECIAL_VERBOSE] = {"verbose", 'v', NULL, "say more; may be repeated", NULL},
    [SPECIAL_QUIET] = {"quiet", 'q', NULL, "say less; may be repeated", NULL},
    [SPECIAL_PRINT_CONFIG] = {"print-config", 0, NULL, "show every value and where it came from",
                              NULL},
    [SPECIAL_PRINT_SCHEMA] = {"print-schema", 0, NULL, "show the JSON schema of the file", NULL},
    [SPECIAL_PRINT_OPTIONS] = {"print-options", 0, "FORMAT", "show the options as a manual: mdoc",
                               manual_formats},
    [SPECIAL_MAKE_KEY] = {"make-key", 0, "FILE", "write a new key for cluster.key_file", NULL},
    [SPECIAL_DRILL] = {"drill", 0, "GRACE", "try a notice that leaves so much time", NULL},
    [SPECIAL_DOCTOR] = {"doctor", 0, NULL, "look for what would go wrong here; run nothing", NULL},
    [SPECIAL_VERSION] = {"version", 'V', NULL, "show the version", NULL},
    [SPECIAL_HELP] = {"help", 'h', NULL, "show this text", NULL},
};

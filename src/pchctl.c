/* SPDX-License-Identifier: Apache-2.0
 *
 * pchctl: shows the state of a job that runs under pchrun, and gives it orders. See pchctl(1).
 *
 * Here: the command line, the run, and the one exit.
 */
#include "base/fd.h"
#include "ctl/ctl.h"

int main(int argc, char **argv)
{
    struct ctl_options options;
    struct err err;
    unsigned opened;
    if (!fd_fill_standard(&opened, &err)) {
        ctl_complain(&err);
        return CTL_FAILED;
    }
    switch (ctl_options_read(argv, stdout, &options, &err)) {
    case ARGS_RUN:
        return ctl_run(&options);
    case ARGS_SHOWN:
        return CTL_DONE;
    case ARGS_BAD:
        break;
    }
    ctl_complain(&err);
    return err.code == ERR_USAGE ? CTL_USAGE : CTL_FAILED;
}

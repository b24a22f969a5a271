/* SPDX-License-Identifier: Apache-2.0
 *
 * pchctl: shows the state of a job that runs under pchrun, and gives it orders. See pchctl(1).
 */
#include "ctl/ctl.h"

int main(int argc, char **argv)
{
    return ctl_main(argv);
}

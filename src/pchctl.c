/* SPDX-License-Identifier: Apache-2.0
 *
 * pchctl: shows the state of a job that runs under pchrun, and gives it orders. See pchctl(1).
 */
#include "ctl/ctl.h"
#include "top/screen.h"
#include "top/top.h"

int main(int argc, char **argv)
{
    static const struct ctl_screen screen = {screen_is_possible, top_show};
    return ctl_main(argv, &screen);
}

/* SPDX-License-Identifier: Apache-2.0
 *
 * pchrun-web: shows a job that runs under pchrun as a page for a browser. See pchrun-web(1).
 */
#include "web/web.h"

int main(int argc, char **argv)
{
    return web_main(argv);
}

/* SPDX-License-Identifier: Apache-2.0
 *
 * test_healthxid: the Xids in the kernel log, and which of them count against a node.
 */
#include "health/healthxid.h"

#include <criterion/criterion.h>

TestSuite(healthxid);

#define RECORD "4,1234,98765,-;"

Test(healthxid, a_record)
{
    struct xid xid;
    cr_assert(healthxid_read(RECORD
                             "NVRM: Xid (PCI:0000:3b:00): 79, pid='<unknown>', GPU has fallen "
                             "off the bus.\n",
                             &xid));
    cr_expect_eq(xid.number, 1234);
    cr_expect(xid.domain == 0 && xid.bus == 0x3b && xid.device == 0);
    cr_expect_eq(xid.xid, 79);
    cr_assert(healthxid_read("6,5,1,c,caller=T1;NVRM: Xid (PCI:0008:01:1F): 119, Timeout\n", &xid));
    cr_expect(xid.domain == 8 && xid.bus == 1 && xid.device == 0x1f && xid.xid == 119);
    cr_assert(healthxid_read("6,5,1,-;NVRM: Xid (PCI:0008:01:1f GPU-I:05): 119, Timeout\n", &xid));
    cr_expect(xid.domain == 8 && xid.bus == 1 && xid.device == 0x1f && xid.xid == 119);
}

Test(healthxid, no_record)
{
    static const char *const lines[] = {
        "",
        "\n",
        "NVRM: Xid (PCI:0000:3b:00): 79\n",
        "4,1234,98765,-\n",
        "4;NVRM: Xid (PCI:0000:3b:00): 79\n",
        "4,-7,1,-;NVRM: Xid (PCI:0000:3b:00): 79\n",
        "4,9223372036854775807,1,-;NVRM: Xid (PCI:0000:3b:00): 79\n",
        " SUBSYSTEM=pci\n",
        RECORD "NVRM: Xid (PCI:0000:3b:00)\n",
        RECORD "NVRM: Xid (PCI:0000:3b): 79\n",
        RECORD "NVRM: Xid (PCI:0000:3b:00\n",
        RECORD "NVRM: Xid (PCI:0000:3b:00) (x): 79\n",
        RECORD "NVRM: Xid (PCI:0000:3b:00): -79\n",
        RECORD "a program: NVRM: Xid (PCI:0000:3b:00): 79\n",
        RECORD "NVRM: GPU 0000:3b:00.0: GPU has fallen off the bus.\n",
    };
    struct xid xid;
    for (size_t i = 0; i < sizeof lines / sizeof *lines; i++)
        cr_expect_not(healthxid_read(lines[i], &xid), "%s", lines[i]);
}

Test(healthxid, other_records)
{
    cr_expect(
        healthxid_is_new_driver(RECORD "NVRM: loading NVIDIA UNIX x86_64 Kernel Module  550\n"));
    cr_expect(healthxid_is_new_driver(RECORD "NVRM: loading NVIDIA UNIX Open Kernel Module\n"));
    cr_expect_not(healthxid_is_new_driver(RECORD "NVRM: Xid (PCI:0000:3b:00): 79\n"));
    cr_expect_eq(healthxid_number(RECORD "usb 1-1\n"), 1234);
    cr_expect_eq(healthxid_number(" DEVICE=c189:0\n"), -1);
}

/* NVIDIA's catalogue answers the first ones with an end of the program, the others with a reset. */
Test(healthxid, what_counts)
{
    static const int harmless[] = {0, 8, 13, 31, 43, 45, 63, 68, 92, 94, 109, 121, 154};
    static const int broken[] = {46, 48, 62, 64, 74, 79, 95, 119, 120, 140, 143};
    for (size_t i = 0; i < sizeof harmless / sizeof *harmless; i++)
        cr_expect_null(healthxid_meaning(harmless[i]), "%d", harmless[i]);
    for (size_t i = 0; i < sizeof broken / sizeof *broken; i++)
        cr_expect_not_null(healthxid_meaning(broken[i]), "%d", broken[i]);
}

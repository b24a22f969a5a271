/* SPDX-License-Identifier: Apache-2.0
 *
 * The platform: told from made-up environments, and from made-up files below a directory of the
 * test's own, so that it does not matter where the tests run.
 */
#include "folder.h"

#include "base/str.h"
#include "config/presets.h"

static const char *const files[] = {"sys/class/dmi/id/sys_vendor", "sys/class/dmi/id/product_name",
                                    "sys/class/dmi/id/chassis_asset_tag",
                                    "sys/class/dmi/id/bios_version", "dev/nvidia0"};
enum { VENDOR, PRODUCT, CHASSIS, BIOS, GPU, FILES };

TestSuite(presets_platform, .init = folder_make, .fini = folder_remove);

/* NULL: there is no such file. */
static void put_files(const char *const *content)
{
    for (size_t i = 0; i < FILES; i++) {
        unlink(folder_path(files[i]));
        if (content[i])
            folder_put(files[i], content[i]);
    }
}

Test(presets_platform, clouds)
{
    static const struct {
        const char *files[FILES];
        enum preset preset;
        const char *why;
    } rows[] = {
        {{"Google\n", "Google Compute Engine\n", "\n", "Google\n", NULL},
         PRESET_GCE_SPOT,
         "product_name is Google Compute Engine, and /dev/nvidia0 is not"},
        {{"Google\n", "Google\n"}, PRESET_GCE_SPOT, "product_name is Google,"},
        {{"Google\n", "Google Compute Engine\n", NULL, NULL, ""},
         PRESET_GCE_GPU,
         "product_name is Google Compute Engine, and /dev/nvidia0 is there"},
        /* Google's notebooks have this vendor, too. */
        {{"Google\n", "Eve\n"}, PRESET_NONE, "product_name is Eve"},
        {{"Google\n"}, PRESET_NONE, "product_name is "},
        {{"Amazon EC2\n", "p4d.24xlarge\n", "Amazon EC2\n", "1.0\n", ""},
         PRESET_AWS,
         "/sys/class/dmi/id/sys_vendor is Amazon EC2"},
        {{"Xen\n", "HVM domU\n", NULL, "4.11.amazon\n"}, PRESET_AWS, "bios_version is 4.11.amazon"},
        {{"Xen\n", "HVM domU\n", NULL, "4.14.3\n"}, PRESET_NONE, "bios_version is 4.14.3"},
        {{"Microsoft Corporation\n", "Virtual Machine\n", "7783-7084-3265-9085-8269-3286-77\n"},
         PRESET_AZURE,
         "chassis_asset_tag is 7783-7084-3265-9085-8269-3286-77"},
        {{"Microsoft Corporation\n", "Virtual Machine\n", "5519-3384\n"},
         PRESET_NONE,
         "chassis_asset_tag is 5519-3384"},
        {{"Alibaba Cloud\n", "Alibaba Cloud ECS\n"},
         PRESET_ALIBABA,
         "/sys/class/dmi/id/sys_vendor is Alibaba Cloud"},
        {{"Tencent Cloud\n", "CVM\n"}, PRESET_TENCENT, "sys_vendor is Tencent Cloud"},
        {{"QEMU\n", "Standard PC\n"}, PRESET_NONE, "/sys/class/dmi/id/sys_vendor is QEMU"},
        {{" Amazon EC2  \n"}, PRESET_AWS, "sys_vendor is Amazon EC2"},
        {{"amazon ec2\n"}, PRESET_NONE, "amazon ec2"},
        {{"Amazon EC2 lookalike\n"}, PRESET_NONE, "lookalike"},
        {{"", "Google Compute Engine\n"}, PRESET_NONE, "sys_vendor cannot be read, or is empty"},
        {{NULL}, PRESET_NONE, "sys_vendor cannot be read, or is empty"},
    };
    for (size_t i = 0; i < ARRAY_LEN(rows); i++) {
        struct platform found;
        put_files(rows[i].files);
        platform_cloud(folder, &found);
        cr_expect_eq(found.preset, rows[i].preset, "row %zu is %s", i, preset_names[found.preset]);
        cr_expect(strstr(found.why, rows[i].why), "row %zu: %s", i, found.why);
        cr_expect(!strstr(found.why, folder), "the files are named as on a machine: %s", found.why);
    }
}

/* The hypervisor's text goes into a terminal and into JSON. */
Test(presets_platform, a_vendor_of_any_bytes)
{
    char vendor[4096];
    struct platform found;
    memset(vendor, 'x', sizeof vendor - 1);
    vendor[sizeof vendor - 1] = '\0';
    memcpy(vendor, "\x1b[31m\xff\xc3", 7);
    put_files((const char *[FILES]){vendor});
    platform_cloud(folder, &found);
    cr_expect_eq(found.preset, PRESET_NONE);
    cr_expect(strstr(found.why, "sys_vendor is ?[31m??xxx"), "%s", found.why);
    cr_expect_lt(strlen(found.why), 128);
}

Test(presets_platform, a_file_that_cannot_be_read)
{
    struct platform found;
    folder_put(files[VENDOR], "");
    const char *path = folder_path(files[VENDOR]);
    cr_assert(unlink(path) == 0 && mkdir(path, 0700) == 0);
    platform_cloud(folder, &found);
    cr_expect_eq(found.preset, PRESET_NONE);
    cr_expect(strstr(found.why, "sys_vendor cannot be read"), "%s", found.why);
    cr_assert(rmdir(path) == 0);
    cr_assert(mkfifo(path, 0600) == 0); /* opening a FIFO may take for ever */
    platform_cloud(folder, &found);
    cr_expect_eq(found.preset, PRESET_NONE);
}

Test(presets_platform, schedulers)
{
    static const struct {
        const char *env[6];
        enum preset preset;
        const char *why;
    } rows[] = {
        {{"HOME=/folder", "SLURM_JOB_ID=17"}, PRESET_SLURM, "SLURM_JOB_ID is set"},
        {{"KUBERNETES_SERVICE_HOST=10.0.0.1"}, PRESET_KUBERNETES, "KUBERNETES_SERVICE_HOST is set"},
        {{"JOB_ID=3", "SGE_ROOT=/opt/sge"}, PRESET_SGE, "SGE_ROOT and JOB_ID are set"},
        /* A login on such a cluster; another scheduler's job. */
        {{"SGE_ROOT=/opt/sge"}, PRESET_NONE, "none is set"},
        {{"JOB_ID=3"}, PRESET_NONE, "none is set"},
        /* Slurm and Grid Engine in pods. */
        {{"KUBERNETES_SERVICE_HOST=10.0.0.1", "SLURM_JOB_ID=17"}, PRESET_SLURM, "SLURM_JOB_ID"},
        {{"KUBERNETES_SERVICE_HOST=::1", "JOB_ID=1", "SGE_ROOT=/"}, PRESET_SGE, "SGE_ROOT"},
        {{"SLURM_JOB_ID=", "SLURM_JOB_IDS=7", "XSLURM_JOB_ID=7", "SLURM_JOB_ID"},
         PRESET_NONE,
         "SLURM_JOB_ID, SGE_ROOT with JOB_ID, KUBERNETES_SERVICE_HOST: none is set"},
        {{NULL}, PRESET_NONE, "none is set"},
    };
    for (size_t i = 0; i < ARRAY_LEN(rows); i++) {
        struct platform found;
        platform_scheduler((char **)rows[i].env, &found);
        cr_expect_eq(found.preset, rows[i].preset, "row %zu is %s", i, preset_names[found.preset]);
        cr_expect(strstr(found.why, rows[i].why), "row %zu: %s", i, found.why);
    }
}

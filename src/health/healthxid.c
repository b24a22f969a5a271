/* SPDX-License-Identifier: Apache-2.0
 * See healthxid.h.
 */
#include "health/healthxid.h"

#include "base/str.h"

#include <limits.h>
#include <stdio.h>
#include <string.h>

/* "priority,number,time,flags;text". Returns the text, or NULL. */
static const char *record_text(const char *line, long long *ret_number)
{
    unsigned priority;
    if (sscanf(line, "%u,%lld,", &priority, ret_number) != 2 || *ret_number < 0 ||
        *ret_number == LLONG_MAX)
        return NULL;
    const char *text = strchr(line, ';');
    return text ? text + 1 : NULL;
}

/* With MIG the instance follows the place: "(PCI:0000:3b:00 GPU-I:05): 94". */
bool healthxid_read(const char *line, struct xid *ret)
{
    const char *text = record_text(line, &ret->number);
    int len = 0;
    if (!text ||
        sscanf(text, "NVRM: Xid (PCI:%x:%x:%x%n", &ret->domain, &ret->bus, &ret->device, &len) != 3)
        return false;
    const char *rest = strchr(text + len, ')');
    return rest && sscanf(rest, "): %d", &ret->xid) == 1 && ret->xid > 0;
}

bool healthxid_is_new_driver(const char *line)
{
    long long number;
    const char *text = record_text(line, &number);
    return text && str_starts(text, "NVRM: loading NVIDIA UNIX");
}

long long healthxid_number(const char *line)
{
    long long number;
    return record_text(line, &number) ? number : -1;
}

const char *healthxid_meaning(int xid)
{
    static const struct {
        int xid;
        const char *meaning;
    } broken[] = {
        {46, "the GPU has stopped working"},
        {48, "an uncorrectable memory error"},
        {62, "its power controller has halted"},
        {64, "a broken row or page of memory cannot be replaced"},
        {74, "an NVLink error"},
        {79, "the GPU has fallen off the bus"},
        {95, "an uncontained memory error"},
        {110, "a security fault"},
        {119, "its system processor (GSP) does not answer"},
        {120, "its system processor (GSP) has failed"},
        {136, "an NVLink that cannot be trained"},
        {140, "an unrecovered memory error"},
        {143, "the GPU cannot be initialized"},
    };
    for (size_t i = 0; i < ARRAY_LEN(broken); i++)
        if (broken[i].xid == xid)
            return broken[i].meaning;
    return NULL;
}

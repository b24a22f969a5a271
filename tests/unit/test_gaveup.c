/* SPDX-License-Identifier: Apache-2.0
 * core/gaveup: which texts of PyTorch's process groups mean a hang. Each text was printed by
 * PyTorch, but for its paths.
 */
#include "core/common/gaveup.h"

#include <criterion/criterion.h>
#include <string.h>

static const char *const gave_up[] = {
    /* gloo */
    "RuntimeError: [/pytorch/third_party/gloo/gloo/transport/tcp/unbound_buffer.cc:78] Timed out "
    "waiting 2000ms for recv operation to complete (graph.py:979, in _engine_run_backward)",
    "RuntimeError: [../gloo/transport/tcp/unbound_buffer.cc:129] Timed out waiting 1800000ms for "
    "send operation to complete",
    "RuntimeError: [../gloo/transport/tcp/pair.cc:534] Application timeout caused pair closure",
    "RuntimeError: [Rank 0]: Rank 1 failed to pass monitoredBarrier in 2000 ms",
    "RuntimeError: Rank 3 timed out in monitoredBarrier after 1800000 ms.",
    /* NCCL */
    "  what():  [PG ID 0 PG GUID 0(default_pg) Rank 3] Process group watchdog thread terminated "
    "with exception: [Rank 3] Watchdog caught collective operation timeout: WorkNCCL(SeqNum=4, "
    "OpType=BROADCAST, NumelIn=112, NumelOut=112, Timeout(ms)=1800000) ran for 1800011 "
    "milliseconds before timing out.",
    "torch.distributed.DistBackendError: [Rank 5] WorkNCCL(SeqNum=9141, "
    "OpType=_ALLGATHER_BASE, Timeout(ms)=600000) ran for 600020 milliseconds before timing out.",
    "[rank1]:[E ProcessGroupNCCL.cpp:1375] [PG 0 Rank 1] First PG on this rank that detected no "
    "heartbeat of its watchdog.\nterminate called: ProcessGroupNCCL's watchdog got stuck for 480 "
    "seconds without making progress in monitoring enqueued collectives.",
    "[rank2]:[E ProcessGroupNCCL.cpp:1785] [PG ID 0 PG GUID 0(default_pg) Rank 2] Received a dump "
    "signal due to a collective timeout from rank 0 and we will try our best to dump the debug "
    "info.",
    "[PG ID 0 PG GUID 0(default_pg) Rank 3] Timeout at NCCL work: 4, last enqueued NCCL work: 4, "
    "last completed NCCL work: 3.",
    /* the store */
    "torch.distributed.DistStoreError: Timed out after 61 seconds waiting for clients. 1/2 clients "
    "joined.",
    "torch.distributed.DistStoreError: wait timeout after 300000ms, keys: /default_pg/0//cuda//0",
};

static const char *const failed[] = {
    "",
    "ValueError: no such step (train.py:12, in save)",
    "RuntimeError: [../gloo/transport/tcp/pair.cc:553] Connection closed by peer "
    "[127.0.0.1]:30622. This is typically caused by a remote worker crashing.",
    "torch.distributed.DistBackendError: NCCL error in: ProcessGroupNCCL.cpp:2006, unhandled "
    "cuda error, NCCL version 2.19.3",
    "torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 2.00 GiB",
    "requests.exceptions.ReadTimeout: HTTPSConnectionPool(host='hub', port=443): Read timed out. "
    "(read timeout=10)",
    "TimeoutError: [Errno 110] Connection timed out",
    "terminate called without an active exception",
    "Timed out waiting for the licence\n3ms for nothing",
};

Test(gaveup, texts_of_a_hang)
{
    for (size_t i = 0; i < sizeof gave_up / sizeof gave_up[0]; i++)
        cr_assert(gaveup_is_told(gave_up[i]), "%s", gave_up[i]);
}

Test(gaveup, texts_of_a_failure)
{
    for (size_t i = 0; i < sizeof failed / sizeof failed[0]; i++)
        cr_assert(!gaveup_is_told(failed[i]), "%s", failed[i]);
}

Test(gaveup, the_line_is_found_among_others)
{
    char line[200];
    static const char text[] =
        "step 5\n"
        "[Rank 0] Watchdog caught collective operation timeout: WorkNCCL(SeqNum=2)\n"
        "frame #0: c10::Error::Error(c10::SourceLocation, std::string) + 0x96\n";
    cr_assert(gaveup_line(text, line, sizeof line));
    cr_assert_str_eq(line,
                     "[Rank 0] Watchdog caught collective operation timeout: WorkNCCL(SeqNum=2)");
    cr_assert(gaveup_line(text, line, 9));
    cr_assert_str_eq(line, "[Rank 0]");
    cr_assert(!gaveup_line("step 5\nValueError\n", line, sizeof line));
}

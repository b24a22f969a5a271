/* SPDX-License-Identifier: Apache-2.0
 * See doctor.h: the directories, the key, what the system allows, and the other nodes.
 */
#include "base/clock.h"
#include "base/fd.h"
#include "base/keyfile.h"
#include "base/str.h"
#include "base/value.h"
#include "discover/discover.h"
#include "doctor/doctor.h"
#include "os/cgroup.h"
#include "os/diskprobe.h"
#include "peers/cluster.h"
#include "procs/rundir.h"

#include <errno.h>
#include <limits.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/statvfs.h>
#include <unistd.h>

#define MIB (INT64_C(1) << 20)
#define GIB (1024 * MIB)

#define REACH_WAIT_NS (5 * NS_PER_S)

/* --- directories --- */

/* A missing directory is made at the start, so check its parent. */
static void place_find_dir(const char *dir, char ret[PATH_MAX])
{
    str_copy(ret, PATH_MAX, dir);
    char *slash = strrchr(ret, '/');
    if (access(dir, F_OK) != 0 && errno == ENOENT && slash)
        slash[slash == ret] = '\0';
}

static void place_check_dir(const char *dir, int64_t wanted_bytes, struct finding *ret)
{
    char there[PATH_MAX], room[32];
    struct statvfs fs;
    struct err err;
    int64_t took;
    if (!dir)
        return;
    place_find_dir(dir, there);
    if (!diskprobe(there, &took, &err)) {
        bool is_it = str_is(there, dir);
        finding_set(ret, FINDING_BAD, "%.300s%s%s", is_it ? "" : dir, is_it ? "" : ": ", err.text);
        finding_advise(ret, err.sys_errno == ENOENT
                                ? "make that directory, or mount its file system"
                                : "make room, or correct its owner, its mode or its mount");
        return;
    }
    if (statvfs(there, &fs) != 0) {
        finding_set(ret, FINDING_UNKNOWN, "it can be written; how much room is left is unknown");
        return;
    }
    int64_t left = (int64_t)(fs.f_bavail * fs.f_frsize);
    left -= left % (left < 10 * GIB ? MIB : GIB);
    finding_set(ret, left < wanted_bytes ? FINDING_WARN : FINDING_OK,
                "%.400s can be written; it has %s free", there,
                value_size_text(left, room, sizeof room));
    if (left < wanted_bytes)
        finding_advise(ret, "make room");
}

/* The other nodes may be on other machines, which see another directory at this path. */
static void place_check_shared(const struct config *config, const char *dir, struct finding *ret)
{
    char there[PATH_MAX];
    if (!dir || ret->verdict != FINDING_OK || config->cluster.nnodes == 1 ||
        !config->checkpoint.shared)
        return;
    place_find_dir(dir, there);
    if (!fd_is_local_dir(there) || cluster_is_here(config))
        return;
    finding_set(ret, FINDING_WARN,
                "%.300s is on a disk of this machine: a rank on another machine cannot load what "
                "is saved there",
                there);
    finding_advise(ret, "give all nodes one directory of a shared file system, or, if each rank "
                        "loads only what its own node saved, set --no-checkpoint-shared");
}

/* A start reads the record, and refuses one that is damaged or belongs to another job. */
static void place_check_record(const struct patient *patient, struct finding *ret)
{
    struct err err;
    if (ret->verdict < FINDING_BAD && patient_saves(patient, &err) < 0)
        finding_set(ret, FINDING_BAD, "%s", err.text);
}

/* A missing state directory is made in the checkpoint directory, so check that one. */
void check_state_dir(const struct patient *patient, struct finding *ret)
{
    const struct config *config = patient->config;
    const char *dir = patient->state_dir;
    if (dir && !config->state_dir && access(dir, F_OK) != 0)
        dir = config->checkpoint.dir;
    place_check_dir(dir, 16 * MIB, ret);
    place_check_shared(config, config->state_dir, ret);
    place_check_record(patient, ret);
    if (dir)
        return;
    finding_set(ret, FINDING_WARN,
                "there is none: no commit is recorded, every start is at step 0");
    finding_advise(ret, "name the directory of the checkpoints: --checkpoint-dir");
}

void check_checkpoint_dir(const struct patient *patient, struct finding *ret)
{
    const struct config *config = patient->config;
    place_check_dir(config->checkpoint.dir, GIB, ret);
    if (!config->state_dir)
        place_check_shared(config, config->checkpoint.dir, ret);
}

void check_logs_dir(const struct patient *patient, struct finding *ret)
{
    place_check_dir(patient->config->logs.dir, patient->config->logs.max_size, ret);
}

void check_run_dir(const struct patient *patient, struct finding *ret)
{
    struct rundir dir;
    FD_CLEANUP int listen = -1;
    struct err err;
    if (!rundir_make(patient->config->run_dir, &dir, &listen, &err)) {
        finding_set(ret, FINDING_BAD, "%s", err.text);
        finding_advise(ret, "name a directory of a local file system: --run-dir");
        return;
    }
    finding_set(ret, FINDING_OK, "sockets can be made in %s", dir.base);
    if (!rundir_remove(&dir))
        finding_set(ret, FINDING_WARN, "the test directory in it cannot be removed");
}

/* --- the key --- */

void check_key(const struct patient *patient, struct finding *ret)
{
    const char *path = patient->config->cluster.key_file;
    struct key key;
    struct err err;
    if (!path && patient->config->cluster.nnodes > 1 && patient->config->cluster.insecure) {
        finding_set(ret, FINDING_WARN,
                    "there is none: any host that reaches the port can end the job");
        finding_advise(ret, "pchrun --make-key FILE, and cluster.key_file on every node");
    }
    if (!path)
        return;
    if (keyfile_read(path, &key, &err))
        finding_set(ret, FINDING_OK, "%s", path);
    else
        finding_set(ret, FINDING_BAD, "%s", err.text);
    key_wipe(&key);
}

/* --- what the system allows --- */

void check_cgroup(const struct patient *patient, struct finding *ret)
{
    struct cgroup cgroup;
    struct err err;
    if (patient->config->stop.cgroup == CONFIG_CGROUP_OFF)
        return;
    if (!cgroup_begin(&cgroup, &err)) {
        finding_set(ret, FINDING_WARN, "%s", err.text);
        finding_advise(ret, "pchrun then finds processes that fork away by the process tree alone; "
                            "systemd: Delegate=yes");
        return;
    }
    cgroup_end(&cgroup);
    finding_set(ret, FINDING_OK, "the commands get one of their own");
}

void check_files(const struct patient *patient, struct finding *ret)
{
    int64_t need = cluster_descriptors(patient->config);
    int64_t have = fd_limit_hard(); /* pchrun raises its own soft limit */
    finding_set(ret, have < need ? FINDING_BAD : FINDING_OK,
                "%lld descriptors are allowed, about %lld are needed", (long long)have,
                (long long)need);
    if (have < need)
        finding_advise(ret, "ulimit -n %lld", (long long)need);
}

void check_core(const struct patient *patient, struct finding *ret)
{
    struct rlimit limit;
    if (getrlimit(RLIMIT_CORE, &limit) != 0)
        return;
    if (limit.rlim_cur != RLIM_INFINITY) {
        finding_set(ret, FINDING_OK, limit.rlim_cur ? "bounded by ulimit -c" : "none are written");
        return;
    }
    finding_set(ret, FINDING_WARN,
                "a rank that crashes writes all of its memory to the disk before it ends");
    finding_advise(ret, "ulimit -c 0, unless the dumps are wanted");
}

/* --- the other nodes --- */

/* True if the environment names other nodes, but the user has turned discovery off. */
static bool may_miss_some(const struct config *config, struct discovery *ret)
{
    struct err err;
    return config->cluster.nnodes == 1 && config->cluster.discovery == DISCOVER_NONE &&
           discover(environ, "", DISCOVER_AUTO, ret, &err) && ret->nnodes > 1;
}

/* "4 train, 1 stands by, and this is node 2" */
static void say_nodes(const struct config *config, struct finding *ret)
{
    int n = config->cluster.nnodes, rank = config->cluster.node_rank;
    int spares = config->cluster.spares;
    bool is_spare = config_is_spare(config);
    if (spares == 0)
        finding_set(ret, FINDING_OK, "%d, and this is node %d", n, rank);
    else
        finding_set(ret, FINDING_OK, "%d train, %d stand%s by, and this is %s %d", n, spares,
                    spares == 1 ? "s" : "", is_spare ? "spare" : "node", rank);
    if (config->found.from != DISCOVER_NONE)
        str_addf(ret->seen, sizeof ret->seen, " (%.200s)", config->found.why);
}

void check_nodes(const struct patient *patient, struct finding *ret)
{
    const struct config *config = patient->config;
    struct discovery found;
    if (config->found.warning[0]) {
        finding_set(ret, FINDING_WARN, "%s", config->found.warning);
    } else if (may_miss_some(config, &found)) {
        finding_set(ret, FINDING_WARN, "this one runs alone, but %s (%s)", found.nnodes_why,
                    discover_names[found.from]);
        finding_advise(ret, "if they train together, set cluster.discovery to auto: else each node "
                            "saves at its own step");
    } else if (config->cluster.nnodes > 1) {
        say_nodes(config, ret);
    }
}

/* The other nodes look up only node 0's name: check_peers() does that there. */
void check_names(const struct patient *patient, struct finding *ret)
{
    const struct config *config = patient->config;
    char unknown[sizeof ret->seen];
    if (config->cluster.node_rank != 0 ||
        !nodenames_check(config, REACH_WAIT_NS, unknown, sizeof unknown))
        return;
    if (unknown[0]) {
        finding_set(ret, FINDING_WARN, "%s", unknown);
        finding_advise(ret, NODENAMES_ADVICE);
    } else {
        finding_set(ret, FINDING_OK, "this machine knows those of the other nodes");
    }
}

void check_peers(const struct patient *patient, struct finding *ret)
{
    const struct config *config = patient->config;
    struct err err;
    if (config->cluster.nnodes == 1)
        return;
    struct cluster_place place;
    bool is_chief = config->cluster.node_rank == 0;
    bool ok = cluster_reach(config, REACH_WAIT_NS, &place, &err);
    if (ok && place.hidden[0])
        finding_set(ret, FINDING_WARN, "this is node 0, but %s", place.hidden);
    else if (ok && is_chief)
        finding_set(ret, FINDING_OK, "this is node 0, and it can listen at %s", place.text);
    else if (ok)
        finding_set(ret, FINDING_OK, "a program listens at the address of node 0");
    else if (!is_chief && err.sys_errno == ECONNREFUSED)
        finding_set(ret, FINDING_OK, "the machine of node 0 answers; its pchrun is not there yet");
    else
        finding_set(ret, FINDING_BAD, "%s", err.text);
    if (ret->verdict == FINDING_WARN)
        finding_advise(ret, CLUSTER_HIDDEN_ADVICE);
    if (ret->verdict == FINDING_BAD && !is_chief)
        finding_advise(ret, "check its name, the routes and the firewalls from each node");
}

/* A spare takes the place at once, and needs the last commit. */
static void check_spares(const struct config *config, const char *fence, struct finding *ret)
{
    if (config->checkpoint.shared) {
        finding_set(ret, FINDING_OK, "a spare takes the place of a lost node, and trains after %s",
                    fence);
        return;
    }
    finding_set(ret, FINDING_WARN,
                "each node has a disk of its own (checkpoint.shared), so no spare has the saves of "
                "a lost node, and it cannot take its place");
    finding_advise(ret, "keep the checkpoints on a file system that all nodes share");
}

/* The scheduler must start the replacement, and the replacement must see the last commit. */
void check_replace(const struct patient *patient, struct finding *ret)
{
    const struct config *config = patient->config;
    char wait[32], fence[32];
    if (config->cluster.replace_wait_ns == 0)
        return;
    str_duration(config->cluster.replace_wait_ns, wait, sizeof wait);
    str_about(policy_fence_ns(config->cluster.heartbeat_timeout_ns, config->stop.kill_wait_ns),
              fence, sizeof fence);
    if (config->cluster.spares > 0) {
        check_spares(config, fence, ret);
    } else if (patient_is_in_slurm(patient)) {
        finding_set(
            ret, FINDING_WARN,
            "the job waits %s for the replacement of a lost node, but Slurm starts no other "
            "task in its place",
            wait);
        finding_advise(ret,
                       "start more tasks, as spares (cluster.spares), or set cluster.replace_wait "
                       "to 0: then Slurm requeues the job at once");
    } else if (!config->checkpoint.shared) {
        finding_set(
            ret, FINDING_WARN,
            "the job waits %s for the replacement of a lost node; each node has a disk of "
            "its own (checkpoint.shared), so only a pchrun with the lost node's disk is one",
            wait);
        finding_advise(ret, "keep the checkpoints on a file system that all nodes share");
    } else {
        finding_set(
            ret, FINDING_OK,
            "the job waits %s for the replacement of a lost node, which may train after %s; "
            "its scheduler must start pchrun again, with the same node rank and options",
            wait, fence);
    }
}

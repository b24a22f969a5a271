/* SPDX-License-Identifier: Apache-2.0
 *
 * Discovery: environments as each scheduler, launcher or operator makes them, and the nodes that
 * follow; then incomplete environments, and contradicting ones.
 */
#include "discover/discover.h"

#include "folder.h"

#include "base/str.h"

static struct err err;
static struct discovery got;

/* Variables with a space between; a TF_CONFIG has none inside. */
static char **cut(const char *env)
{
    static char text[2048], *words[64];
    cr_assert(str_copy(text, sizeof text, env));
    return unit_cut(text, words, ARRAY_LEN(words));
}

static bool is_found(const char *env)
{
    return discover(cut(env), "/nowhere", DISCOVER_AUTO, &got, &err);
}

/* srun -N2 -n4: three tasks on the first host, one on the second. */
#define SLURM_ALL                                                                              \
    "SLURM_JOB_ID=8200 SLURM_STEP_ID=0 SLURM_JOB_NODELIST=n[1-2] SLURM_JOB_NUM_NODES=2 "       \
    "SLURM_STEP_NODELIST=n[1-2] SLURM_STEP_NUM_NODES=2 SLURM_STEP_NUM_TASKS=4 SLURM_NTASKS=4 " \
    "SLURM_STEP_TASKS_PER_NODE=3,1 SLURM_LAUNCH_NODE_IPADDR=10.0.0.9 "
#define SLURM_0 SLURM_ALL "SLURM_PROCID=0 SLURM_NODEID=0 SLURM_LOCALID=0 "
#define SLURM_3 SLURM_ALL "SLURM_PROCID=3 SLURM_NODEID=1 SLURM_LOCALID=0 "
#define SLURM_OF(job, step)                                                   \
    "SLURM_JOB_ID=" job " SLURM_STEP_ID=" step " SLURM_STEP_NODELIST=n[1-2] " \
    "SLURM_STEP_NUM_NODES=2 SLURM_STEP_NUM_TASKS=2 SLURM_NODEID=1 SLURM_PROCID=1"
/* A batch script before its srun, on the first of four hosts. */
#define SLURM_BATCH                                                                  \
    "SLURM_JOB_ID=3 SLURM_JOB_NODELIST=n[1-4] SLURM_JOB_NUM_NODES=4 SLURM_NODEID=0 " \
    "SLURM_PROCID=0 SLURM_LOCALID=0 SLURM_TASKS_PER_NODE=1(x4) SLURM_TASK_PID=17542 "
#define TORCHRUN                                                                           \
    "RANK=5 LOCAL_RANK=1 WORLD_SIZE=8 LOCAL_WORLD_SIZE=4 GROUP_RANK=1 MASTER_ADDR=node-a " \
    "MASTER_PORT=29501 TORCHELASTIC_RUN_ID=none TORCHELASTIC_RESTART_COUNT=0 "
/* PyTorchJob with two processes in each of two pods: RANK counts pods, WORLD_SIZE processes. */
#define PYTORCHJOB                                                                             \
    "RANK=1 WORLD_SIZE=4 MASTER_ADDR=run-master-0 MASTER_PORT=23456 PET_NNODES=2 "             \
    "PET_NODE_RANK=1 PET_NPROC_PER_NODE=2 PET_MASTER_ADDR=run-master-0 PET_MASTER_PORT=23456 " \
    "HOSTNAME=run-worker-0 KUBERNETES_SERVICE_HOST=10.0.0.1 "
#define TRAINER_V2                                                                           \
    "PET_NNODES=4 PET_NODE_RANK=2 PET_NPROC_PER_NODE=auto PET_MASTER_ADDR=run-node-0-0.run " \
    "PET_MASTER_PORT=29400 JOB_COMPLETION_INDEX=2 HOSTNAME=run-node-0-2 "
#define TF(cluster, task) "TF_CONFIG={\"cluster\":{" cluster "},\"task\":{" task "}} "
#define TF_TWO            "\"chief\":[\"c0:2222\"],\"worker\":[\"w0:2222\",\"w1:2222\"]"
#define TF_MAP            "\"worker\":{\"0\":\"w0:2222\",\"1\":\"w1:2222\"}"
#define OMPI                                                                      \
    "OMPI_COMM_WORLD_RANK=3 OMPI_COMM_WORLD_SIZE=4 OMPI_COMM_WORLD_LOCAL_RANK=1 " \
    "OMPI_MCA_orte_hnp_uri=1.0;tcp://10.0.0.7:4000 PMIX_RANK=3 "
#define LWS                                                                  \
    "LWS_LEADER_ADDRESS=run-0.run.team LWS_GROUP_SIZE=2 LWS_WORKER_INDEX=1 " \
    "HOSTNAME=run-0-1 "
#define JOBSET                                                                         \
    "JOBSET_NAME=run REPLICATED_JOB_NAME=slice REPLICATED_JOB_REPLICAS=2 JOB_INDEX=1 " \
    "JOB_COMPLETION_INDEX=3 PROCESSES_IN_JOB=4 HOSTNAME=run-slice-1-3 "
#define BATCH         "AWS_BATCH_JOB_NUM_NODES=4 AWS_BATCH_JOB_MAIN_NODE_INDEX=1 AWS_BATCH_JOB_ID=a#1 "
#define BATCH_MAIN_IS "AWS_BATCH_JOB_MAIN_NODE_PRIVATE_IPV4_ADDRESS=10.0.0.8 "
#define TPU           "TPU_WORKER_ID=1 TPU_WORKER_HOSTNAMES=t0,t1 "
#define MEGASCALE \
    "MEGASCALE_NUM_SLICES=2 MEGASCALE_SLICE_ID=1 MEGASCALE_COORDINATOR_ADDRESS=t0-0:8080 "

static const struct {
    const char *env;
    enum discover_from from;
    int nnodes, node_rank;
    const char *chief, *bind;
    int port;
} told[] = {
    {"HOME=/root PATH=/bin", DISCOVER_NONE, 0, -1, "", "", 0},
    /* A variable that is set, but empty, counts as not set. */
    {"RANK= WORLD_SIZE= SLURM_STEP_NODELIST=", DISCOVER_NONE, 0, -1, "", "", 0},
    {SLURM_3, DISCOVER_SLURM, 4, 3, "n1", "", 20008},
    {SLURM_0, DISCOVER_SLURM, 4, 0, "n1", "", 20008},
    {"SLURM_JOB_ID=8200 SLURM_STEP_ID=2 SLURM_STEP_NODELIST=n[1-2] SLURM_STEP_NUM_NODES=2 "
     "SLURM_STEP_NUM_TASKS=2 SLURM_NODEID=1 SLURM_PROCID=1",
     DISCOVER_SLURM, 2, 1, "n1", "", 20202},
    {"SLURM_JOB_ID=9 SLURM_STEP_ID=0 SLURM_STEP_NODELIST=n7 SLURM_STEP_NUM_NODES=1 "
     "SLURM_STEP_NUM_TASKS=2 SLURM_NODEID=0 SLURM_PROCID=1",
     DISCOVER_SLURM, 2, 1, "127.0.0.1", "", 20009},
    {"SLURM_JOB_ID=9 SLURM_STEP_ID=0 SLURM_STEP_NODELIST=n7 SLURM_STEP_NUM_NODES=1 "
     "SLURM_STEP_NUM_TASKS=1 SLURM_NODEID=0 SLURM_PROCID=0",
     DISCOVER_SLURM, 1, 0, "", "", 0},
    /* The id of a federation's job, and the number of an interactive step, which has no other. */
    {SLURM_OF("3019899093", "4294967290"), DISCOVER_SLURM, 2, 1, "n1", "", 27823},
    {SLURM_OF("9223372036854775807", "9223372036854775807"), DISCOVER_SLURM, 2, 1, "n1", "", 28094},
    {SLURM_BATCH, DISCOVER_NONE, 0, -1, "", "", 0},
    /* Variables that a batch script exports for its program. */
    {SLURM_3 "MASTER_ADDR=n1 MASTER_PORT=12802 WORLD_SIZE=16", DISCOVER_SLURM, 4, 3, "n1", "",
     20008},
    {TORCHRUN, DISCOVER_TORCHRUN, 8, 5, "node-a", "", 24925},
    {"RANK=1 WORLD_SIZE=2 LOCAL_WORLD_SIZE=2 MASTER_ADDR=node-a MASTER_PORT=29500",
     DISCOVER_TORCHRUN, 2, 1, "127.0.0.1", "", 24924},
    {"RANK=0 WORLD_SIZE=1", DISCOVER_TORCHRUN, 1, 0, "", "", 0},
    {PYTORCHJOB, DISCOVER_KUBEFLOW, 2, 1, "run-master-0", "run-worker-0", 0},
    {TRAINER_V2, DISCOVER_KUBEFLOW, 4, 2, "run-node-0-0.run", "run-node-0-2", 0},
    {"PET_NNODES=1 PET_NPROC_PER_NODE=8", DISCOVER_KUBEFLOW, 1, 0, "", "", 0},
    /* Workers of a torchrun in a pod of the trainer. */
    {TRAINER_V2 TORCHRUN, DISCOVER_TORCHRUN, 8, 5, "node-a", "", 24925},
    {TF(TF_TWO, "\"type\":\"worker\",\"index\":1"), DISCOVER_TF_CONFIG, 3, 2, "c0", "", 22222},
    {TF(TF_TWO, "\"type\":\"chief\",\"index\":0"), DISCOVER_TF_CONFIG, 3, 0, "c0", "", 22222},
    {TF(TF_MAP, "\"type\":\"worker\",\"index\":\"1\""), DISCOVER_TF_CONFIG, 2, 1, "w0", "", 22222},
    {TF("\"master\":[\"m:1\"],\"worker\":[\"w:1\"]", "\"type\":\"master\",\"index\":0"),
     DISCOVER_TF_CONFIG, 2, 0, "m", "", 20001},
    {TF(TF_TWO, "\"type\":\"evaluator\",\"index\":0"), DISCOVER_TF_CONFIG, 1, 0, "", "", 0},
    {TF("\"worker\":[\"w:1\"]", "\"type\":\"worker\""), DISCOVER_TF_CONFIG, 1, 0, "", "", 0},
    {"TF_CONFIG={}", DISCOVER_NONE, 0, -1, "", "", 0},
    {OMPI "OMPI_COMM_WORLD_LOCAL_SIZE=2", DISCOVER_MPI, 4, 3, "", "", 0},
    {OMPI "OMPI_COMM_WORLD_LOCAL_SIZE=4 PMIX_NAMESPACE=746717185", DISCOVER_MPI, 4, 3, "127.0.0.1",
     "", 22151},
    {"PMI_RANK=1 PMI_SIZE=2 MPI_LOCALNRANKS=2 MPI_LOCALRANKID=1 PMI_FD=9", DISCOVER_MPI, 2, 1,
     "127.0.0.1", "", 0},
    {"PMI_RANK=1 PMI_SIZE=2 PMI_JOBID=1", DISCOVER_MPI, 2, 1, "", "", 26908},
    /* srun --mpi=pmi2: both sources are there, and agree. */
    {SLURM_3 "PMI_RANK=3 PMI_SIZE=4", DISCOVER_SLURM, 4, 3, "n1", "", 20008},
    {LWS, DISCOVER_LWS, 2, 1, "run-0.run.team", "run-0-1", 0},
    {LWS TPU, DISCOVER_LWS, 2, 1, "run-0.run.team", "run-0-1", 0},
    {JOBSET, DISCOVER_JOBSET, 8, 7, "run-slice-0-0.run", "run-slice-1-3", 0},
    {"JOBSET_NAME=run REPLICATED_JOB_NAME=w JOB_COMPLETION_INDEX=3", DISCOVER_JOBSET, 0, 3,
     "run-w-0-0.run", "", 0},
    {BATCH BATCH_MAIN_IS "AWS_BATCH_JOB_NODE_INDEX=0", DISCOVER_AWS_BATCH, 4, 1, "10.0.0.8", "", 0},
    {BATCH "AWS_BATCH_JOB_NODE_INDEX=1", DISCOVER_AWS_BATCH, 4, 0, "0.0.0.0", "", 0},
    {BATCH BATCH_MAIN_IS "AWS_BATCH_JOB_NODE_INDEX=3", DISCOVER_AWS_BATCH, 4, 3, "10.0.0.8", "", 0},
    {TPU, DISCOVER_TPU, 2, 1, "t0", "", 0},
    {"TPU_WORKER_ID=0 TPU_PROCESS_ADDRESSES=t0:8476,t1:8476", DISCOVER_TPU, 2, 0, "t0", "", 0},
    {"TPU_WORKER_ID=0 TPU_WORKER_HOSTNAMES=localhost", DISCOVER_TPU, 1, 0, "", "", 0},
    {TPU MEGASCALE, DISCOVER_TPU, 4, 3, "t0-0", "", 0},
    /* The job's index counts within the slice, and does not contradict. */
    {TPU MEGASCALE "JOB_COMPLETION_INDEX=1", DISCOVER_TPU, 4, 3, "t0-0", "", 0},
    {"TPU_WORKER_ID=0 TPU_WORKER_HOSTNAMES=localhost " MEGASCALE, DISCOVER_TPU, 2, 1, "t0-0", "",
     0},
    {"JOB_COMPLETION_INDEX=2 HOSTNAME=train-2", DISCOVER_KUBERNETES, 0, 2, "", "", 0},
    /* A single node is no contradiction to several, whichever comes first. */
    {"TPU_WORKER_ID=0 TPU_WORKER_HOSTNAMES=localhost " LWS, DISCOVER_LWS, 2, 1, "run-0.run.team",
     "run-0-1", 0},
    {"RANK=0 WORLD_SIZE=1 " LWS, DISCOVER_LWS, 2, 1, "run-0.run.team", "run-0-1", 0},
};

Test(discover, what_each_tells)
{
    for (size_t i = 0; i < ARRAY_LEN(told); i++) {
        const char *text = told[i].env;
        cr_assert(is_found(text), "%s: %s", text, err.text);
        cr_expect_eq(got.from, told[i].from, "%s: %s", text, discover_names[got.from]);
        cr_expect(got.nnodes == told[i].nnodes && got.node_rank == told[i].node_rank,
                  "%s: %d of %d", text, got.node_rank, got.nnodes);
        cr_expect_str_eq(got.chief, told[i].chief, "%s: %s", text, got.chief);
        cr_expect_str_eq(got.bind, told[i].bind, "%s: %s", text, got.bind);
        cr_expect_eq(got.port, told[i].port, "%s: %d", text, got.port);
        cr_expect(got.why[0] && strlen(got.why) < sizeof got.why - 1, "%s: %s", text, got.why);
    }
}

Test(discover, each_says_by_what)
{
    cr_assert(is_found(SLURM_3 "PMI_RANK=3 PMI_SIZE=4"));
    cr_expect_str_eq(got.why, "slurm by SLURM_STEP_NODELIST, mpi by PMI_RANK");
    cr_expect_str_eq(got.nnodes_why, "SLURM_STEP_NUM_TASKS is 4");
    cr_expect_str_eq(got.node_rank_why, "SLURM_PROCID is 3");
    cr_expect_str_eq(got.chief_why, "the first host of SLURM_STEP_NODELIST is n1");
    cr_expect_str_eq(got.port_why, "SLURM_JOB_ID is 8200, SLURM_STEP_ID is 0");
    cr_assert(is_found("A=1"));
    cr_expect(strstr(got.why, "SLURM_STEP_NODELIST, SLURM_STEP_NUM_TASKS, RANK, ") &&
                  strstr(got.why, "JOB_COMPLETION_INDEX: none is set"),
              "%s", got.why);
}

/* A second source may tell what the first does not: Open MPI under Slurm gives no address. */
Test(discover, two_that_agree_complete_each_other)
{
    cr_assert(is_found(OMPI "TPU_WORKER_ID=3 TPU_WORKER_HOSTNAMES=t0,t1,t2,t3"), "%s", err.text);
    cr_expect(got.from == DISCOVER_MPI && str_is(got.chief, "t0"));
    cr_expect_str_eq(got.chief_why, "TPU_WORKER_HOSTNAMES is t0");
}

/* Incomplete or wrong environments, each with all the words that its error must have. */
static const struct {
    const char *env, *words;
} refused[] = {
    {"SLURM_STEP_NODELIST=n[1-2]", "slurm: neither SLURM_PROCID nor SLURM_STEP_NUM_TASKS is set"},
    {"SLURM_STEP_NUM_TASKS=2 SLURM_PROCID=1",
     "SLURM_STEP_NUM_TASKS is set (2), but SLURM_STEP_NODELIST is not"},
    {"SLURM_STEP_NODELIST=n[1-2] SLURM_PROCID=1",
     "SLURM_PROCID is set (1), but SLURM_STEP_NUM_TASKS is not"},
    {"SLURM_STEP_NODELIST=n[1-2] SLURM_PROCID=1 SLURM_STEP_NUM_TASKS=2",
     "SLURM_STEP_NODELIST is set (n[1-2]), but SLURM_STEP_NUM_NODES is not"},
    {"SLURM_STEP_NODELIST=n[1-3] SLURM_PROCID=1 SLURM_STEP_NUM_TASKS=2 SLURM_NODEID=1 "
     "SLURM_STEP_NUM_NODES=2",
     "SLURM_STEP_NODELIST is n[1-3], 3 hosts, but SLURM_STEP_NUM_NODES is 2"},
    {"SLURM_STEP_NODELIST=n[1- SLURM_PROCID=1 SLURM_STEP_NUM_TASKS=2 SLURM_NODEID=1 "
     "SLURM_STEP_NUM_NODES=2",
     "SLURM_STEP_NODELIST: 'n[1-' is not a list of hosts"},
    {"SLURM_STEP_NODELIST=n[1-2] SLURM_PROCID=0 SLURM_STEP_NUM_TASKS=2 SLURM_NODEID=1 "
     "SLURM_STEP_NUM_NODES=2",
     "SLURM_PROCID is 0, but SLURM_NODEID is 1: task 0 is not on the first host"},
    {SLURM_3 "SLURM_HET_SIZE=2", "SLURM_HET_SIZE is 2"},
    {"RANK=3", "torchrun: RANK is set (3), but WORLD_SIZE is not; set cluster.chief, "
               "cluster.nnodes and cluster.node_rank, or another cluster.discovery"},
    {"RANK=3 WORLD_SIZE=4", "RANK is set (3), but MASTER_ADDR is not"},
    {"RANK=4 WORLD_SIZE=4 MASTER_ADDR=a", "RANK is 4, but WORLD_SIZE is 4"},
    {"RANK=x WORLD_SIZE=4 MASTER_ADDR=a", "RANK is 'x', which is not a whole number"},
    {"RANK=-1 WORLD_SIZE=4 MASTER_ADDR=a", "RANK is '-1', which is not a whole number"},
    {"RANK=1 WORLD_SIZE=5000 MASTER_ADDR=a", "WORLD_SIZE is 5000; a job has 1 to 4096 nodes"},
    {"RANK=1 WORLD_SIZE=2 MASTER_ADDR=a:b:c", "MASTER_ADDR: 'a:b:c' is not an address"},
    {"PET_NNODES=2:4 PET_NODE_RANK=1", "PET_NNODES is '2:4', which is not a whole number"},
    {"PET_NNODES=2", "PET_NNODES is set (2), but PET_NODE_RANK is not"},
    {"PET_NNODES=2 PET_NODE_RANK=0", "PET_NNODES is set (2), but PET_MASTER_ADDR is not"},
    {"TF_CONFIG={", "tf-config: TF_CONFIG:1:"},
    {"TF_CONFIG={\"cluster\":{" TF_TWO "}}", "TF_CONFIG has a \"cluster\", but no \"task\""},
    {TF(TF_TWO, "\"type\":\"worker\",\"index\":2"), "the task is \"worker\" 2, but"},
    {TF(TF_TWO, "\"type\":\"worker\",\"index\":true"), "\"index\" of the \"task\" is no"},
    {TF(TF_TWO, "\"type\":\"helper\",\"index\":0"), "\"helper\", which is not in the cluster"},
    {TF(TF_TWO ",\"ps\":[\"p:1\"]", "\"type\":\"worker\",\"index\":0"), "parameter servers"},
    {TF("\"worker\":[1,2]", "\"type\":\"worker\",\"index\":0"), "\"worker\" 0 is missing"},
    {TF("\"worker\":\"w0\"", "\"type\":\"worker\""), "\"worker\" in the \"cluster\" is a string"},
    {"TF_CONFIG={\"cluster\":[]}", "the \"cluster\" is a list; an object is wanted"},
    {"TF_CONFIG=[1]", "tf-config: TF_CONFIG is a list; an object is wanted"},
    {"OMPI_COMM_WORLD_RANK=1",
     "mpi: OMPI_COMM_WORLD_RANK is set (1), but OMPI_COMM_WORLD_SIZE is not"},
    {"PMI_SIZE=2", "PMI_SIZE is set (2), but PMI_RANK is not"},
    {"LWS_GROUP_SIZE=2 LWS_WORKER_INDEX=1", "LWS_LEADER_ADDRESS is not"},
    {"JOBSET_NAME=run", "JOBSET_NAME is set (run), but REPLICATED_JOB_NAME is not"},
    {"JOBSET_NAME=run REPLICATED_JOB_NAME=w JOB_COMPLETION_INDEX=0 JOB_INDEX=1",
     "JOB_INDEX is set (1), but REPLICATED_JOB_REPLICAS is not"},
    {"JOBSET_NAME=run REPLICATED_JOB_NAME=w JOB_COMPLETION_INDEX=0 JOB_INDEX=1 "
     "REPLICATED_JOB_REPLICAS=2",
     "REPLICATED_JOB_REPLICAS is set (2), but PROCESSES_IN_JOB is not"},
    {"JOBSET_NAME=run REPLICATED_JOB_NAME=w JOB_COMPLETION_INDEX=4 PROCESSES_IN_JOB=4",
     "do not fit together"},
    {BATCH "AWS_BATCH_JOB_NODE_INDEX=0", "AWS_BATCH_JOB_MAIN_NODE_PRIVATE_IPV4_ADDRESS is not"},
    {"AWS_BATCH_JOB_NUM_NODES=2 AWS_BATCH_JOB_NODE_INDEX=1 "
     "AWS_BATCH_JOB_MAIN_NODE_INDEX=5 " BATCH_MAIN_IS,
     "MAIN_NODE_INDEX is 5, but AWS_BATCH_JOB_NUM_NODES is 2"},
    {"TPU_WORKER_ID=1", "TPU_WORKER_ID is set (1), but TPU_WORKER_HOSTNAMES is not"},
    {"TPU_WORKER_HOSTNAMES=a,b", "TPU_WORKER_HOSTNAMES is set (a,b), but TPU_WORKER_ID is not"},
    {"TPU_WORKER_HOSTNAMES=a,b TPU_WORKER_ID=2", "has 2 entries (a,b)"},
    {TPU "MEGASCALE_NUM_SLICES=2", "MEGASCALE_SLICE_ID is not"},
    {TPU "MEGASCALE_NUM_SLICES=2 MEGASCALE_SLICE_ID=0", "MEGASCALE_COORDINATOR_ADDRESS is not"},
    {"JOB_COMPLETION_INDEX=a", "kubernetes: JOB_COMPLETION_INDEX is 'a'"},
    /* Out of range. */
    {SLURM_OF("9223372036854775808", "0"),
     "SLURM_JOB_ID is '9223372036854775808', which is not a whole number from 0 to "
     "9223372036854775807"},
    {SLURM_OF("-1", "0"), "SLURM_JOB_ID is '-1', which is not a whole number"},
    {"SLURM_STEP_NODELIST=n[1-2] SLURM_PROCID=1 SLURM_STEP_NUM_TASKS=2147483648",
     "SLURM_STEP_NUM_TASKS is '2147483648', which is not a whole number from 0 to 2147483647"},
    /* Two sources that differ. */
    {SLURM_3 TORCHRUN, "slurm (SLURM_STEP_NUM_TASKS is 4), torchrun (WORLD_SIZE is 8); set "
                       "cluster.discovery to the right one"},
    {SLURM_3 "OMPI_COMM_WORLD_RANK=2 OMPI_COMM_WORLD_SIZE=4",
     "slurm (SLURM_PROCID is 3), mpi (OMPI_COMM_WORLD_RANK is 2)"},
    {LWS "TPU_WORKER_ID=0 TPU_WORKER_HOSTNAMES=t0,t1",
     "leaderworkerset (LWS_WORKER_INDEX is 1), tpu (TPU_WORKER_ID is 0)"},
};

Test(discover, what_is_refused)
{
    for (size_t i = 0; i < ARRAY_LEN(refused); i++) {
        cr_expect(!is_found(refused[i].env), "%s", refused[i].env);
        cr_expect(strstr(err.text, refused[i].words), "%s: %s", refused[i].env, err.text);
    }
}

/* No source was asked for by name. So a half-set variable with a common name is no error, and hides
 * no complete source. */
Test(discover, half_there_unasked)
{
    static const struct {
        const char *env, *warning;
        int nnodes;
    } rows[] = {
        {"RANK=16", "torchrun: RANK is set (16), but WORLD_SIZE is not, so this source is ignored",
         0},
        {SLURM_3 "RANK=16", "RANK is set (16)", 4},
        {"TPU_WORKER_ID=1", "TPU_WORKER_HOSTNAMES is not", 0},
        {"JOBSET_NAME=run", "REPLICATED_JOB_NAME is not", 0},
        {"RANK=1 TPU_WORKER_ID=1", "tpu: ", 0},
        {SLURM_3, "", 4},
    };
    static const char *const errors[] = {
        "RANK=3 WORLD_SIZE=4",
        "PET_NNODES=2",
        "PET_NNODES=2:2",
        "TF_CONFIG={",
        "TPU_WORKER_HOSTNAMES=a,b",
        "JOBSET_NAME=run REPLICATED_JOB_NAME=w JOB_COMPLETION_INDEX=0 JOB_INDEX=1 "
        "REPLICATED_JOB_REPLICAS=2",
        TPU "MEGASCALE_NUM_SLICES=2 MEGASCALE_SLICE_ID=0",
    };
    for (size_t i = 0; i < ARRAY_LEN(rows); i++) {
        cr_assert(discover(cut(rows[i].env), "/nowhere", DISCOVER_UNASKED, &got, &err), "%s",
                  err.text);
        cr_expect_eq(got.nnodes, rows[i].nnodes, "%s", rows[i].env);
        cr_expect(rows[i].warning[0] ? strstr(got.warning, rows[i].warning) != NULL
                                     : !got.warning[0],
                  "%s: %s", rows[i].env, got.warning);
    }
    for (size_t i = 0; i < ARRAY_LEN(errors); i++) {
        cr_expect(!discover(cut(errors[i]), "/nowhere", DISCOVER_UNASKED, &got, &err), "%s",
                  errors[i]);
        cr_expect_eq(err.code, ERR_USAGE);
    }
}

/* JAX with one process on a host: there is but one address, and no number. */
Test(discover, one_worker_of_a_tpu_needs_no_number)
{
    cr_assert(is_found("TPU_PROCESS_ADDRESSES=localhost:8479"), "%s", err.text);
    cr_expect_eq(got.nnodes, 1);
}

/* With a source named, the other sources are not read. */
Test(discover, one_by_its_name)
{
    cr_assert(discover(cut(SLURM_3 TORCHRUN), "", DISCOVER_TORCHRUN, &got, &err));
    cr_expect(got.from == DISCOVER_TORCHRUN && got.nnodes == 8 && got.node_rank == 5);
    cr_assert(discover(cut(SLURM_3 TORCHRUN), "", DISCOVER_SLURM, &got, &err));
    cr_expect(got.from == DISCOVER_SLURM && got.nnodes == 4 && got.node_rank == 3);
    cr_assert(discover(cut(SLURM_3 TORCHRUN), "", DISCOVER_NONE, &got, &err));
    cr_expect(got.from == DISCOVER_NONE && got.nnodes == 0);
    cr_expect(!discover(cut(SLURM_BATCH), "", DISCOVER_SLURM, &got, &err));
    cr_expect(strstr(err.text, "cluster.discovery is slurm, but none of its variables is set "
                               "(SLURM_STEP_NODELIST, SLURM_STEP_NUM_TASKS)"),
              "%s", err.text);
}

/* --- the job's name --- */

Test(discover, what_a_job_without_a_name_is_called)
{
    static const struct {
        const char *env, *folder, *host, *name;
    } rows[] = {
        {"SLURM_JOB_NAME=run7 SLURM_JOB_ID=9", "/work/a", "n0", "run7"},
        {"SLURM_JOB_NAME=run7 SLURM_JOB_ID=9 SLURM_ARRAY_TASK_ID=3", "/work/a", "n0", "run7-3"},
        /* srun without a batch script takes the command's name. */
        {"SLURM_JOB_NAME=pchrun SLURM_JOB_ID=9", "/work/a", "n0", "a"},
        {"SLURM_JOB_NAME=run7", "/work/a", "n0", "a"},
        {"PBS_JOBNAME=run7 PBS_JOBID=9.head", "/work/a", "n0", "run7"},
        {"JOB_NAME=run7 SGE_ROOT=/sge SGE_TASK_ID=undefined", "/work/a", "n0", "run7"},
        {"JOB_NAME=a-build-of-jenkins", "/work/a", "n0", "a"},
        {JOBSET "KUBERNETES_SERVICE_HOST=10.0.0.1", "/", "run-slice-1-3", "run"},
        {"KUBERNETES_SERVICE_HOST=10.0.0.1", "/app", "train-3", "train"},
        {"KUBERNETES_SERVICE_HOST=10.0.0.1", "/app", "run-7-x7k2p", "run-7"},
        {"KUBERNETES_SERVICE_HOST=10.0.0.1", "/app", "run-7-bagel", "run-7-bagel"},
        {"KUBERNETES_SERVICE_HOST=10.0.0.1", "/app", "run-worker-12", "run"},
        {"KUBERNETES_SERVICE_HOST=10.0.0.1", "/app", "-3", "-3"},
        {"HOME=/root", "/work/my run", "n0", "my run"},
        {"HOME=/root", "/work/\033[1m", "n0", "?[1m"},
        {"HOME=/root", "/work/\377", "n0", "n0"},
        {"HOME=/root", "/", "n0", "n0"},
        {"HOME=/root", "", "n0", "n0"},
    };
    struct job_name job;
    for (size_t i = 0; i < ARRAY_LEN(rows); i++) {
        discover_job_name(cut(rows[i].env), rows[i].folder, rows[i].host, &job);
        cr_expect_str_eq(job.name, rows[i].name, "%zu: %s", i, job.name);
        cr_expect(job.why[0]);
    }
    discover_job_name(cut("HOME=/root"),
                      "/0123456789012345678901234567890123456789012345678901234567890\u00e9\u00e9",
                      "n0", &job);
    cr_expect(strlen(job.name) == 63 && str_is_utf8(job.name), "%s", job.name);
    discover_job_name(cut("HOME=/root"),
                      "/012345678901234567890123456789012345678901234567890123456789\u00e9\u00e9",
                      "n0", &job);
    cr_expect(strlen(job.name) == 62 && str_is_utf8(job.name), "%s", job.name);
}

/* --- how often the scheduler has started the job again --- */

Test(discover, how_often_the_job_was_started_again)
{
    static const struct {
        const char *env;
        int restarts;
    } rows[] = {
        {"HOME=/root", 0},
        {"SLURM_JOB_ID=9", 0}, /* Slurm sets no count at the first start */
        {"SLURM_JOB_ID=9 SLURM_RESTART_COUNT=0", 0},
        {"SLURM_JOB_ID=9 SLURM_RESTART_COUNT=2", 2},
        {"SLURM_RESTART_COUNT=2", 0},
        {"SLURM_JOB_ID=9 SLURM_RESTART_COUNT=-2", 0},
        {"SLURM_JOB_ID=9 SLURM_RESTART_COUNT=99999999999", 0},
        {"SLURM_JOB_ID=9 SLURM_RESTART_COUNT=two", 0},
    };
    for (size_t i = 0; i < ARRAY_LEN(rows); i++)
        cr_expect_eq(discover_restarts(cut(rows[i].env)), rows[i].restarts, "%s", rows[i].env);
}

Test(discover, when_the_scheduler_started_the_job)
{
    static const struct {
        const char *env;
        int64_t start;
    } rows[] = {
        {"HOME=/root", 0},
        {"SLURM_JOB_ID=9", 0}, /* as in Slurm 22.05 */
        {"SLURM_JOB_ID=9 SLURM_JOB_START_TIME=1764396000", 1764396000},
        {"SLURM_JOB_START_TIME=1764396000", 0},
        {"SLURM_JOB_ID=9 SLURM_JOB_START_TIME=Unknown", 0},
        {"SLURM_JOB_ID=9 SLURM_JOB_START_TIME=-1", 0},
        {"SLURM_JOB_ID=9 SLURM_JOB_START_TIME=9223372036854775807", 0},
    };
    for (size_t i = 0; i < ARRAY_LEN(rows); i++)
        cr_expect_eq(discover_job_start(cut(rows[i].env)), rows[i].start, "%s", rows[i].env);
}

/* --- the pod's own name --- */

Test(discover, where_pod_0_is, .init = folder_make, .fini = folder_remove)
{
    static const struct {
        const char *hosts, *host, *chief;
    } rows[] = {
        {"# Kubernetes-managed hosts file.\n127.0.0.1\tlocalhost\n"
         "10.244.1.7\ttrain-2.svc.team.svc.cluster.local\ttrain-2\n",
         "train-2", "train-0.svc.team.svc.cluster.local"},
        /* Without a subdomain a pod has no name that others find. */
        {"127.0.0.1\tlocalhost\n10.244.1.7\ttrain-2\n", "train-2", ""},
        /* The host's network: its names, and not the pod's. */
        {"10.0.0.3\tgke-node-2.internal\tgke-node-2\n", "gke-node-7", ""},
        {"10.244.1.7\ttrain-22.svc\ttrain-22\n", "train-2", ""},
        {"", "train-2", ""},
    };
    for (size_t i = 0; i < ARRAY_LEN(rows); i++) {
        char text[128];
        snprintf(text, sizeof text, "JOB_COMPLETION_INDEX=2 HOSTNAME=%s", rows[i].host);
        folder_put("etc/hosts", rows[i].hosts);
        cr_assert(discover(cut(text), folder, DISCOVER_AUTO, &got, &err), "%s", err.text);
        cr_expect_str_eq(got.chief, rows[i].chief, "%zu: %s", i, got.chief);
        cr_expect_str_eq(got.bind, rows[i].chief[0] ? rows[i].host : "");
        cr_expect(got.nnodes == 0 && got.node_rank == 2);
    }
}

/* SPDX-License-Identifier: Apache-2.0
 *
 * test_core_known: failures that are known to repeat at each start. The table by itself, and walks
 * of jobs that may restart in place and do not.
 */
#include "base/str.h"
#include "core/common/known.h"
#include "walk.h"

TestSuite(core_known, .fini = walks_end);

/* --- the table --- */

static const char *repeats(const char *text, const char *tail)
{
    static char what[96];
    struct peer_cause cause = {.fault = FAULT_EXIT, .code = 1};
    str_copy(cause.text, sizeof cause.text, text);
    str_copy(cause.tail, sizeof cause.tail, tail);
    known_repeats(&cause, true, what, sizeof what);
    return what;
}

#define ENDED "process 7 ended with exit code 1"

/* The text is as pch, an error file, or both through a launcher tell it. */
Test(core_known, by_what_the_program_said)
{
    static const struct {
        const char *text, *what;
    } rows[] = {
        {ENDED ": ModuleNotFoundError: No module named 'apex' (train.py:3, in <module>)",
         "ModuleNotFoundError"},
        {ENDED ": ImportError", "ImportError"},
        {ENDED ": ImportError (train.py:3, in <module>)", "ImportError"},
        {"process 8 exited with 1 at step 0, and its command, process 7, with 1: SyntaxError: bad",
         "SyntaxError"},
        {ENDED ": omegaconf.errors.ConfigAttributeError: Key 'lr' is not in struct",
         "ConfigAttributeError"},
        {ENDED ": pydantic_core._pydantic_core.ValidationError: 1 validation error for Config",
         "ValidationError"},
        {ENDED
         ": RuntimeError: CUDA error: no kernel image is available for execution on the device "
         "CUDA kernel errors might be asynchronously reported",
         "\"no kernel image is available for execution on the device\""},
        {ENDED ": OSError: bert-bse is not a local folder and is not a valid model identifier "
               "listed on 'https://huggingface.co/models'",
         "\"is not a local folder and is not a valid model identifier\""},
        {ENDED ": CUDA driver version is insufficient for CUDA runtime version",
         "\"CUDA driver version is insufficient\""},
        {ENDED ": IndentationError: expected an indented block after 'for' statement on line 4",
         "IndentationError"},
        {ENDED ": TabError: inconsistent use of tabs and spaces in indentation", "TabError"},
        {ENDED ": RuntimeError: The NVIDIA driver on your system is too old (found version 11040)",
         "\"The NVIDIA driver on your system is too old\""},
        {ENDED ": torch.AcceleratorError: CUDA error: invalid device ordinal",
         "\"invalid device ordinal\""},
        {ENDED ": AssertionError: Torch not compiled with CUDA enabled",
         "\"Torch not compiled with CUDA enabled\""},
        {ENDED
         ": lightning.fabric.utilities.exceptions.MisconfigurationException: No supported gpu",
         "MisconfigurationException"},
        {ENDED ": omegaconf.errors.ConfigKeyError: Key 'lr' is not in struct", "ConfigKeyError"},
        {ENDED ": omegaconf.errors.ConfigTypeError: DictConfig does not support slicing",
         "ConfigTypeError"},
        {ENDED ": omegaconf.errors.InterpolationKeyError: Interpolation key 'model.dim' not found",
         "InterpolationKeyError"},
        {ENDED ": omegaconf.errors.InterpolationResolutionError: KeyError raised while resolving",
         "InterpolationResolutionError"},
        {ENDED ": omegaconf.errors.UnsupportedInterpolationType: Unsupported interpolation type",
         "UnsupportedInterpolationType"},
        {ENDED ": hydra.errors.MissingConfigException: Cannot find primary config 'train'",
         "MissingConfigException"},
        {ENDED ": hydra.errors.ConfigCompositionException: Could not override 'lrr'",
         "ConfigCompositionException"},
        {ENDED ": hydra.errors.OverrideParseException: Error parsing override 'lr='",
         "OverrideParseException"},
        {ENDED ": deepspeed.runtime.config.DeepSpeedConfigError: DeepSpeed config is not JSON",
         "DeepSpeedConfigError"},
        {ENDED ": huggingface_hub.errors.HFValidationError: Repo id must use alphanumeric chars",
         "HFValidationError"},
        {ENDED ": OSError: You are trying to access a gated repo. Make sure to have access to it",
         "\"You are trying to access a gated repo\""},
        {ENDED
         ": ValueError: Some specified arguments are not used by the HfArgumentParser: ['--x']",
         "\"are not used by the HfArgumentParser\""},
        {ENDED, ""},
        {ENDED ": RuntimeError: ImportError: it says so", ""},
        {ENDED ": MyImportError: another class", ""},
        {ENDED ": the ImportError: is not the exception", ""},
        {ENDED ": ImportErrors: another class", ""},
        {ENDED ": importlib.ImportError.x: no class", ""},
        {ENDED ": OSError: We couldn't connect to 'https://huggingface.co' to load this file", ""},
        {"", ""},
    };
    for (size_t i = 0; i < ARRAY_LEN(rows); i++)
        cr_expect_str_eq(repeats(rows[i].text, ""), rows[i].what, "%s", rows[i].text);
}

#define TRACE "Traceback (most recent call last):\n  File \"train.py\", line 3, in <module>\n"

Test(core_known, by_the_end_of_its_standard_error)
{
    static const struct {
        const char *tail, *what;
    } rows[] = {
        {TRACE "    import apex\nModuleNotFoundError: No module named 'apex'\n",
         "ModuleNotFoundError"},
        {"  File \"train.py\", line 1\n    def f(:\n          ^\nSyntaxError: invalid syntax",
         "SyntaxError"},
        {TRACE "    C()\npydantic_core._pydantic_core.ValidationError: 2 validation errors\n"
               "lr\n  Field required [type=missing]\nBS\n  Field required [type=missing]\n",
         ""},
        {TRACE "    C()\npydantic_core._pydantic_core.ValidationError: 2 validation errors\n"
               "lr\n  Field required [type=missing]\nbs\n  Field required [type=missing]\n",
         "ValidationError"},
        {TRACE "omegaconf.errors.MissingMandatoryValue: Missing mandatory value: lr\n"
               "    full_key: lr\n\nSet the environment variable HYDRA_FULL_ERROR=1 for more.\n",
         "MissingMandatoryValue"},
        {TRACE "OSError: x is not a local folder and is not a valid model identifier listed\n"
               "If this is a private repository, log in\n",
         "\"is not a local folder and is not a valid model identifier\""},
        {"train: error while loading shared libraries: libcudart.so.12: cannot open it\n",
         "\"error while loading shared libraries\""},
        {"train: symbol lookup error: libx.so: undefined symbol: ncclCommSplit\n",
         "\"symbol lookup error\""},
        {"FATAL Flags parsing error:\n  Unknown command line flag 'lr_'\n",
         "\"FATAL Flags parsing error\""},
        /* caught and logged; then it failed for another reason */
        {TRACE "ImportError: no flash_attn\n" TRACE "    raise\nRuntimeError: CUDA out of memory\n",
         ""},
        {TRACE "ImportError: no flash_attn\n" TRACE "    assert x\nAssertionError\n", ""},
        {"UserWarning: The NVIDIA driver on your system is too old\n" TRACE "KeyError: 'x'\n", ""},
        {"ImportError: of no traceback\n", ""},
        {"\n\n  \n", ""},
    };
    for (size_t i = 0; i < ARRAY_LEN(rows); i++)
        cr_expect_str_eq(repeats(ENDED, rows[i].tail), rows[i].what, "%s", rows[i].tail);
    cr_expect_str_empty(repeats(ENDED ": RuntimeError: x", TRACE "ImportError: y\n"),
                        "what it has said counts");
    cr_expect_str_eq(repeats(ENDED ": cannot go on", TRACE "ImportError: y\n"), "ImportError");
}

Test(core_known, by_the_code_of_a_wrong_argument)
{
    struct peer_cause cause = {.fault = FAULT_EXIT, .code = 2};
    char what[96];
    known_repeats(&cause, false, what, sizeof what);
    cr_expect(str_starts(what, "exit code 2 before any process had attached"), "%s", what);
    known_repeats(&cause, true, what, sizeof what);
    cr_expect_str_empty(what);
    cause.code = 1;
    known_repeats(&cause, false, what, sizeof what);
    cr_expect_str_empty(what);
}

/* A signal may have ended the process for any reason, whatever the process said before. */
Test(core_known, not_after_a_signal)
{
    char what[96];
    for (unsigned fault = FAULT_NONE; fault <= FAULT_BROKEN; fault++) {
        struct peer_cause cause = {.fault = (uint8_t)fault, .code = 2, .text = "ImportError: x"};
        known_repeats(&cause, false, what, sizeof what);
        cr_expect_eq(what[0] != '\0', fault == FAULT_EXIT || fault == FAULT_SILENT, "%u", fault);
    }
}

/* --- walks --- */

static const struct restart_policy policy = {
    .max = 3, .start_max = 3, .window_ns = 60 * S, .startup_ns = 60 * S};

static void says_why(struct walk *w, const char *why)
{
    struct procmsg msg = {.type = PROCMSG_ERROR, .number = 1};
    str_copy(msg.text, sizeof msg.text, why);
    says(w, 0, msg);
}

static struct walk *begin_one(void)
{
    struct core_params p = params_of(0, 1, 1);
    p.restart = policy;
    return begin_started(&p);
}

/* The command fails, and this is the end of its standard error. */
static void fails(struct walk *w, int code, const char *tail)
{
    struct death death = {.note = ""};
    str_copy(death.tail, sizeof death.tail, tail);
    feed(w,
         (struct event){.type = EV_CHILD_EXITED, .child = {.status = code << 8, .death = &death}});
    steps_are_read(w);
    tree_empty(w);
}

Test(core_known, ends_the_job)
{
    struct walk *w = begin_one();
    fails(w, 1, TRACE "ImportError: no apex\n");
    assert_did(w, "exit 1 failed");
    assert_said(w, "; not restarted: ImportError repeats at each start");
}

Test(core_known, a_wrong_argument_ends_the_job)
{
    struct walk *w = begin_one();
    fails(w, 2, "");
    assert_did(w, "exit 2 failed");
    assert_said(w, "not restarted: exit code 2 before any process had attached");
}

/* A program that does not attach tells no step, so only its start counts. */
Test(core_known, later_it_may_be_chance)
{
    struct walk *w = begin_one();
    now += policy.startup_ns;
    fails(w, 1, TRACE "ImportError: no apex\n");
    assert_said(w, "restarting in place");
}

/* A program that attaches may need longer for its start. */
Test(core_known, before_the_first_step)
{
    struct core_params p = params_of(0, 1, 1);
    p.restart = policy;
    for (uint64_t step = 0; step < 2; step++) {
        struct walk *w = begin_ranks(&p);
        now += 2 * policy.startup_ns;
        steps[0] = step;
        says_why(w, "ImportError: no apex");
        gone(w, 0);
        fails(w, 1, "");
        if (step)
            assert_said(w, "restarting in place");
        else
            assert_did(w, "exit 1 failed");
    }
}

/* The attempt has trained, so the program is good, also in its next generation. */
Test(core_known, not_in_a_later_generation)
{
    struct core_params p = params_of(0, 1, 1);
    p.restart = policy;
    struct walk *w = begin_ranks(&p);
    steps[0] = 1;
    gone(w, 0);
    fails(w, 1, "");
    started(w, 0);
    w->log[0] = '\0';
    fails(w, 1, TRACE "ImportError: no apex\n");
    assert_said(w, "restarting in place");
}

/* --- the same failure at the same step --- */

/* The rank trains on from the last commit, and fails. */
static void fails_at(struct walk *w, uint64_t step, const char *why)
{
    w->log[0] = '\0';
    steps[0] = step;
    says_why(w, why);
    gone(w, 0);
    fails(w, 1, "");
}

static void begins_again(struct walk *w)
{
    steps[0] = 0;
    started(w, 0);
    attaches(w, 0, 0, 1);
}

Test(core_known, the_same_failure_twice_ends_the_job)
{
    struct core_params p = params_of(0, 1, 1);
    p.restart = policy;
    struct walk *w = begin_ranks(&p);
    fails_at(w, 4, "ValueError: bad batch 7");
    assert_said(w, "restarting in place");
    begins_again(w);
    fails_at(w, 3, "ValueError: bad batch 7");
    assert_said(w, "restarting in place");
    begins_again(w);
    fails_at(w, 3, "ValueError: bad batch 8");
    assert_did(w, "exit 1 failed");
    assert_said(w, "not restarted: the same failure came twice at step 3, with no commit between");
}

/* Rank 0 fails at a step. Rank 1, which does not wait for it, comes to another one while it ends.
 */
static void one_fails_at(struct walk *w, uint64_t step, uint64_t other_ends_at)
{
    w->log[0] = w->acts[0] = '\0';
    steps[0] = steps[1] = step;
    says_why(w, "ValueError: bad batch 7");
    gone(w, 0);
    exited(w, 0, 1 << 8);
    steps_are_read(w);
    steps[1] = other_ends_at;
    passes(w, 2 * S);
    steps_are_read(w);
    gone(w, 1);
    exited(w, 1, SIGTERM);
    tree_empty(w);
}

static void both_begin_again(struct walk *w)
{
    steps[0] = steps[1] = 0;
    for (int i = 0; i < 2; i++) {
        started(w, i);
        attaches(w, i, i, 2);
    }
}

/* The training of other ranks while they end has no part in the failure. */
Test(core_known, the_same_failure_while_another_rank_trains_on)
{
    struct core_params p = params_of(0, 1, 2);
    p.restart = policy;
    struct walk *w = begin_ranks(&p);
    one_fails_at(w, 3, 7);
    both_begin_again(w);
    one_fails_at(w, 3, 9);
    assert_said(w, "not restarted: the same failure came twice at step 3, with no commit between");
}

Test(core_known, two_failures_while_another_rank_trains_to_its_end)
{
    struct core_params p = params_of(0, 1, 2);
    p.restart = policy;
    struct walk *w = begin_ranks(&p);
    one_fails_at(w, 3, 9);
    both_begin_again(w);
    one_fails_at(w, 5, 9);
    assert_not_said(w, "not restarted");
    assert_did(w, "; start");
}

static void both_are_gone(void)
{
    for (int i = 0; i < 2; i++)
        tree_empty(&walks[i]);
    deliver();
}

/* Rank 1 on node 1 is killed. Rank 0 had said before why it fails, and ends only while node 0 ends
 * its processes. So its failure is the first one, at a step that node 0 reads when it stops. */
Test(core_known, the_same_failure_while_the_nodes_end)
{
    begin_two_with(&policy);
    struct walk *w = &walks[0];
    says_why(w, "ValueError: bad batch 7");
    steps[0] = 3;
    passes(&walks[1], S / 10);
    gone(&walks[1], 0);
    exited(&walks[1], 0, SIGKILL);
    steps_are_read(&walks[1]);
    w->acts[0] = '\0';
    deliver();
    assert_did(w, "read");
    steps_are_read(w);
    exited(w, 0, 1 << 8);
    gone(w, 0);
    both_are_gone();
    assert_did(w, "; start");
    steps[0] = 0;
    for (int i = 0; i < 2; i++) {
        started(&walks[i], 0);
        attaches(&walks[i], 0, i, 2);
    }
    deliver();
    fails_at(w, 3, "ValueError: bad batch 8");
    deliver();
    gone(&walks[1], 0);
    ends(&walks[1], SIGTERM);
    both_are_gone();
    assert_said(w, "not restarted: the same failure came twice at step 3, with no commit between");
}

Test(core_known, after_a_commit_it_may_be_chance)
{
    struct core_params p = params_of(0, 1, 1);
    p.restart = policy;
    struct walk *w = begin_ranks(&p);
    fails_at(w, 3, "ValueError: bad batch 7");
    begins_again(w);
    steps[0] = 2;
    saves(w, 0, 2, 0);
    committed(w);
    fails_at(w, 3, "ValueError: bad batch 7");
    assert_said(w, "restarting in place from step 2");
}

/* Rank 1 misses rank 0, and its failure is heard first. */
static void hear_of_rank_1(const char *why)
{
    says_why(&walks[0], why);
    now += 10 * MS;
    gone(&walks[1], 0);
    exited(&walks[1], 0, 1 << 8);
    steps_are_read(&walks[1]);
    deliver();
}

static void hear_of_rank_0(void)
{
    gone(&walks[0], 0);
    exits(&walks[0], 9 << 8);
    tree_empty(&walks[1]);
    deliver();
}

/* The job is to restart, until rank 0's own failure is heard. */
static void fail_heard_late(const char *why)
{
    hear_of_rank_1(why);
    assert_said(&walks[0], "restarting in place");
    hear_of_rank_0();
}

static void hear_of_the_victim_first(const char *why, int fatal_code)
{
    struct restart_policy finals = policy;
    finals.is_fatal[fatal_code] = true;
    begin_two_with(&finals);
    fail_heard_late(why);
}

Test(core_known, that_is_heard_late)
{
    hear_of_the_victim_first("ImportError: no apex", 255);
    assert_both_did("exit 9 failed");
    assert_said(&walks[0], "not restarted: ImportError repeats at each start");
}

Test(core_known, a_fatal_code_that_is_heard_late)
{
    hear_of_the_victim_first("bad loss", 9);
    assert_both_did("exit 9 failed");
    assert_said(&walks[0], "not restarted: 9 is one of restart.fatal_codes");
}

Test(core_known, any_other_that_is_heard_late)
{
    hear_of_the_victim_first("bad loss", 255);
    assert_not_said(&walks[0], "not restarted");
    assert_both_did("start");
}

/* Rank 1's failure alone would end the job, but it came of rank 0's, which a restart may mend. */
Test(core_known, a_victims_failure_is_not_final)
{
    struct restart_policy finals = policy;
    finals.is_fatal[1] = true;
    begin_two_with(&finals);
    hear_of_rank_1("bad loss");
    assert_said(&walks[0], "no restart follows, unless another failure came first: 1 is one of "
                           "restart.fatal_codes");
    hear_of_rank_0();
    assert_not_said(&walks[0], "not restarted");
    assert_both_did("start");
}

/* A scheduler starts a preempted job again, which must not happen after a fatal code. */
Test(core_known, a_notice_does_not_hide_a_final_failure)
{
    struct restart_policy finals = policy;
    finals.is_fatal[1] = true;
    begin_two_with(&finals);
    hear_of_rank_1("bad loss");
    noticed(&walks[0], "cloud", 2 * S);
    deliver();
    assert_said(&walks[0], "not restarted: 1 is one of restart.fatal_codes");
}

Test(core_known, the_same_failure_that_is_heard_late)
{
    steps[0] = 3;
    hear_of_the_victim_first("bad loss 5", 255);
    assert_both_did("start");
    for (int i = 0; i < 2; i++) {
        started(&walks[i], 0);
        attaches(&walks[i], 0, i, 2);
        walks[i].log[0] = walks[i].acts[0] = '\0';
    }
    deliver();
    fail_heard_late("bad loss 6");
    assert_both_did("exit 9 failed");
    assert_said(&walks[0], "not restarted: the same failure came twice at step 3");
}

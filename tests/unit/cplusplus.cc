// SPDX-License-Identifier: Apache-2.0
//
// cplusplus: a training program in C++, and pch.h as its compiler reads it.
//
//     cplusplus STEPS
//
// Trains to STEPS, saves at step 2 and at the end of its own accord, and prints what it is told.
// Exits with 0 if it came to the end, 2 if it was told to leave, 9 if a call did not do what
// libpch(3) says.
#include <pch.h>

#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <memory>
#include <string>
#include <type_traits>

// The types are C's own: what is passed and what comes back has the same layout on both sides.
static_assert(std::is_standard_layout<pch_options>::value, "pch_options is a C structure");
static_assert(std::is_trivial<pch_options>::value, "pch_options is a C structure");
static_assert(offsetof(pch_options, size) == 0, "size tells the rest");
static_assert(sizeof(pch_action) == sizeof(int), "an enumeration is an int of C's");
static_assert(std::is_same<decltype(pch_step(nullptr, 0)), pch_action>::value, "an action");
static_assert(std::is_same<decltype(pch_resume_step(nullptr)), std::uint64_t>::value, "a step");
static_assert(PCH_CONTINUE == 0, "so that an action can be taken for a truth");

namespace
{

struct Close {
    void operator()(pch_t *job) const
    {
        pch_close(job);
    }
};
using Job = std::unique_ptr<pch_t, Close>;

void require(bool is_so, const char *what)
{
    if (is_so)
        return;
    std::fprintf(stderr, "cplusplus: %s\n", what);
    std::exit(9);
}

void look(const Job &job)
{
    char notice[64] = "x";
    const char *const path = pch_resume_path(job.get());
    std::printf("supervised %d\nresume %llu %s\n", pch_supervised(job.get()),
                static_cast<unsigned long long>(pch_resume_step(job.get())), path ? path : "-");
    require(pch_notice(job.get(), notice, sizeof notice) == 0, "there is a notice");
    const char *const scratch = pch_scratch_dir(job.get());
    require((scratch != nullptr) == (pch_supervised(job.get()) != 0), "a scratch folder, or none");
}

pch_action save(const Job &job, std::uint64_t step)
{
    pch_phase(job.get(), PCH_IN_SAVE);
    pch_collective_timeout(job.get(), 600000);
    return pch_saved(job.get(), step, ("at://step-" + std::to_string(step)).c_str());
}

pch_action train(const Job &job, std::uint64_t steps)
{
    pch_action next = PCH_CONTINUE;
    for (std::uint64_t step = pch_resume_step(job.get()); step < steps && next != PCH_EXIT;) {
        next = pch_step(job.get(), ++step);
        std::printf("step %llu\n", static_cast<unsigned long long>(step));
        if (step == 1)
            pch_save_failed(job.get(), step, "it was only tried");
        if (next == PCH_SAVE || step == 2)
            next = save(job, step);
    }
    return next;
}

} // namespace

int main(int argc, char **argv)
{
    const std::uint64_t steps = argc > 1 ? std::strtoull(argv[1], nullptr, 10) : 0;
    pch_options options = PCH_OPTIONS_INIT;
    require(options.size == sizeof options && options.rank == -1, "PCH_OPTIONS_INIT");
    options.last_step = steps;
    options.flags = PCH_NO_SHIELD;
    const Job job(pch_open(&options));
    require(job != nullptr, "pch_open gives a job always");
    look(job);
    pch_collective_timeout(job.get(), 0);
    pch_wait_begin(job.get());
    pch_wait_end(job.get());
    pch_load_begin(job.get());
    pch_load_end(job.get());
    if (train(job, steps) == PCH_EXIT)
        return 2;
    pch_durable(job.get(), steps, "at://the-end");
    pch_error(job.get(), 3, "told, and not meant");
    pch_done(job.get());
    return 0;
}

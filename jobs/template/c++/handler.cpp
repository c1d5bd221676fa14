// SPDX-License-Identifier: MIT-0
// @NAME@: counts to a number, one step in a tenth of a second. Class: @NAME@.
//
// Put your work into one_step(); the rest is how a handler lives with its lock: it asks cancelled() before every step
// that cannot be undone, and returns when the answer is yes. <holdfast/job.h> is the manual of every function.
//
// No exception may leave a function that the host calls: run_safely turns it into a failure with its text.
//
// Arguments: [STEPS], from 1 to 1000. Settings: pause_ms, of a step. Result: {"steps":STEPS}.
#include <chrono>
#include <cstdio>
#include <exception>
#include <stdexcept>
#include <string>
#include <thread>

#include <holdfast/job.h>

namespace {

constexpr int64_t steps_max = 1000;

struct State {
    const hf_job_api *job;
    const hf_cancel_api *cancel;
    const hf_report_api *report;
    std::chrono::milliseconds pause{100};

    explicit State(const hf_host &host)
        : job(static_cast<const hf_job_api *>(host.api("job", 1))),
          cancel(static_cast<const hf_cancel_api *>(host.api("cancel", 1))),
          report(static_cast<const hf_report_api *>(host.api("report", 1)))
    {
        if (job == nullptr || cancel == nullptr || report == nullptr)
            throw std::runtime_error("the host lacks functions");
        if (const char *text = host.setting(&host, "pause_ms"))
            pause = std::chrono::milliseconds(std::stoul(text));
    }
};

void one_step(const State &state)
{
    std::this_thread::sleep_for(state.pause);
}

int run(hf_job *job, const State &state)
{
    int64_t steps = 0;
    if (!state.job->arg_integer(job, 0, &steps) || steps < 1 || steps > steps_max) {
        state.job->error(job, "BadArguments", "expected [STEPS], a number from 1 to %d", static_cast<int>(steps_max));
        return HF_BURY; // trying again would not help
    }
    const std::string total = std::to_string(steps);
    for (int64_t step = 1; step <= steps; step++) {
        if (state.cancel->cancelled(job))
            return HF_CANCELLED; // the host knows why: the lock was lost, the worker stops, somebody asked for it
        one_step(state);
        state.report->progress(job, ("{\"done\":" + std::to_string(step) + ",\"total\":" + total + "}").c_str());
    }
    state.job->log(job, HF_LOG_INFO, "counted to %s", total.c_str());
    state.report->result(job, ("{\"steps\":" + total + "}").c_str()); // kept if the class has a result_ttl
    return HF_OK;
}

int run_safely(hf_job *job, void *context)
{
    const State &state = *static_cast<const State *>(context);
    try {
        return run(job, state);
    } catch (const std::exception &exception) {
        state.job->error(job, "Exception", "%s", exception.what());
    } catch (...) {
        state.job->error(job, "Exception", "of no known kind");
    }
    return HF_FAIL;
}

int open_plugin(const hf_host *host, void **context, char *reason, size_t reason_size)
{
    try {
        *context = new State(*host);
        return 0;
    } catch (const std::exception &exception) {
        std::snprintf(reason, reason_size, "%s", exception.what());
        return -1;
    }
}

void close_plugin(void *context)
{
    delete static_cast<State *>(context);
}

hf_handler describe()
{
    hf_handler handler = {};
    handler.size = sizeof handler;
    handler.name = "@NAME@";
    handler.about = "counts; arguments: [STEPS]";
    handler.flags = HF_PROGRESS;
    handler.run = run_safely;
    return handler;
}

const hf_handler handler = describe();
const hf_handler *const handlers[] = {&handler, nullptr};

} // namespace

const hf_plugin holdfast_plugin = {
    HF_PLUGIN_HEAD("@NAME@", "0.1"), .build = nullptr, .open = open_plugin, .close = close_plugin, .handlers = handlers};

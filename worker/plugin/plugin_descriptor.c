/* A descriptor is copied by the size that it states, so that a plugin built with an older, shorter job.h reads as one
 * whose new members are zero; nothing else of it is looked at before the magic number and the version have been
 * checked. */
#include "worker/plugin/plugin_descriptor.h"

#include <string.h>

#include "base/clock.h"
#include "queue/envelope.h"
#include "queue/keys.h"

enum { CLASS_NAME_MAX = 256, PLUGIN_NAME_MAX = 64, DESCRIPTOR_SIZE_MAX = 4096, HOLD_MS_MAX = 60000 };

/* Ten years. */
#define TIME_MS_MAX (INT64_C(3653) * 24 * 3600 * MS_PER_S)

/* What version 1.0 of the interface has; later ones add members behind. */
#define SIZE_UP_TO(type, member) (offsetof(type, member) + sizeof(((type *)NULL)->member))
#define PLUGIN_SIZE_LEAST        SIZE_UP_TO(hf_plugin, handlers)
#define HANDLER_SIZE_LEAST       SIZE_UP_TO(hf_handler, max_hold_ms)

/* Copies what both sides know of a struct that begins with, or holds, its size. */
static bool sized_copy(void *to, size_t to_size, const void *from, size_t from_size, size_t least)
{
    if (from_size < least || from_size > DESCRIPTOR_SIZE_MAX)
        return false;
    memcpy(to, from, from_size < to_size ? from_size : to_size);
    return true;
}

static bool text_is_name(const char *text, size_t longest)
{
    return text != NULL && text[0] != '\0' && strnlen(text, longest + 1) <= longest;
}

/* magic, abi_major, abi_minor and size lie at the same places in every version. */
bool plugin_descriptor_read(const hf_plugin *found, const char *path, hf_plugin *descriptor, struct findings *findings)
{
    if (found->magic != HF_MAGIC) {
        findings_error(findings,
                       "%s: holdfast_plugin has the magic number %08x instead of %08x: it is no hf_plugin of "
                       "jobs/job.h",
                       path, (unsigned)found->magic, (unsigned)HF_MAGIC);
    } else if (found->abi_major != HF_ABI_MAJOR || found->abi_minor > HF_ABI_MINOR) {
        findings_error(findings,
                       "%s: was built for version %u.%u of the interface, this worker has %d.%d; build it with "
                       "the job.h of this worker",
                       path, (unsigned)found->abi_major, (unsigned)found->abi_minor, HF_ABI_MAJOR, HF_ABI_MINOR);
    } else if (!sized_copy(descriptor, sizeof *descriptor, found, found->size, PLUGIN_SIZE_LEAST)) {
        findings_error(findings,
                       "%s: states a size of %zu bytes for its hf_plugin, which has %zu; set .size = "
                       "sizeof(hf_plugin)",
                       path, found->size, sizeof(hf_plugin));
    } else if (!text_is_name(descriptor->name, PLUGIN_NAME_MAX)) {
        findings_error(findings, "%s: its name is missing or longer than %d bytes", path, PLUGIN_NAME_MAX);
    } else if (descriptor->handlers == NULL || descriptor->handlers[0] == NULL) {
        findings_error(findings, "%s: has no handler", path);
    } else {
        return true;
    }
    return false;
}

static bool lock_members_fit(const hf_handler *handler)
{
    bool for_efficiency = handler->on_conflict == HF_CONFLICT_SKIP || handler->hold_at_least_ms > 0;
    bool contradicts = handler->mode == HF_UNLOCKED && (handler->flags & HF_LOCK_REQUIRED) != 0;
    return (unsigned)handler->mode <= HF_UNLOCKED && (unsigned)handler->on_conflict <= HF_CONFLICT_FAIL &&
           handler->hold_at_least_ms >= 0 && handler->hold_at_least_ms <= HOLD_MS_MAX &&
           (!for_efficiency || handler->mode == HF_EFFICIENCY) && !contradicts;
}

static bool time_fits(int64_t milliseconds)
{
    return milliseconds >= 0 && milliseconds <= TIME_MS_MAX;
}

static bool run_members_fit(const hf_handler *handler)
{
    return (unsigned)handler->isolation <= HF_ISOLATION_PROCESS && time_fits(handler->timeout_ms) &&
           time_fits(handler->grace_ms) && time_fits(handler->max_hold_ms);
}

bool plugin_handler_read(const hf_handler *found, const char *path, size_t index, hf_handler *handler,
                         struct findings *findings)
{
    if (!sized_copy(handler, sizeof *handler, found, found->size, HANDLER_SIZE_LEAST))
        findings_error(findings, "%s: handler %zu states a size of %zu bytes; set .size = sizeof(hf_handler)", path,
                       index, found->size);
    else if (!text_is_name(handler->name, CLASS_NAME_MAX))
        findings_error(findings, "%s: handler %zu has no name, or one longer than %d bytes", path, index,
                       CLASS_NAME_MAX);
    else if (handler->run == NULL)
        findings_error(findings, "%s: the handler of %s has no run function", path, handler->name);
    else if (handler->retries > ENVELOPE_RETRIES_MAX || handler->retry_for_ms < 0 ||
             handler->retry_for_ms > TIME_MS_MAX || handler->expires_in_ms < 0 || handler->expires_in_ms > TIME_MS_MAX)
        findings_error(findings,
                       "%s: the handler of %s states retries beyond %d, or a time that is negative or beyond ten years",
                       path, handler->name, ENVELOPE_RETRIES_MAX);
    else if (handler->retry_queue != NULL && !queue_name_is_sound(handler->retry_queue))
        findings_error(findings,
                       "%s: the retry_queue of the handler of %s is not 1 to %d bytes without blanks, or begins with "
                       "hf:",
                       path, handler->name, ENVELOPE_QUEUE_BYTES_MAX);
    else if (!run_members_fit(handler))
        findings_error(findings,
                       "%s: the handler of %s states an isolation that there is not, or a timeout, grace or maximum "
                       "hold that is negative or beyond ten years",
                       path, handler->name);
    else if (!lock_members_fit(handler))
        findings_error(findings,
                       "%s: the handler of %s states a mode or on_conflict that there is not, or a hold_at_least_ms "
                       "outside 0 to %d, or HF_CONFLICT_SKIP or hold_at_least_ms without HF_EFFICIENCY, or "
                       "HF_LOCK_REQUIRED with HF_UNLOCKED",
                       path, handler->name, HOLD_MS_MAX);
    else
        return true;
    return false;
}

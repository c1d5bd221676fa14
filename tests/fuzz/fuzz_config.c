/* Any bytes as a configuration. A sound one that is printed and read again is the same. */
#include "tests/fuzz/fuzz.h"
#include "worker/config/config.h"
#include "worker/config/config_print.h"

/* libconfig (1.5) never frees the text at which its parser gave up. */
const char *__lsan_default_suppressions(void);
__attribute__((visibility("default"))) const char *__lsan_default_suppressions(void)
{
    return "leak:libconfig.so";
}

/* False if it has errors. */
static bool config_printed(const struct buffer *text, struct buffer *out)
{
    struct findings findings = {.count = 0};
    struct config *config = config_read_written(text, &findings);
    bool is_sound = config != NULL && findings.errors == 0;
    invariant(config != NULL || findings.errors > 0);
    if (config != NULL)
        config_print(config, out);
    config_free(config);
    findings_fini(&findings);
    return is_sound;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct buffer text = {.bytes = NULL}, once = {.bytes = NULL}, twice = {.bytes = NULL};
    buffer_append(&text, data, size);
    if (config_printed(&text, &once)) {
        invariant(config_printed(&once, &twice));
        invariant(fuzz_same(&once, &twice));
    }
    buffer_fini(&text);
    buffer_fini(&once);
    buffer_fini(&twice);
    return 0;
}

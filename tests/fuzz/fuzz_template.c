/* A line with a template for the names of resources, and the arguments of a task. A name belongs to its template. */
#include "queue/envelope.h"
#include "tests/fuzz/fuzz.h"
#include "worker/locks/resource_template.h"

static void name_holds(const struct resource_template *template, struct buffer *name)
{
    invariant(name->length > 0 && name->length <= ENVELOPE_RESOURCE_BYTES_MAX);
    invariant(memchr(name->bytes, '\0', name->length) == NULL && strncmp(buffer_text(name), "hf:", 3) != 0);
    invariant(resource_template_owns(template, buffer_text(name)));
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct error error = ERROR_NONE;
    struct resource_template template;
    struct buffer name = {.bytes = NULL};
    char *text = fuzz_line(&data, &size), *args = fuzz_copy(data, size);
    bool is_template = resource_template_parse(&template, text, &error);
    invariant(is_template != error_is_set(&error));
    if (is_template) {
        invariant(resource_templates_meet(&template, &template));
        if (size > 0 && args[0] == '[' && json_check(args, size, &ENVELOPE_LIMITS_DEFAULT, NULL) &&
            resource_template_fill(&template, (struct text_span){args, size}, &name, &error))
            name_holds(&template, &name);
        resource_template_fini(&template);
    }
    buffer_fini(&name);
    free(text);
    free(args);
    return 0;
}

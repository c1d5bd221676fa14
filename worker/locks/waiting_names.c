#include "worker/locks/waiting_names.h"

#include "base/invariant.h"
#include "redlock/terms.h"

static const char resource_prefix[] = "resource:", class_prefix[] = "class:";

void waiting_names_set(struct waiting_names *names, const char *const *resources, unsigned count,
                       const char *class_name)
{
    const char *sorted[REDLOCK_RESOURCES_MAX];
    size_t starts[WAITING_NAMES_MAX];
    invariant(count <= REDLOCK_RESOURCES_MAX);
    waiting_names_clear(names);
    names->resource_count =
        redlock_resources_sort(&(struct redlock_request){.resources = resources, .resource_count = count}, sorted);
    names->count = names->resource_count + (class_name != NULL);
    for (unsigned i = 0; i < names->count; i++) {
        bool is_class = i == names->resource_count;
        starts[i] = names->text.length;
        buffer_append_text(&names->text, is_class ? class_prefix : resource_prefix);
        buffer_append_text(&names->text, is_class ? class_name : sorted[i]);
        buffer_append(&names->text, "", 1);
    }
    for (unsigned i = 0; i < names->count; i++)
        names->names[i] = names->text.bytes + starts[i];
}

void waiting_names_clear(struct waiting_names *names)
{
    buffer_clear(&names->text);
    names->count = names->resource_count = 0;
}

void waiting_names_fini(struct waiting_names *names)
{
    buffer_fini(&names->text);
}

void waiting_names_digest(const struct waiting_names *names, char text[DIGEST_TEXT_SIZE])
{
    struct digest digest;
    digest_begin(&digest);
    for (unsigned i = 0; i < names->count; i++)
        digest_add(&digest, names->names[i], strlen(names->names[i]) + 1);
    digest_end(&digest, text);
}

const char *waiting_names_class(const struct waiting_names *names)
{
    return names->count > names->resource_count ? names->names[names->resource_count] : NULL;
}

const char *waiting_names_resource(const char *list)
{
    size_t length = sizeof resource_prefix - 1;
    return strncmp(list, resource_prefix, length) == 0 ? list + length : list;
}

#include "redis/fault_request.h"

#ifdef HOLDFAST_FAULTS

#include <ctype.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { NAME_MAX_BYTES = 64, HEADER_MAX_BYTES = 32 };

struct argument {
    const char *bytes;
    size_t length;
};

/* Reads what our own encoder writes: "$length" and the bytes, each followed by a line end. */
static const char *argument_read(const char *at, const char *end, struct argument *argument)
{
    char header[HEADER_MAX_BYTES] = "";
    const char *line = at < end ? memchr(at, '\n', (size_t)(end - at)) : NULL;
    if (line == NULL || line - at >= HEADER_MAX_BYTES || *at != '$')
        return NULL;
    memcpy(header, at + 1, (size_t)(line - at - 1));
    argument->bytes = line + 1;
    argument->length = strtoul(header, NULL, 10);
    return argument->length + 2 <= (size_t)(end - argument->bytes) ? argument->bytes + argument->length + 2 : NULL;
}

static const char *script_name(const struct redis_script *const *scripts, size_t count, const struct argument *sha1)
{
    for (size_t i = 0; i < count; i++)
        if (sha1->length == 40 && memcmp(scripts[i]->sha1, sha1->bytes, 40) == 0)
            return scripts[i]->name;
    return "a script that was not loaded";
}

static void command_name(const struct argument *argument, char name[NAME_MAX_BYTES])
{
    size_t length = argument->length < NAME_MAX_BYTES ? argument->length : NAME_MAX_BYTES - 1;
    for (size_t i = 0; i < length; i++)
        name[i] = (char)tolower((unsigned char)argument->bytes[i]);
    name[length] = '\0';
}

/* Of a plain command every argument counts as a key. */
static void keys_pass(const char *name, const char *at, const char *end, size_t keys, enum fault_side side)
{
    struct argument key;
    for (size_t i = 0; i < keys && (at = argument_read(at, end, &key)) != NULL; i++)
        fault_point(name, key.bytes, key.length, side);
}

void fault_request(const struct redis_script *const *scripts, size_t script_count, const char *request, size_t length,
                   enum fault_side side)
{
    const char *end = request + length, *at = memchr(request, '\n', length);
    struct argument command = {0}, sha1 = {0}, count = {0};
    char name[NAME_MAX_BYTES];
    at = at != NULL ? argument_read(at + 1, end, &command) : NULL;
    command_name(&command, name);
    size_t keys = SIZE_MAX;
    if (strcmp(name, "evalsha") == 0) {
        at = at != NULL ? argument_read(at, end, &sha1) : NULL;
        at = at != NULL ? argument_read(at, end, &count) : NULL;
        snprintf(name, sizeof name, "%s", script_name(scripts, script_count, &sha1));
        keys = at != NULL ? strtoul(count.bytes, NULL, 10) : 0;
    }
    fault_point(name, NULL, 0, side);
    if (at != NULL)
        keys_pass(name, at, end, keys, side);
}

#endif

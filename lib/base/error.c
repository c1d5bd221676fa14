#include "base/error.h"

#include <stdarg.h>
#include <stdio.h>
#include <string.h>

bool error_set(struct error *error, const char *format, ...)
{
    if (error == NULL || error_is_set(error))
        return false;

    va_list arguments;
    va_start(arguments, format);
    vsnprintf(error->text, sizeof error->text, format, arguments);
    va_end(arguments);
    return false;
}

void error_prefix(struct error *error, const char *format, ...)
{
    if (error == NULL || !error_is_set(error))
        return;

    struct error cause = *error;
    va_list arguments;
    va_start(arguments, format);
    int written = vsnprintf(error->text, sizeof error->text, format, arguments);
    va_end(arguments);

    size_t length = written < 0 ? 0 : strlen(error->text);
    snprintf(error->text + length, sizeof error->text - length, ": %s", cause.text);
}

#include "tests/support/arguments_text.h"

#include <stdio.h>
#include <stdlib.h>

#include "tests/support/test.h"

const char *arguments_text(struct buffer *arguments, unsigned pairs)
{
    static char text[128 * 1024];
    const char *from = buffer_text(arguments);
    size_t length = 0;
    for (unsigned i = 0; i < 2 * pairs; i++) {
        char *next;
        assert_int_equal(*from, '$');
        size_t bytes = strtoul(from + 1, &next, 10);
        length += (size_t)snprintf(text + length, sizeof text - length, "%.*s%c", (int)bytes, next + 2,
                                   i % 2 == 0 ? '=' : ';');
        from = next + 2 + bytes + 2;
    }
    assert_int_equal(*from, '\0');
    text[length] = '\0';
    buffer_fini(arguments);
    return text;
}

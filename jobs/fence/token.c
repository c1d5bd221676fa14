#include "jobs/fence/fence.h"

#include "jobs/fence/rule.h"

#define TOKEN_MAX ((INT64_C(1) << 53) - 1)

int hf_fence_token(const char *text, int64_t *number)
{
    int64_t value = 0;
    if (text == NULL || text[0] < '1' || text[0] > '9')
        return 0;
    for (; *text != '\0'; text++) {
        if (*text < '0' || *text > '9')
            return 0;
        value = value * 10 + (*text - '0');
        if (value > TOKEN_MAX)
            return 0;
    }
    *number = value;
    return 1;
}

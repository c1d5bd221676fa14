#include "jobs/fence/record.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static const char head[] = "holdfast-fence 1\n";

/* Cuts off the next line if it begins with that word and a blank: the value, else NULL and nothing is cut off. */
static const char *line_take(char **rest, const char *word)
{
    size_t length = strlen(word);
    char *end = strchr(*rest, '\n');
    if (end == NULL || strncmp(*rest, word, length) != 0 || (*rest)[length] != ' ')
        return NULL;
    const char *value = *rest + length + 1;
    *end = '\0';
    *rest = end + 1;
    return value;
}

int hf_fence_record_parse(struct hf_fence_record *record, char *text_take, size_t length)
{
    const char *jid;
    *record = (struct hf_fence_record){.text = text_take};
    if (strlen(text_take) != length || strncmp(text_take, head, sizeof head - 1) != 0)
        return 0;
    char *rest = text_take + sizeof head - 1;
    const char *token = line_take(&rest, "token");
    if (token == NULL || !hf_fence_token(token, &record->token))
        return 0;
    record->resource = line_take(&rest, "resource");
    if (record->resource == NULL)
        return 0;
    record->writing = line_take(&rest, "writing");
    while (record->done_count < HF_FENCE_FILE_REPEATS && (jid = line_take(&rest, "done")) != NULL)
        record->done[record->done_count++] = jid;
    return *rest == '\0';
}

void hf_fence_record_fini(struct hf_fence_record *record)
{
    free(record->text);
}

char *hf_fence_record_print(const struct hf_fence_record *record, size_t *length)
{
    char *text = NULL;
    FILE *stream = open_memstream(&text, length);
    if (stream == NULL)
        return NULL;
    fprintf(stream, "%stoken %lld\nresource %s\n", head, (long long)record->token, record->resource);
    if (record->writing != NULL)
        fprintf(stream, "writing %s\n", record->writing);
    for (unsigned i = 0; i < record->done_count; i++)
        fprintf(stream, "done %s\n", record->done[i]);
    int failed = ferror(stream);
    if (fclose(stream) != 0 || failed) {
        free(text);
        return NULL;
    }
    return text;
}

void hf_fence_record_settle(struct hf_fence_record *record, int was_written)
{
    if (record->writing != NULL && was_written) {
        if (record->done_count == HF_FENCE_FILE_REPEATS)
            record->done_count--;
        memmove(&record->done[1], &record->done[0], record->done_count * sizeof record->done[0]);
        record->done[0] = record->writing;
        record->done_count++;
    }
    record->writing = NULL;
}

int hf_fence_record_is_done(const struct hf_fence_record *record, const char *jid)
{
    for (unsigned i = 0; i < record->done_count; i++)
        if (strcmp(record->done[i], jid) == 0)
            return 1;
    return 0;
}

int hf_fence_record_fits(const char *text, size_t most)
{
    size_t length = 0;
    if (text == NULL)
        return 0;
    for (; text[length] != '\0'; length++)
        if (length == most || (unsigned char)text[length] < 0x20 || text[length] == 0x7f)
            return 0;
    return length > 0;
}

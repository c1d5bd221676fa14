/* What the file sink keeps beside the file (PATH.fence), as lines of text:
 *
 *     holdfast-fence 1
 *     token 1790000000000000
 *     resource account:7
 *     writing 0123456789abcdef01234567       when the last write named a task
 *     done 89abcdef0123456789abcdef          tasks that wrote before, the latest first
 *
 * A record is only ever replaced as a whole. `writing` is what ties it to the file, which is another name in the
 * directory and so cannot be renamed in the same step: it is written when PATH.new is complete, and PATH.new becomes
 * PATH after that. So that task is done if PATH.new is gone, and not done if it is there. No I/O here. */
#ifndef JOBS_FENCE_RECORD_H
#define JOBS_FENCE_RECORD_H

#include <stddef.h>
#include <stdint.h>

#include "jobs/fence/fence.h"

struct hf_fence_record {
    char *text; /* what was parsed, and what the texts below point into */
    int64_t token;
    const char *resource;
    const char *writing; /* NULL: none */
    unsigned done_count;
    const char *done[HF_FENCE_FILE_REPEATS];
};

/* Takes the text, which fini frees in any case; 0 when it is no record. */
int hf_fence_record_parse(struct hf_fence_record *record, char *text_take, size_t length);
void hf_fence_record_fini(struct hf_fence_record *record);
/* The text of it, which the caller frees; NULL without memory. */
char *hf_fence_record_print(const struct hf_fence_record *record, size_t *length);

/* Ends `writing`: what came of it is known. The eldest task is forgotten when there is no room. */
void hf_fence_record_settle(struct hf_fence_record *record, int was_written);
int hf_fence_record_is_done(const struct hf_fence_record *record, const char *jid);

/* Whether the text can be a line's value: 1 to `most` bytes without control characters. */
int hf_fence_record_fits(const char *text, size_t most);

#endif

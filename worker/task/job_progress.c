#include "worker/task/job_progress.h"

#include <stdlib.h>
#include <string.h>

#include "base/memory.h"

void job_progress_init(struct job_progress *progress)
{
    pthread_mutex_init(&progress->mutex, NULL);
    progress->is_new = false;
    progress->loaded = NULL;
}

void job_progress_fini(struct job_progress *progress)
{
    pthread_mutex_destroy(&progress->mutex);
    free(progress->loaded);
}

void job_progress_start(struct job_progress *progress, const char *cursor, size_t length)
{
    free(progress->loaded);
    progress->loaded = cursor != NULL ? memory_text_of(cursor, length) : NULL;
    progress->is_new = false;
}

bool job_progress_put(struct job_progress *progress, const char *json)
{
    size_t length = json != NULL ? strnlen(json, ITERATION_BYTES_MAX + 1) : 0;
    if (!iteration_text_is_sound(json != NULL ? json : "", length))
        return false;
    pthread_mutex_lock(&progress->mutex);
    memcpy(progress->text, json, length);
    progress->length = length;
    progress->is_new = true;
    pthread_mutex_unlock(&progress->mutex);
    return true;
}

bool job_progress_take(struct job_progress *progress, char text[ITERATION_BYTES_MAX], size_t *length)
{
    pthread_mutex_lock(&progress->mutex);
    bool is_new = progress->is_new;
    if (is_new) {
        memcpy(text, progress->text, progress->length);
        *length = progress->length;
        progress->is_new = false;
    }
    pthread_mutex_unlock(&progress->mutex);
    return is_new;
}

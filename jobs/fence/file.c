/* The file sink of fence.h.
 *
 * Each call holds flock() on PATH.lock only while it runs: a holder that is stopped between reading and writing blocks
 * no other. The lock is a separate file, because PATH and PATH.fence are replaced, and a lock on a replaced file
 * protects nothing.
 *
 * The steps; the process may die after any of them:
 *
 *     enter     lock; read and compare PATH.fence: a stale caller returns here and has changed nothing
 *     settle    decide what an earlier caller left half done, advance the token: replace PATH.fence, and only then
 *               remove PATH.new, on whose existence the decision depends
 *     (read)    the content
 *     (write)   write and synchronize PATH.new, then its name; PATH.fence says `writing JID`; rename PATH.new to PATH
 *
 * A file is synchronized before it gets its name, and the directory afterwards, so a loss of power can neither leave
 * an empty file under the name nor swap two steps. */
#include <errno.h>
#include <fcntl.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include "jobs/fence/fence.h"
#include "jobs/fence/rule.h"

/* --- records ------------------------------------------------------------------------------------------------------ */

/* The record of the file sink beside the file (PATH.fence), as lines of text:
 *
 *     holdfast-fence 1
 *     token 1790000000000000
 *     resource account:7
 *     writing 0123456789abcdef01234567       if the last write named a task
 *     done 89abcdef0123456789abcdef          tasks that wrote before, the latest first
 *
 * A record is always replaced as a whole. `writing` ties it to the file, which cannot be renamed in the same step.
 * It is written when PATH.new is complete, and afterwards PATH.new is renamed to PATH. So the task is done if
 * PATH.new is gone, and not done if it exists. No I/O here. */

struct hf_fence_record {
    char *text; /* the parsed text, into which the texts below point */
    int64_t token;
    const char *resource;
    const char *writing; /* NULL: none */
    unsigned done_count;
    const char *done[HF_FENCE_FILE_REPEATS];
};

static const char head[] = "holdfast-fence 1\n";

/* Takes the next line if it begins with that word and a blank, and returns the value; else NULL. */
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

/* Takes over the text, which fini always frees; 0 if it is no record. */
static int hf_fence_record_parse(struct hf_fence_record *record, char *text_take, size_t length)
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

/* The text of a record, which the caller frees; NULL without memory. */
static char *hf_fence_record_print(const struct hf_fence_record *record, size_t *length)
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

/* Ends `writing`, whose outcome is known. Drops the oldest task if there is no room. */
static void hf_fence_record_settle(struct hf_fence_record *record, int was_written)
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

static int hf_fence_record_is_done(const struct hf_fence_record *record, const char *jid)
{
    for (unsigned i = 0; i < record->done_count; i++)
        if (strcmp(record->done[i], jid) == 0)
            return 1;
    return 0;
}

/* Whether the text is valid as a line's value: 1 to `most` bytes without control characters. */
static int hf_fence_record_fits(const char *text, size_t most)
{
    size_t length = 0;
    if (text == NULL)
        return 0;
    for (; text[length] != '\0'; length++)
        if (length == most || (unsigned char)text[length] < 0x20 || text[length] == 0x7f)
            return 0;
    return length > 0;
}

/* --- files -------------------------------------------------------------------------------------------------------- */

enum { NAME_SIZE = 256, RESOURCE_MAX = 512, JID_MAX = 128, PATIENCE_MS = 5000, STEP_NS = 2000000 };
#define MS_PER_S  1000
#define NS_PER_MS 1000000

/* One call. */
struct visit {
    const struct hf_fence_file *file;
    int64_t number;      /* the token offered */
    int directory, lock; /* -1: not open */
    char name[NAME_SIZE], name_new[NAME_SIZE], fence[NAME_SIZE], fence_new[NAME_SIZE], lock_name[NAME_SIZE];
    struct hf_fence_record record;
    mode_t mode; /* of the file; 0 = no file */
    char *reason;
    size_t reason_size;
};

/* --- failures ----------------------------------------------------------------------------------------------- */

static enum hf_fence_outcome senseless(const struct visit *visit, const char *what)
{
    snprintf(visit->reason, visit->reason_size, "%.200s: %s", visit->file->path, what);
    return HF_FENCE_TROUBLE;
}

static enum hf_fence_outcome failed(const struct visit *visit, const char *name)
{
    const char *text = strerror(errno);
    int of_directory = (int)(strlen(visit->file->path) - strlen(visit->name));
    snprintf(visit->reason, visit->reason_size, "%.*s%s: %s", of_directory > 150 ? 0 : of_directory, visit->file->path,
             name, text);
    return HF_FENCE_TROUBLE;
}

/* --- entering and leaving ----------------------------------------------------------------------------------- */

static int64_t now_ms(void)
{
    struct timespec now;
    clock_gettime(CLOCK_BOOTTIME, &now);
    return (int64_t)now.tv_sec * MS_PER_S + now.tv_nsec / NS_PER_MS;
}

/* 1 locked, 0 not yet, -1 with errno. flock() has no timeout, so callers repeat this. */
static int lock_try(struct visit *visit)
{
    visit->lock = openat(visit->directory, visit->lock_name, O_RDWR | O_CREAT | O_NOFOLLOW | O_CLOEXEC, 0666);
    if (visit->lock < 0)
        return -1;
    if (flock(visit->lock, LOCK_EX | LOCK_NB) == 0)
        return 1;
    int is_taken = errno == EWOULDBLOCK || errno == EINTR;
    int error = errno;
    close(visit->lock);
    visit->lock = -1;
    errno = error;
    return is_taken ? 0 : -1;
}

static enum hf_fence_outcome lock_take(struct visit *visit)
{
    int64_t patience = visit->file->patience_ms > 0 ? visit->file->patience_ms : PATIENCE_MS;
    int64_t until = now_ms() + patience;
    for (;;) {
        int locked = lock_try(visit);
        if (locked > 0)
            return HF_FENCE_ACCEPTED;
        if (locked < 0)
            return failed(visit, visit->lock_name);
        if (now_ms() >= until)
            return senseless(visit, "another process used this file all the time");
        nanosleep(&(struct timespec){.tv_nsec = STEP_NS}, NULL);
    }
}

/* The content of a file and a NUL; NULL with errno. */
static char *content_read(int directory, const char *name, size_t *length)
{
    struct stat facts;
    char *bytes = NULL;
    ssize_t got = 1;
    int file = openat(directory, name, O_RDONLY | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC);
    if (file < 0)
        return NULL;
    *length = 0;
    if (fstat(file, &facts) == 0 && (bytes = malloc((size_t)facts.st_size + 1)) != NULL) {
        while (got > 0 && *length < (size_t)facts.st_size) {
            got = read(file, bytes + *length, (size_t)facts.st_size - *length);
            if (got > 0)
                *length += (size_t)got;
        }
        bytes[*length] = '\0';
    }
    int error = errno;
    close(file);
    errno = error;
    if (got >= 0)
        return bytes;
    free(bytes);
    return NULL;
}

static enum hf_fence_outcome fence_read(struct visit *visit)
{
    size_t length;
    char *text = content_read(visit->directory, visit->fence, &length);
    if (text == NULL) {
        visit->record.resource = visit->file->resource;
        return errno == ENOENT ? HF_FENCE_ACCEPTED : failed(visit, visit->fence);
    }
    if (!hf_fence_record_parse(&visit->record, text, length))
        return senseless(visit, "its .fence was not written by this sink, so stale tokens cannot be recognised");
    if (strcmp(visit->record.resource, visit->file->resource) != 0)
        return senseless(visit, "it is fenced by another resource, whose tokens cannot be compared");
    return hf_fence_admits(visit->record.token, visit->number)
               ? HF_FENCE_ACCEPTED
               : hf_fence_stale(visit->file->resource, visit->record.token, visit->number, visit->reason,
                                visit->reason_size);
}

static enum hf_fence_outcome file_look(struct visit *visit)
{
    struct stat facts;
    if (fstatat(visit->directory, visit->name, &facts, AT_SYMLINK_NOFOLLOW) != 0)
        return errno == ENOENT ? HF_FENCE_ACCEPTED : failed(visit, visit->name);
    visit->mode = facts.st_mode;
    return S_ISREG(facts.st_mode) ? HF_FENCE_ACCEPTED : senseless(visit, "it is not a regular file");
}

static enum hf_fence_outcome directory_open(struct visit *visit)
{
    const char *path = visit->file->path, *slash = strrchr(path, '/'), *name = slash != NULL ? slash + 1 : path;
    size_t length = strlen(name);
    if (length == 0 || length > NAME_SIZE - sizeof ".fence.new")
        return senseless(visit, "the name of the file is empty or too long");
    char *directory = slash == NULL ? strdup(".") : strndup(path, slash == path ? 1 : (size_t)(slash - path));
    if (directory == NULL)
        return senseless(visit, "out of memory");
    memcpy(visit->name, name, length + 1);
    snprintf(visit->name_new, NAME_SIZE, "%.244s.new", name);
    snprintf(visit->fence, NAME_SIZE, "%.244s.fence", name);
    snprintf(visit->fence_new, NAME_SIZE, "%.244s.fence.new", name);
    snprintf(visit->lock_name, NAME_SIZE, "%.244s.lock", name);
    visit->directory = open(directory, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    free(directory);
    return visit->directory >= 0 ? HF_FENCE_ACCEPTED : failed(visit, visit->name);
}

static enum hf_fence_outcome enter(struct visit *visit)
{
    enum hf_fence_outcome outcome;
    if (!hf_fence_offered(visit->file->token, &visit->number, visit->reason, visit->reason_size))
        return HF_FENCE_TROUBLE;
    if (!hf_fence_record_fits(visit->file->resource, RESOURCE_MAX))
        return senseless(visit, "the resource is to be a text of 1 to 512 bytes without control characters");
    if ((outcome = directory_open(visit)) != HF_FENCE_ACCEPTED || (outcome = lock_take(visit)) != HF_FENCE_ACCEPTED ||
        (outcome = fence_read(visit)) != HF_FENCE_ACCEPTED)
        return outcome;
    return file_look(visit);
}

static enum hf_fence_outcome leave(struct visit *visit, enum hf_fence_outcome outcome)
{
    if (visit->lock >= 0)
        close(visit->lock); /* its only descriptor, so this unlocks */
    if (visit->directory >= 0)
        close(visit->directory);
    free(visit->record.text);
    return outcome;
}

/* --- replacing ---------------------------------------------------------------------------------------------- */

static int bytes_write(int file, const char *bytes, size_t length)
{
    while (length > 0) {
        ssize_t written = write(file, bytes, length);
        if (written < 0 && errno != EINTR)
            return -1;
        if (written > 0) {
            bytes += written;
            length -= (size_t)written;
        }
    }
    return 0;
}

/* Writes a file completely to the disk; its name may not be there yet. Replaces a leftover of that name. */
static int new_write(const struct visit *visit, const char *name, const char *bytes, size_t length, mode_t mode)
{
    if (unlinkat(visit->directory, name, 0) != 0 && errno != ENOENT)
        return -1;
    int file = openat(visit->directory, name, O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, 0666);
    if (file < 0)
        return -1;
    int result = mode == 0 ? 0 : fchmod(file, mode & 07777);
    if (result == 0)
        result = bytes_write(file, bytes, length);
    if (result == 0)
        result = fsync(file);
    int error = errno;
    if (close(file) != 0 && result == 0)
        return -1;
    errno = error;
    return result;
}

static int name_put(const struct visit *visit, const char *from, const char *to)
{
    return renameat(visit->directory, from, visit->directory, to) == 0 ? fsync(visit->directory) : -1;
}

static enum hf_fence_outcome fence_write(struct visit *visit)
{
    size_t length = 0;
    char *text = hf_fence_record_print(&visit->record, &length);
    if (text == NULL)
        return senseless(visit, "out of memory");
    int result = new_write(visit, visit->fence_new, text, length, 0);
    free(text);
    return result == 0 && name_put(visit, visit->fence_new, visit->fence) == 0 ? HF_FENCE_ACCEPTED
                                                                               : failed(visit, visit->fence);
}

static enum hf_fence_outcome settle(struct visit *visit)
{
    enum hf_fence_outcome outcome = HF_FENCE_ACCEPTED;
    int is_left = faccessat(visit->directory, visit->name_new, F_OK, AT_SYMLINK_NOFOLLOW) == 0;
    if (!is_left && errno != ENOENT)
        return failed(visit, visit->name_new);
    if (visit->record.writing != NULL || visit->record.token != visit->number) {
        hf_fence_record_settle(&visit->record, !is_left);
        visit->record.token = visit->number;
        outcome = fence_write(visit);
    }
    if (outcome == HF_FENCE_ACCEPTED && is_left && unlinkat(visit->directory, visit->name_new, 0) != 0)
        return failed(visit, visit->name_new);
    return outcome;
}

static enum hf_fence_outcome content_replace(struct visit *visit, const char *jid, const void *bytes, size_t length)
{
    enum hf_fence_outcome outcome = HF_FENCE_ACCEPTED;
    if (new_write(visit, visit->name_new, bytes, length, visit->mode) != 0 || fsync(visit->directory) != 0) {
        outcome = failed(visit, visit->name_new);
        unlinkat(visit->directory, visit->name_new, 0); /* the disk may be full */
        return outcome;
    }
    visit->record.writing = jid;
    if (jid != NULL)
        outcome = fence_write(visit);
    if (outcome == HF_FENCE_ACCEPTED && name_put(visit, visit->name_new, visit->name) != 0)
        outcome = failed(visit, visit->name);
    return outcome;
}

/* --- what callers call -------------------------------------------------------------------------------------- */

enum hf_fence_outcome hf_fence_file_read(const struct hf_fence_file *file, char **bytes, size_t *length, char *reason,
                                         size_t reason_size)
{
    struct visit visit = {.file = file, .directory = -1, .lock = -1, .reason = reason, .reason_size = reason_size};
    enum hf_fence_outcome outcome = enter(&visit);
    if (outcome == HF_FENCE_ACCEPTED)
        outcome = settle(&visit);
    if (bytes != NULL) {
        *bytes = NULL;
        *length = 0;
        if (outcome == HF_FENCE_ACCEPTED && visit.mode != 0) {
            *bytes = content_read(visit.directory, visit.name, length);
            if (*bytes == NULL)
                outcome = failed(&visit, visit.name);
        }
    }
    return leave(&visit, outcome);
}

enum hf_fence_outcome hf_fence_file_write(const struct hf_fence_file *file, const char *jid, const void *bytes,
                                          size_t length, char *reason, size_t reason_size)
{
    struct visit visit = {.file = file, .directory = -1, .lock = -1, .reason = reason, .reason_size = reason_size};
    if (jid != NULL && !hf_fence_record_fits(jid, JID_MAX))
        return senseless(&visit, "the jid is to be a text of 1 to 128 bytes without control characters");
    enum hf_fence_outcome outcome = enter(&visit);
    if (outcome == HF_FENCE_ACCEPTED)
        outcome = settle(&visit);
    if (outcome == HF_FENCE_ACCEPTED && jid != NULL && hf_fence_record_is_done(&visit.record, jid)) {
        snprintf(reason, reason_size, "the task %s was done before", jid);
        outcome = HF_FENCE_REPEAT;
    }
    if (outcome == HF_FENCE_ACCEPTED)
        outcome = content_replace(&visit, jid, bytes, length);
    return leave(&visit, outcome);
}

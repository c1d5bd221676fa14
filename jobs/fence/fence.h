/* SPDX-License-Identifier: MIT */
/* fence.h: sinks that refuse a holder whose lock has ended. For handlers and any other program with a token.
 *
 * A holder that stands still cannot react to the end of its lock: it may wake up after another task got the lock, and
 * still write. Only the place that is written can refuse that. Each hold of a lock has a token, a number larger than
 * those of all earlier holds of the same resource. A sink keeps the largest token of a resource and refuses smaller
 * ones. docs/fencing.md is the manual.
 *
 * The rules that every sink here keeps:
 *
 *   - A token that equals the stored one is accepted: it is the same holder, which may write more than once.
 *   - The fence is advanced before anything is read. A sink that only compared on writing would accept a stale writer
 *     between the new holder's reading and its first write, and that write would be lost.
 *   - Comparing, writing and recording the task's id are one transaction: all of it, or nothing.
 *   - A fence does not recognise repeats: a task that runs again has a newer token. So the sink keeps the ids of
 *     finished tasks with the data, and answers a repeat with HF_FENCE_REPEAT.
 *   - In doubt the answer is HF_FENCE_TROUBLE, and nothing was accepted.
 *
 * In a handler, with the tables of job.h:
 *
 *     const char *const *names;
 *     unsigned count = lock_api->resources(job, &names);
 *     const char *token = lock_api->fence(job, 0);       the same number for all resources of one hold
 *     switch (hf_fence_sqlite_begin(fence, names, count, token, reason, sizeof reason)) {
 *     case HF_FENCE_ACCEPTED: break;
 *     case HF_FENCE_STALE: job_api->error(job, HF_FENCED_OFF, "%s", reason); return HF_FAIL;
 *     default: job_api->error(job, "LedgerError", "%s", reason); return HF_FAIL;
 *     }
 *
 * A lock without a token (lock.fence = false) has the text "". Every function here refuses it as trouble: to go on
 * without a fence, decide so before calling.
 *
 * Build: link libholdfast-fence.a (pkg-config holdfast-fence). A plugin takes only what it calls from this archive: for
 * the SQLite sink link SQLite too (pkg-config holdfast-fence sqlite3); the file sink does not need it.
 *
 * `reason` gets one line for people whenever the answer is not HF_FENCE_ACCEPTED; 320 bytes hold all of it. All
 * functions may be called from any thread; calls for one object must be serialized as described below. */
#ifndef HOLDFAST_FENCE_H
#define HOLDFAST_FENCE_H

#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

enum hf_fence_outcome {
    HF_FENCE_ACCEPTED,
    HF_FENCE_STALE,   /* a later holder was here: write nothing any more, anywhere, and return */
    HF_FENCE_REPEAT,  /* this task was done before: write nothing; that is a success */
    HF_FENCE_TROUBLE, /* neither: the sink could not be reached or used, or the call makes no sense */
};

/* The class of error for a task that ends because of HF_FENCE_STALE, so that such endings can be listed. */
#define HF_FENCED_OFF "HF::FencedOff"

/* A token is a whole number from 1 to 2^53 - 1 in decimal digits, without sign, blank or leading zero. Returns 1 and
 * the number, or 0 when the text (which may be NULL) is anything else. */
int hf_fence_token(const char *text, int64_t *number);

/* --- SQLite ---------------------------------------------------------------------------------------------------
 *
 * Two tables in the database that holds the data, `holdfast_fence` (resource, token) and `holdfast_done` (jid):
 *
 *     hf_fence_sqlite_install(db, ...)            once a database; does no harm when repeated
 *     fence = hf_fence_sqlite_create(db, ...)     once a connection
 *
 *     hf_fence_sqlite_begin(fence, names, count, token, ...)
 *     SELECT ...                                  what was read before begin() must not be used
 *     hf_fence_sqlite_once(fence, jid, ...)
 *     UPDATE ...
 *     hf_fence_sqlite_commit(fence, ...)
 *
 * Long work between reading and writing does not belong inside a transaction. Then there are two: begin, read, commit;
 * work; begin with the same token, once, write, commit. The second begin answers HF_FENCE_STALE if a later holder came
 * in between, so what was read is still true when it is accepted.
 *
 * Every answer but HF_FENCE_ACCEPTED has ended the transaction and undone all of it. (Only begin() inside a transaction
 * that is open already leaves that one alone.) If the process dies, SQLite undoes it at the next opening.
 *
 * Waiting for another writer is SQLite's: set sqlite3_busy_timeout(). One connection and what was created for it belong
 * to one thread at a time. */
struct sqlite3;
struct hf_fence_sqlite; /* opaque; prepared statements of one connection */

/* Creates the tables that are missing. Returns 1, or 0 with a reason; sqlite3_errcode(db) tells then whether the
 * database was only busy. */
int hf_fence_sqlite_install(struct sqlite3 *db, char *reason, size_t reason_size);

/* NULL with a reason when the tables are missing or look different. Keeps `db`, which the caller closes after
 * destroying this. */
struct hf_fence_sqlite *hf_fence_sqlite_create(struct sqlite3 *db, char *reason, size_t reason_size);
void hf_fence_sqlite_destroy(struct hf_fence_sqlite *fence); /* NULL is harmless */

/* Takes the write lock of the database and advances the fence of all these resources to `token`, or of none. */
enum hf_fence_outcome hf_fence_sqlite_begin(struct hf_fence_sqlite *fence, const char *const *resources, unsigned count,
                                            const char *token, char *reason, size_t reason_size);
/* Records that this task is done; inside the transaction. */
enum hf_fence_outcome hf_fence_sqlite_once(struct hf_fence_sqlite *fence, const char *jid, char *reason,
                                           size_t reason_size);
enum hf_fence_outcome hf_fence_sqlite_commit(struct hf_fence_sqlite *fence, char *reason, size_t reason_size);
void hf_fence_sqlite_rollback(struct hf_fence_sqlite *fence); /* without a transaction it does nothing */

/* --- a file ---------------------------------------------------------------------------------------------------
 *
 * One file, replaced as a whole, that belongs to one resource:
 *
 *     struct hf_fence_file file = {.path = "/srv/report.txt", .resource = "report", .token = token};
 *     hf_fence_file_read(&file, &bytes, &length, ...);         advances the fence, then reads
 *     ... any length of time ...
 *     hf_fence_file_write(&file, jid, bytes, length, ...);     HF_FENCE_STALE if a later holder has read or written
 *
 * Beside PATH there are PATH.fence (the token, the resource, and the ids of the last HF_FENCE_FILE_REPEATS tasks that
 * wrote), PATH.lock (empty; locked by flock() during a comparison or replacement), and for moments PATH.new and
 * PATH.fence.new. They belong together: do not remove, copy or rename one of them alone. Every user of the file must
 * use this sink, on one machine or on a file system where flock() and rename() hold between machines.
 *
 * The process may die, or the machine lose power, at any point: PATH is the old or the new content, never a part, a
 * fence never goes back, and a task counts as done exactly when its content is there. The next caller clears away what
 * is half done.
 *
 * PATH keeps its mode, not its owner, and must not be a link. */
enum { HF_FENCE_FILE_REPEATS = 1000 };

struct hf_fence_file {
    const char *path;
    const char *resource; /* 1 to 512 bytes without control characters */
    const char *token;
    /* How long to wait for other callers at the same file, in milliseconds; 0 = 5000. */
    int64_t patience_ms;
};

/* `*bytes` gets the content, with a NUL behind it that `length` does not count; the caller frees it. NULL if there is
 * no such file yet, or the answer is not HF_FENCE_ACCEPTED. Pass NULL as `bytes` to read by other means, after this.
 * Never answers HF_FENCE_REPEAT. */
enum hf_fence_outcome hf_fence_file_read(const struct hf_fence_file *file, char **bytes, size_t *length, char *reason,
                                         size_t reason_size);
/* Advances the fence if that was not done, and replaces the content. `jid` may be NULL: then repeats are not noticed.
 * Its length is at most 128 bytes, without control characters. */
enum hf_fence_outcome hf_fence_file_write(const struct hf_fence_file *file, const char *jid, const void *bytes,
                                          size_t length, char *reason, size_t reason_size);

#ifdef __cplusplus
}
#endif

#endif

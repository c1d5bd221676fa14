/* The file sink survives being killed at every step of its way, and many at once. This program's own write(), fsync(),
 * renameat() and unlinkat() stand in for those that the sink calls: they count, kill, and leave out the waiting for the
 * disk. */
#include "tests/unit/fence_file_fixture.h"

#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/syscall.h>

#include "tests/support/crowd.h"

/* --- the steps ---------------------------------------------------------------------------------------------- */

static int points_left = -1; /* of which the last one kills; -1: none does */
static char trace[64];       /* what was called, one letter each: w, f (a file), d (a directory), r, u */

static void point(void)
{
    if (points_left >= 0 && points_left-- == 0)
        kill(getpid(), SIGKILL);
}

static void note(char letter)
{
    size_t length = strlen(trace);
    if (length + 1 < sizeof trace)
        trace[length] = letter;
}

ssize_t write(int file, const void *bytes, size_t length)
{
    const char *text = bytes;
    note('w');
    point();
    if (points_left == 0) /* half of it */
        syscall(SYS_write, file, text, length / 2);
    point();
    return (ssize_t)syscall(SYS_write, file, text, length);
}

int fsync(int file)
{
    struct stat facts;
    note(fstat(file, &facts) == 0 && S_ISDIR(facts.st_mode) ? 'd' : 'f');
    point();
    return 0;
}

int renameat(int from_directory, const char *from, int to_directory, const char *to)
{
    note('r');
    point();
    int result = (int)syscall(SYS_renameat2, from_directory, from, to_directory, to, 0);
    point();
    return result;
}

int unlinkat(int directory, const char *name, int flags)
{
    note('u');
    point();
    int result = (int)syscall(SYS_unlinkat, directory, name, flags);
    point();
    return result;
}

/* --- being killed ------------------------------------------------------------------------------------------- */

struct progress {
    _Atomic int has_read, has_written; /* what the killed one was told */
};

/* One holder, killed at that point if its way is that long: true when it was. */
static bool holder_killed_at(int killed_at, const char *token, struct progress *progress)
{
    int status;
    pid_t child = fork();
    if (child == 0) {
        points_left = killed_at;
        const char *content = read_as(token);
        if (content[0] == '(')
            _exit(1);
        progress->has_read = 1;
        enum hf_fence_outcome outcome = write_as(token, "second", "new content");
        progress->has_written = outcome == HF_FENCE_ACCEPTED || outcome == HF_FENCE_REPEAT;
        _exit(progress->has_written ? 0 : 2);
    }
    assert_int_equal(waitpid(child, &status, 0), child);
    assert_true(WIFSIGNALED(status) || status == 0);
    return WIFSIGNALED(status);
}

/* What must hold whatever happened to holders 2 and 3. */
static void check_after(const struct progress *progress)
{
    if (progress->has_read)
        assert_int_equal(write_as("1", NULL, "overwritten"), HF_FENCE_STALE);
    char before[8192];
    snprintf(before, sizeof before, "%s", read_as("4"));
    bool was_written = strcmp(before, "new content") == 0;
    if (!was_written)
        assert_string_equal(before, "old content");
    if (progress->has_written)
        assert_true(was_written);
    assert_int_equal(write_as("4", "first", "a repeat"), HF_FENCE_REPEAT);
    assert_int_equal(write_as("4", "second", "new content"), was_written ? HF_FENCE_REPEAT : HF_FENCE_ACCEPTED);
    assert_string_equal(read_as("4"), "new content");
    assert_int_equal(write_as("3", NULL, "overwritten"), HF_FENCE_STALE);
    assert_false(exists(".new"));
    assert_false(exists(".fence.new"));
}

/* A holder is killed at every point, and the one after it, which clears up, at every point too. */
TEST(it_survives_being_killed_anywhere)
{
    struct progress *progress = mmap(NULL, sizeof *progress, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    bool first_killed = true, second_killed;
    int deaths = 0;
    assert_true(progress != MAP_FAILED);
    for (int first = 0; first_killed; first++) {
        second_killed = true;
        for (int second = 0; second_killed; second++) {
            place_clear();
            *progress = (struct progress){0};
            assert_int_equal(write_as("1", "first", "old content"), HF_FENCE_ACCEPTED);
            first_killed = holder_killed_at(first, "2", progress);
            second_killed = holder_killed_at(second, "3", progress);
            deaths += second_killed;
            check_after(progress);
        }
    }
    assert_true(deaths > 200);
    munmap(progress, sizeof *progress);
}

/* A file is on the disk before it has its name, and its name before the next step relies on it. */
TEST(steps_reach_the_disk_in_order)
{
    assert_int_equal(write_as("1", "a", "1"), HF_FENCE_ACCEPTED);
    memset(trace, 0, sizeof trace);
    read_as("2");
    assert_string_equal(trace, "uwfrd"); /* the fence */
    memset(trace, 0, sizeof trace);
    read_as("2");
    assert_string_equal(trace, ""); /* nothing to advance */
    assert_int_equal(write_as("2", "b", "2"), HF_FENCE_ACCEPTED);
    assert_string_equal(trace, "uwfd"  /* the new content */
                               "uwfrd" /* the fence says who is writing */
                               "rd");  /* the new content becomes the content */
    memset(trace, 0, sizeof trace);
    assert_int_equal(write_as("3", NULL, "3"), HF_FENCE_ACCEPTED);
    assert_string_equal(trace, "uwfrd" /* the fence, before the content */
                               "uwfd"
                               "rd");
}

/* --- many ---------------------------------------------------------------------------------------------------- */

TEST(so_many_tasks_are_remembered)
{
    enum { TASKS = HF_FENCE_FILE_REPEATS + 3 };
    char jid[16];
    for (int i = 0; i < TASKS; i++) {
        snprintf(jid, sizeof jid, "%d", i);
        assert_int_equal(write_as("1", jid, jid), HF_FENCE_ACCEPTED);
    }
    for (int i = TASKS - HF_FENCE_FILE_REPEATS; i < TASKS; i += i < TASKS - 20 && i > 20 ? 13 : 1) {
        snprintf(jid, sizeof jid, "%d", i);
        assert_int_equal(write_as("1", jid, "repeat"), HF_FENCE_REPEAT);
    }
    assert_int_equal(write_as("1", "0", "too long ago"), HF_FENCE_ACCEPTED);
}

enum { PROCESSES = 5, ROUNDS = 60, TOKENS = PROCESSES * ROUNDS + 1 };

/* The content is one line for each write: what was read, and one more with the token of the writer. */
static enum hf_fence_outcome line_add(const char *token, unsigned *seed)
{
    char content[8192];
    snprintf(content, sizeof content, "%s", read_as(token));
    if (strcmp(content, "(stale)") == 0)
        return HF_FENCE_STALE;
    if (strcmp(content, "(none)") == 0)
        content[0] = '\0';
    size_t length = strlen(content);
    snprintf(content + length, sizeof content - length, "%s\n", token);
    crowd_pause(seed);
    return write_as(token, token, content);
}

struct gathering {
    struct place *place;
    bool with_deaths;
    _Atomic int *told; /* by token: 1 when its holder was told that it has written */
    _Atomic int *deaths;
};

static void one_round(struct crowd *crowd, struct gathering *gathering, unsigned *seed, bool is_mortal)
{
    char token[24];
    crowd_token(crowd, token);
    crowd_pause(seed); /* so that the larger token may be there first */
    points_left = is_mortal ? (int)((*seed >> 8) % 90) : -1;
    enum hf_fence_outcome outcome = line_add(token, seed);
    if (outcome == HF_FENCE_ACCEPTED)
        gathering->told[strtol(token, NULL, 10)] = 1;
    atomic_fetch_add(outcome == HF_FENCE_ACCEPTED ? &crowd->accepted
                     : outcome == HF_FENCE_STALE  ? &crowd->refused
                                                  : &crowd->failed,
                     1);
}

static void member(struct crowd *crowd, void *context, unsigned *seed)
{
    struct gathering *gathering = context;
    for (int i = 0; i < ROUNDS; i++) {
        int status = 0;
        crowd_pause(seed);
        if (!gathering->with_deaths) {
            one_round(crowd, gathering, seed, false);
            continue;
        }
        pid_t child = fork();
        if (child == 0) {
            one_round(crowd, gathering, seed, true);
            _exit(0);
        }
        if (waitpid(child, &status, 0) == child && WIFSIGNALED(status))
            atomic_fetch_add(gathering->deaths, 1);
    }
}

/* Tokens rise from line to line, and who was told that it has written is there. Returns the number of lines. */
static int lines_check(const _Atomic int *told)
{
    int lines = 0, found = 0, expected = 0;
    long last = 0;
    char *rest = NULL;
    char content[8192];
    snprintf(content, sizeof content, "%s", read_as("1000000"));
    for (char *line = strtok_r(content, "\n", &rest); line != NULL; line = strtok_r(NULL, "\n", &rest)) {
        long token = strtol(line, NULL, 10);
        assert_true(token > last && token < TOKENS);
        last = token;
        found += told[token];
        lines++;
    }
    for (int i = 0; i < TOKENS; i++)
        expected += told[i];
    assert_int_equal(found, expected);
    return lines;
}

static void gather(bool with_deaths)
{
    size_t size = (TOKENS + 1) * sizeof(_Atomic int);
    _Atomic int *shared = mmap(NULL, size, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    assert_true(shared != MAP_FAILED);
    struct gathering gathering = {place, with_deaths, .told = shared, .deaths = &shared[TOKENS]};
    struct crowd *crowd = crowd_run(PROCESSES, member, &gathering);
    int lines = lines_check(gathering.told), deaths = *gathering.deaths;
    assert_int_equal(crowd->failed, 0);
    assert_int_equal(crowd->accepted + crowd->refused + deaths, PROCESSES * ROUNDS);
    assert_true(crowd->accepted > 0);
    assert_true(lines >= crowd->accepted && lines <= crowd->accepted + deaths);
    assert_true(with_deaths == (deaths > 0));
    crowd_destroy(crowd);
    munmap(shared, size);
}

TEST(many_at_once_lose_nothing)
{
    gather(false);
}

TEST(many_at_once_of_which_some_are_killed_lose_nothing)
{
    gather(true);
}

RUN_TESTS_BETWEEN(enter, leave)

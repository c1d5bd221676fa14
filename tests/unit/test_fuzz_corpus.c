/* Runs the fuzz targets as ordinary tests: over their corpora, over every beginning of each file, and over seeded
 * mutations, so that a run can be repeated. The targets abort when something does not hold. */
#include "tests/support/test.h"

#include <dirent.h>

#include "base/buffer.h"
#include "base/memory.h"

#define TARGET(name) int fuzz_##name(const uint8_t *data, size_t size);
#include "tests/fuzz.targets"
#undef TARGET

static const struct target {
    const char *name;
    int (*run)(const uint8_t *data, size_t size);
} targets[] = {
#define TARGET(name) {#name, fuzz_##name},
#include "tests/fuzz.targets"
#undef TARGET
};

enum { FILES_MAX = 256, MUTATIONS = 10000, MUTATIONS_SANITIZED = 2500, MUTANT_BYTES_MAX = 1 << 14 };

struct corpus {
    struct buffer files[FILES_MAX];
    size_t count;
};

static void file_read(const char *directory, const char *name, struct buffer *out)
{
    char path[512];
    snprintf(path, sizeof path, "%s/%s", directory, name);
    FILE *file = fopen(path, "rb");
    if (file == NULL)
        fail_msg("cannot open %s", path);
    size_t more;
    while ((more = fread(buffer_reserve(out, 4096), 1, 4096, file)) > 0)
        out->length += more;
    fclose(file);
}

static int is_visible(const struct dirent *entry)
{
    return entry->d_name[0] != '.';
}

/* In the order of names, because the mutations depend on it. */
static void corpus_init(struct corpus *corpus, const char *directory)
{
    struct dirent **entries;
    int count = scandir(directory, &entries, is_visible, alphasort);
    if (count <= 0 || count > FILES_MAX)
        fail_msg("%s has %d files: run this in the root of the sources", directory, count);
    memset(corpus, 0, sizeof *corpus);
    for (int i = 0; i < count; i++) {
        file_read(directory, entries[i]->d_name, &corpus->files[corpus->count++]);
        free(entries[i]);
    }
    free(entries);
}

static void corpus_fini(struct corpus *corpus)
{
    for (size_t i = 0; i < corpus->count; i++)
        buffer_fini(&corpus->files[i]);
}

/* ----- mutations ----- */

static uint64_t random_state;

/* Below `bound`, from a generator that gives the same numbers in every run (xorshift). */
static size_t draw(size_t bound)
{
    random_state ^= random_state << 13;
    random_state ^= random_state >> 7;
    random_state ^= random_state << 17;
    return (size_t)(random_state >> 11) % bound;
}

static void insert(struct buffer *text, size_t at, const char *bytes, size_t length)
{
    char *tail = memory_text_of(text->bytes + at, text->length - at);
    size_t tail_length = text->length - at;
    text->length = at;
    buffer_append(text, bytes, length);
    buffer_append(text, tail, tail_length);
    free(tail);
}

static void erase(struct buffer *text, size_t at, size_t length)
{
    memmove(text->bytes + at, text->bytes + at + length, text->length - at - length);
    text->length -= length;
}

static void mutate(struct buffer *text, const struct buffer *other)
{
    static const char *const tokens[] = {"\"",
                                         "\\",
                                         "{",
                                         "}",
                                         "[",
                                         "]",
                                         ",",
                                         ":",
                                         "\\u0061",
                                         "\\ud800",
                                         "\\udc00",
                                         "\\u0000",
                                         "\"class\":",
                                         "\"args\":[]",
                                         "\"resource\":",
                                         "\"retry\":",
                                         "null",
                                         "false",
                                         "-",
                                         "1e400",
                                         "\xFF",
                                         "\xC3\xA9",
                                         "\xF0\x9F\x98\x80",
                                         "hf:",
                                         " "};
    size_t at = draw(text->length + 1), left = text->length - at;
    switch (draw(7)) {
    case 0:
        if (left > 0)
            text->bytes[at] = (char)draw(256);
        break;
    case 1:
        if (left > 0)
            text->bytes[at] = (char)(text->bytes[at] ^ (1 << draw(8)));
        break;
    case 2:
        erase(text, at, draw(left + 1));
        break;
    case 3: {
        const char *token = tokens[draw(sizeof tokens / sizeof tokens[0])];
        insert(text, at, token, strlen(token));
        break;
    }
    case 4:
        insert(text, at, other->bytes, draw(other->length + 1));
        break;
    case 5:
        text->length = at;
        break;
    default:
        if (left > 0)
            erase(text, at, 1);
        break;
    }
}

/* ----- targets ----- */

static struct {
    const char *target;
    const struct buffer *input;
} running;

/* Keeps what a target aborts on. */
static void aborted(int number)
{
    char path[512];
    const char *directory = getenv("TMPDIR");
    snprintf(path, sizeof path, "%s/find-%s", directory != NULL ? directory : "/tmp", running.target);
    FILE *file = fopen(path, "wb");
    if (file != NULL) {
        fwrite(running.input->bytes, 1, running.input->length, file);
        fclose(file);
    }
    fprintf(stderr, "signal %d: the fuzz target %s does not stand %s; add it to its corpus\n", number, running.target,
            path);
}

static void target_run(const struct target *target, const struct buffer *input)
{
    running.target = target->name;
    running.input = input;
    target->run((const uint8_t *)input->bytes, input->length);
}

static void survive_beginnings(const struct target *target, const struct corpus *corpus)
{
    for (size_t i = 0; i < corpus->count; i++)
        for (size_t length = corpus->files[i].length + 1; length-- > 0;)
            target_run(target, &(struct buffer){corpus->files[i].bytes, length, length});
}

static void survive_mutations(const struct target *target, const struct corpus *corpus)
{
    struct buffer text = {.bytes = NULL};
    bool is_slow = getenv("HOLDFAST_SANITIZED") != NULL;
    random_state = UINT64_C(0x9E3779B97F4A7C15);
    for (int i = 0; i < (is_slow ? MUTATIONS_SANITIZED : MUTATIONS); i++) {
        const struct buffer *seed = &corpus->files[draw(corpus->count)];
        buffer_clear(&text);
        buffer_append(&text, seed->bytes, seed->length);
        for (size_t round = 1 + draw(4); round > 0 && text.length <= MUTANT_BYTES_MAX; round--)
            mutate(&text, &corpus->files[draw(corpus->count)]);
        target_run(target, &text);
    }
    buffer_fini(&text);
}

static void each_target(void (*survive)(const struct target *target, const struct corpus *corpus))
{
    signal(SIGABRT, aborted);
    for (size_t i = 0; i < sizeof targets / sizeof targets[0]; i++) {
        struct corpus corpus;
        char directory[128];
        snprintf(directory, sizeof directory, "tests/fuzz/corpus/%s", targets[i].name);
        corpus_init(&corpus, directory);
        survive(&targets[i], &corpus);
        corpus_fini(&corpus);
    }
}

TEST(the_targets_stand_their_corpora)
{
    each_target(survive_beginnings);
}

TEST(the_targets_stand_mutations)
{
    each_target(survive_mutations);
}

RUN_TESTS

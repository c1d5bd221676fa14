/* Runs the fuzz targets as ordinary tests: over their corpus, over every beginning of each file, and over seeded
 * mutations, so that a run can be repeated. The targets abort when something does not hold. */
#include "tests/support/test.h"

#include <dirent.h>

#include "base/buffer.h"
#include "base/memory.h"

#define LLVMFuzzerTestOneInput fuzz_envelope
#include "tests/fuzz/fuzz_envelope.c"
#undef LLVMFuzzerTestOneInput

enum { FILES_MAX = 256, MUTATIONS = 40000, MUTATIONS_SANITIZED = 10000, MUTANT_BYTES_MAX = 1 << 14 };

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

static void survive_mutations(const struct corpus *corpus, int (*target)(const uint8_t *, size_t))
{
    struct buffer text = {.bytes = NULL};
    int mutations = getenv("HOLDFAST_SANITIZED") != NULL ? MUTATIONS_SANITIZED : MUTATIONS;
    random_state = UINT64_C(0x9E3779B97F4A7C15);
    for (int i = 0; i < mutations; i++) {
        const struct buffer *seed = &corpus->files[draw(corpus->count)];
        buffer_clear(&text);
        buffer_append(&text, seed->bytes, seed->length);
        for (size_t round = 1 + draw(4); round > 0 && text.length <= MUTANT_BYTES_MAX; round--)
            mutate(&text, &corpus->files[draw(corpus->count)]);
        target((const uint8_t *)text.bytes, text.length);
    }
    buffer_fini(&text);
}

static void survive_corpus(const struct corpus *corpus, int (*target)(const uint8_t *, size_t))
{
    for (size_t i = 0; i < corpus->count; i++)
        for (size_t length = corpus->files[i].length + 1; length-- > 0;)
            target((const uint8_t *)corpus->files[i].bytes, length);
}

/* ----- targets ----- */

TEST(the_envelope_stands_its_corpus)
{
    struct corpus corpus;
    corpus_init(&corpus, "tests/fuzz/corpus/envelope");
    survive_corpus(&corpus, fuzz_envelope);
    corpus_fini(&corpus);
}

TEST(the_envelope_stands_mutations)
{
    struct corpus corpus;
    corpus_init(&corpus, "tests/fuzz/corpus/envelope");
    survive_mutations(&corpus, fuzz_envelope);
    corpus_fini(&corpus);
}

RUN_TESTS

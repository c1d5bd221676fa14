/* The two parts of the log that need no thread: quoting, and the ring of lines. */
#include "tests/support/test.h"

#include "base/log.h"
#include "base/log_ring.h"
#include "base/random.h"
#include "queue/json.h"

/* --- quoting ------------------------------------------------------------------------------------------------ */

struct quoted {
    const char *text, *expected;
};

TEST(text_is_quoted_so_that_it_can_do_no_harm)
{
    static const struct quoted cases[] = {
        {NULL, "-"},
        {"", "\"\""},
        {"-", "\"-\""},
        {"--", "--"},
        {"redis://n1:6379/0", "redis://n1:6379/0"},
        {"a_b.c@d+e-f", "a_b.c@d+e-f"},
        {"two words", "\"two words\""},
        {"a=b", "\"a=b\""},
        {"say \"hi\" \\ bye", "\"say \\\"hi\\\" \\\\ bye\""},
        {"line\nline\r\t", "\"line\\x0Aline\\x0D\\x09\""},
        {"\x1b[31mred\x07\x7f", "\"\\x1B[31mred\\x07\\x7F\""},
        {"na\xC3\xAFve \xE2\x82\xAC \xF0\x9F\x98\x80", "\"na\xC3\xAFve \xE2\x82\xAC \xF0\x9F\x98\x80\""},
        {"c1 \xC2\x9B", "\"c1 \\u009B\""},
        {"\xE2\x80\xA8\xE2\x80\xA9", "\"\\u2028\\u2029\""},
        {"\xE2\x80\xAE\xEF\xBB\xBF", "\"\\u202E\\uFEFF\""},
        {"\x80\xFF", "\"\\x80\\xFF\""},
        {"\xC0\xAF \xC1\x81", "\"\\xC0\\xAF \\xC1\\x81\""},                            /* too long for what they say */
        {"\xE0\x80\x8A \xF0\x80\x80\x8A", "\"\\xE0\\x80\\x8A \\xF0\\x80\\x80\\x8A\""}, /* these too */
        {"\xED\xA0\x80", "\"\\xED\\xA0\\x80\""},                                       /* half of a pair */
        {"\xF4\x90\x80\x80", "\"\\xF4\\x90\\x80\\x80\""},                              /* beyond Unicode */
        {"\xE2\x82", "\"\\xE2\\x82\""},                                                /* ends too early */
        {"\xE2\x41\x41", "\"\\xE2"
                         "AA\""},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        char out[LOG_QUOTE_MAX];
        assert_ptr_equal(log_quote(cases[i].text, out), out);
        assert_string_equal(out, cases[i].expected);
    }
}

TEST(a_value_that_is_a_number_is_quoted)
{
    static const struct quoted cases[] = {
        {"17", "\"17\""}, {"-0.25", "\"-0.25\""}, {"0", "\"0\""},     {"1.2.3", "1.2.3"},
        {"007", "007"},   {"1e5", "1e5"},         {"1.", "1."},       {"-x", "-x"},
        {NULL, "-"},      {"-", "\"-\""},         {"a b", "\"a b\""},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        char out[LOG_QUOTE_MAX];
        assert_string_equal(log_value(cases[i].text, out), cases[i].expected);
    }
}

TEST(bytes_may_hold_zeros)
{
    char out[LOG_QUOTE_MAX];
    assert_string_equal(log_quote_bytes("a\0b", 3, out), "\"a\\x00b\"");
    assert_string_equal(log_quote_bytes("abcdef", 3, out), "abc");
    assert_string_equal(log_quote_bytes("abc", 0, out), "\"\"");
    assert_string_equal(log_quote_bytes(NULL, 3, out), "-");
    assert_string_equal(log_quote_bytes("\xE2\x82\xAC", 2, out), "\"\\xE2\\x82\"");
}

TEST(long_text_is_cut_between_characters_to_fit)
{
    static const char *const characters[] = {"x",           " ", "\n", "\xC3\xAF", "\xE2\x82\xAC", "\xF0\x9F\x98\x80",
                                             "\xE2\x80\xA8"};
    for (size_t kind = 0; kind < sizeof characters / sizeof *characters; kind++) {
        char text[2000] = "", whole[LOG_QUOTE_MAX], out[LOG_QUOTE_MAX];
        size_t size = strlen(characters[kind]), length = 0, shown = strlen(log_quote(characters[kind], whole));
        shown -= shown > 1 ? 2 : 0; /* without the quotes */
        for (int count = 0; count < 400; count++, length += size) {
            log_quote_bytes(text, length, out);
            assert_in_range(strlen(out), 1, LOG_QUOTE_MAX - 1);
            bool cut = strlen(out) > 4 && strcmp(out + strlen(out) - 4, "...\"") == 0;
            if (count > 0)
                assert_int_equal(cut,
                                 (size_t)count * shown + 2 > LOG_QUOTE_MAX - 1 && (kind > 0 || count >= LOG_QUOTE_MAX));
            if (cut)
                assert_int_equal((strlen(out) - 5) % shown, 0);
            if (cut)
                assert_true(strlen(out) + shown > LOG_QUOTE_MAX - 1);
            memcpy(text + length, characters[kind], size);
        }
    }
}

TEST(any_bytes_become_one_harmless_text)
{
    for (int round = 0; round < 20000; round++) {
        char bytes[100], out[LOG_QUOTE_MAX], again[LOG_QUOTE_MAX];
        size_t length = (size_t)random_between(0, sizeof bytes);
        random_bytes(bytes, length);
        log_quote_bytes(bytes, length, out);
        assert_true(strlen(out) > 0 && strlen(out) < LOG_QUOTE_MAX);
        for (const char *c = out; *c != '\0'; c++)
            assert_true((unsigned char)*c >= 0x20 && *c != 0x7F);
        /* what is left after taking out our own escapes is valid and harmless: quoting it again adds none */
        for (char *c = out; *c != '\0'; c++)
            if (*c == '\\' || *c == '"')
                *c = ' ';
        assert_null(strchr(log_quote(out, again), '\\'));
    }
}

/* --- a line as JSON ----------------------------------------------------------------------------------------- */

#define TEXT_HEAD "2026-11-23T08:00:27.123Z info task_ended"
#define JSON_HEAD "{\"time\":\"2026-11-23T08:00:27.123Z\",\"level\":\"info\",\"msg\":\"task_ended\""

static struct text_span json_of(const char *line, char out[LOG_JSON_MAX])
{
    struct error error = ERROR_NONE;
    struct text_span json = {out, log_json(line, strlen(line), out)};
    assert_in_range(json.length, 1, LOG_JSON_MAX);
    if (!json_check(json.bytes, json.length, &ENVELOPE_LIMITS_DEFAULT, &error))
        fail_msg("%s: %.*s", error.text, (int)json.length, json.bytes);
    return json;
}

TEST(pairs_become_members_with_the_same_names)
{
    static const struct quoted cases[] = {
        {"", ""},
        {" jid=a1 slot=3 ran_ms=1.250 left=-4", ",\"jid\":\"a1\",\"slot\":3,\"ran_ms\":1.250,\"left\":-4"},
        {" jid=\"12\" fence=12", ",\"jid\":\"12\",\"fence\":12"},
        {" no=007 exponent=1e5 dot=1. minus=--",
         ",\"no\":\"007\",\"exponent\":\"1e5\",\"dot\":\"1.\",\"minus\":\"--\""},
        {" none=- dash=\"-\" empty= blank=\"\"", ",\"none\":null,\"dash\":\"-\",\"empty\":\"\",\"blank\":\"\""},
        {" a=\"say \\\"hi\\\" \\\\ x=1\"", ",\"a\":\"say \\\"hi\\\" \\\\ x=1\""},
        {" a=\"\\x1B[31m\\u202E \\xFF\"", ",\"a\":\"\\u001B[31m\\u202E \xEF\xBF\xBD\""},
        {" resource=a fence=1 resource=b resource=3", ",\"resource\":[\"a\",\"b\",3],\"fence\":1"},
        {" a=1 stray b=2 =c", ",\"a\":1,\"text\":[\"stray\",\"=c\"],\"b\":2"},
        {" a=1 [cut]", ",\"a\":1,\"text\":\"[cut]\""},
        {" a=\"in the mid [cut]", ",\"a\":\"in the mid [cut]\""},
        {" a=\"at the end\\", ",\"a\":\"at the end\\\\\""},
        {" bare=a\"b\\c raw=\xFF", ",\"bare\":\"a\\\"b\\\\c\",\"raw\":\"\xEF\xBF\xBD\""},
        {" a=\"\\z \\xG1 \\u12\"", ",\"a\":\"\\\\z \\\\xG1 \\\\u12\""},
        {" a=\"x\"b=\"y\"", ",\"a\":\"x\",\"b\":\"y\""},
        {" raw=a\tb\x01", ",\"raw\":\"a\xEF\xBF\xBD"
                          "b\xEF\xBF\xBD\""},
        {" time=5 level=a msg=b level=c", ",\"time_\":5,\"level_\":[\"a\",\"c\"],\"msg_\":\"b\""},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        char line[256], expected[256], out[LOG_JSON_MAX];
        snprintf(line, sizeof line, "%s%s", TEXT_HEAD, cases[i].text);
        snprintf(expected, sizeof expected, "%s%s}", JSON_HEAD, cases[i].expected);
        struct text_span json = json_of(line, out);
        assert_int_equal(json.length, strlen(expected));
        assert_memory_equal(json.bytes, expected, json.length);
    }
}

/* Characters, and bytes that are none, with what they are read back as. */
static const struct quoted characters[] = {
    {"a", "a"},
    {"7", "7"},
    {".", "."},
    {"-", "-"},
    {" ", " "},
    {"=", "="},
    {"\"", "\""},
    {"\\", "\\"},
    {"x", "x"},
    {"u", "u"},
    {"\n", "\n"},
    {"\x01", "\x01"},
    {"\x7F", "\x7F"},
    {"\xC3\xAF", "\xC3\xAF"},
    {"\xC2\x9B", "\xC2\x9B"},
    {"\xE2\x80\xAE", "\xE2\x80\xAE"},
    {"\xE2\x82\xAC", "\xE2\x82\xAC"},
    {"\xF0\x9F\x98\x80", "\xF0\x9F\x98\x80"},
    {"\xFF", "\xEF\xBF\xBD"},
    {"\x80", "\xEF\xBF\xBD"},
    {"\xC0", "\xEF\xBF\xBD"},
};

TEST(any_text_that_was_quoted_comes_back_from_json)
{
    struct buffer read = {0};
    for (int round = 0; round < 20000; round++) {
        char text[64] = "", expected[128] = "", quoted[LOG_QUOTE_MAX], line[512], out[LOG_JSON_MAX];
        for (int64_t more = random_between(0, 12); more > 0; more--) {
            const struct quoted *one = &characters[random_between(0, sizeof characters / sizeof *characters - 1)];
            snprintf(text + strlen(text), sizeof text - strlen(text), "%s", one->text);
            snprintf(expected + strlen(expected), sizeof expected - strlen(expected), "%s", one->expected);
        }
        snprintf(line, sizeof line, TEXT_HEAD " first=%s value=%s last=3", log_value(text, quoted), quoted);
        struct text_span json = json_of(line, out), value, name = {"value", 5};
        assert_int_equal(json_object_member(json, name, &value), 1);
        buffer_clear(&read);
        if (!json_string_read(value, &read))
            fail_msg("%s is no string in %s", quoted, out);
        assert_int_equal(read.length, strlen(expected));
        assert_memory_equal(read.bytes, expected, read.length);
        name = (struct text_span){"last", 4};
        assert_int_equal(json_object_member(json, name, &value), 1);
    }
    buffer_fini(&read);
}

/* Whatever a line looks like: of printable bytes, one that is not, and such as are no UTF-8. */
TEST(any_line_becomes_sound_json_that_fits)
{
    static const char bytes[] = " ==\"\"\\\\abxu0189.-\xFF\xC3\xAF\x02";
    for (int round = 0; round < 20000; round++) {
        char line[LOG_LINE_MAX + 1] = TEXT_HEAD " ", out[LOG_JSON_MAX];
        size_t length = (size_t)random_between(0, LOG_LINE_MAX - (int64_t)strlen(line));
        size_t from = strlen(line), kinds = (size_t)random_between(1, sizeof bytes - 2);
        for (size_t i = 0; i < length; i++)
            line[from + i] = bytes[random_between(0, (int64_t)kinds)];
        (void)json_of(line, out);
    }
}

/* --- the ring ----------------------------------------------------------------------------------------------- */

static size_t line_make(char line[LOG_LINE_MAX], unsigned number)
{
    size_t length = 20 + number * 7919 % (LOG_LINE_MAX - 20);
    memset(line, 'a' + (int)(number % 26), length - 1);
    line[length - 1] = '\n';
    return length;
}

/* Checks that the bytes are the lines that come next, whole. */
static void lines_check(const char *bytes, size_t length, unsigned *next)
{
    while (length > 0) {
        char line[LOG_LINE_MAX];
        size_t expected = line_make(line, (*next)++);
        assert_true(expected <= length);
        assert_memory_equal(bytes, line, expected);
        bytes += expected;
        length -= expected;
    }
}

TEST(the_ring_gives_whole_lines_in_order_however_it_wraps)
{
    static struct log_ring ring;
    unsigned added = 0, taken = 0, refused = 0;
    for (int round = 0; round < 3000; round++) {
        for (int64_t more = random_between(0, 60); more > 0; more--) {
            char line[LOG_LINE_MAX];
            size_t length = line_make(line, added);
            if (!log_ring_add(&ring, line, length)) {
                refused++;
                break;
            }
            added++;
        }
        int64_t busy = round / 500 % 2 == 0 ? 2 : 20; /* the writer is slow for a while, then fast */
        for (int64_t batches = random_between(0, busy); batches > 0 && !log_ring_is_empty(&ring); batches--) {
            size_t length;
            const char *bytes = log_ring_peek(&ring, 4096, &length);
            assert_in_range(length, 1, 4096);
            lines_check(bytes, length, &taken);
            log_ring_drop(&ring, length);
        }
    }
    while (!log_ring_is_empty(&ring)) {
        size_t length;
        const char *bytes = log_ring_peek(&ring, 4096, &length);
        lines_check(bytes, length, &taken);
        log_ring_drop(&ring, length);
    }
    assert_int_equal(taken, added);
    assert_true(added > 10000 && refused > 10); /* it was full and empty many times */
    assert_int_equal(ring.tail, 0);
}

TEST(text_for_a_terminal_is_defused)
{
    char text[] = "a\x1b[31m\n\x7f\xc2\x9b"
                  "2J \xe2\x80\xae \xc3\xbc";
    assert_string_equal(log_defuse(text), "a?[31m???2J ? \xc3\xbc");
    char cut[] = "\xc2";
    assert_string_equal(log_defuse(cut), "?");
}

RUN_TESTS

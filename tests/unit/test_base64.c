/* Base64 as the job format writes it: known texts, there and back, and everything else refused. */
#include "tests/support/test.h"

#include "base/random.h"
#include "queue/base64.h"

TEST(known_texts_are_written)
{
    static const struct {
        const char *bytes, *text;
    } cases[] = {{"", ""},
                 {"f", "Zg=="},
                 {"fo", "Zm8="},
                 {"foo", "Zm9v"},
                 {"foob", "Zm9vYg=="},
                 {"fooba", "Zm9vYmE="},
                 {"foobar", "Zm9vYmFy"},
                 {"\xFB\xEF\xBE\xFF\xFF\xFF", "++++////"}};
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        struct buffer out = {.bytes = NULL};
        base64_encode(cases[i].bytes, strlen(cases[i].bytes), &out);
        assert_string_equal(buffer_text(&out), cases[i].text);
        buffer_fini(&out);
    }
}

TEST(decoding_gives_back_what_was_encoded)
{
    char bytes[300];
    for (size_t length = 0; length <= sizeof bytes; length++) {
        struct buffer text = {.bytes = NULL}, out = {.bytes = NULL};
        random_bytes(bytes, length);
        base64_encode(bytes, length, &text);
        assert_int_equal(text.length % 4, 0);
        assert_true(base64_decode(text.bytes, text.length, &out));
        assert_int_equal(out.length, length);
        if (length > 0)
            assert_memory_equal(out.bytes, bytes, length);
        buffer_fini(&text);
        buffer_fini(&out);
    }
}

TEST(other_texts_are_refused)
{
    static const char *const texts[] = {"Z",        "Zg",   "Zg=",      "=",          "====",         "Zm=v",
                                        "Zg==Zg==", "Zh==", "Zm9=",     "Zm9v\n",     "Zm9v Zm9vZm9", "Zm9-",
                                        "Zm9_",     "Z===", "Zm9v====", "\xC3\xA9==", "Zm8=Zm9v"};
    struct buffer out = {.bytes = NULL};
    buffer_append_text(&out, "kept");
    for (size_t i = 0; i < sizeof texts / sizeof texts[0]; i++)
        if (base64_decode(texts[i], strlen(texts[i]), &out))
            fail_msg("accepted: %s", texts[i]);
    assert_string_equal(buffer_text(&out), "kept");
    buffer_fini(&out);
}

RUN_TESTS

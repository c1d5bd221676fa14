/* The file sink: who is refused, repeats, and what goes wrong. */
#include "tests/unit/fence_file_fixture.h"

#include <sys/file.h>
#include <sys/stat.h>

/* --- who is refused ----------------------------------------------------------------------------------------- */

TEST(a_file_comes_into_being_and_is_replaced)
{
    assert_string_equal(read_as("1"), "(none)");
    assert_int_equal(write_as("1", "a", "one"), HF_FENCE_ACCEPTED);
    assert_int_equal(write_as("1", "b", "one and a half"), HF_FENCE_ACCEPTED); /* the same holder again */
    assert_string_equal(read_as("2"), "one and a half");
    assert_int_equal(write_as("2", "c", ""), HF_FENCE_ACCEPTED);
    assert_string_equal(read_as("2"), "");
    assert_int_equal(write_as("10", NULL, "ten"), HF_FENCE_ACCEPTED);
    assert_int_equal(write_as("9", NULL, "nine"), HF_FENCE_STALE); /* numbers, not texts */
    assert_contains(place->reason, "account:7");
    assert_string_equal(read_as("10"), "ten");
}

TEST(any_bytes_will_do)
{
    static const char bytes[] = "\0\n\xff\0end";
    struct hf_fence_file file = file_for("1");
    char *found;
    size_t length;
    assert_int_equal(hf_fence_file_write(&file, "a", bytes, sizeof bytes, place->reason, sizeof place->reason),
                     HF_FENCE_ACCEPTED);
    assert_int_equal(hf_fence_file_read(&file, &found, &length, place->reason, sizeof place->reason),
                     HF_FENCE_ACCEPTED);
    assert_int_equal(length, sizeof bytes);
    assert_memory_equal(found, bytes, sizeof bytes);
    free(found);
}

TEST(a_stale_writer_is_refused_before_the_new_holder_has_written)
{
    assert_int_equal(write_as("1", "a", "old"), HF_FENCE_ACCEPTED);
    assert_string_equal(read_as("2"), "old");
    assert_int_equal(write_as("1", "stale", "overwritten"), HF_FENCE_STALE);
    assert_string_equal(read_as("1"), "(stale)");
    assert_int_equal(write_as("2", "b", "new"), HF_FENCE_ACCEPTED);
    assert_string_equal(read_as("2"), "new");
}

TEST(a_stale_writer_is_refused_after_the_new_holder_has_written)
{
    assert_string_equal(read_as("1"), "(none)");
    assert_int_equal(write_as("2", NULL, "new"), HF_FENCE_ACCEPTED);
    assert_int_equal(write_as("1", NULL, "overwritten"), HF_FENCE_STALE);
    assert_string_equal(read_as("2"), "new");
}

/* Who reads by other means advances the fence all the same. */
TEST(reading_without_a_place_for_it_advances)
{
    struct hf_fence_file file = file_for("5");
    assert_int_equal(hf_fence_file_read(&file, NULL, NULL, place->reason, sizeof place->reason), HF_FENCE_ACCEPTED);
    assert_int_equal(write_as("4", NULL, "stale"), HF_FENCE_STALE);
}

/* --- repeats ------------------------------------------------------------------------------------------------ */

TEST(a_task_counts_once)
{
    assert_int_equal(write_as("1", "first", "1"), HF_FENCE_ACCEPTED);
    assert_int_equal(write_as("2", "second", "2"), HF_FENCE_ACCEPTED);
    assert_int_equal(write_as("3", "second", "3"), HF_FENCE_REPEAT);
    assert_contains(place->reason, "second");
    assert_int_equal(write_as("3", "first", "3"), HF_FENCE_REPEAT);
    assert_string_equal(read_as("3"), "2");
}

/* --- what goes wrong ---------------------------------------------------------------------------------------- */

TEST(senseless_calls_are_trouble)
{
    char resource[600];
    struct hf_fence_file file = file_for("1");
    memset(resource, 'r', sizeof resource);
    resource[513] = '\0';
    const char *const resources[] = {NULL, "", "two\nlines", resource};
    for (size_t i = 0; i < sizeof resources / sizeof resources[0]; i++) {
        file.resource = resources[i];
        assert_int_equal(hf_fence_file_read(&file, NULL, NULL, place->reason, sizeof place->reason), HF_FENCE_TROUBLE);
        assert_contains(place->reason, "resource");
    }
    assert_int_equal(write_as("1", "", "x"), HF_FENCE_TROUBLE);
    assert_int_equal(write_as("1", "two\nlines", "x"), HF_FENCE_TROUBLE);
    assert_contains(place->reason, "jid");
    assert_int_equal(write_as("", NULL, "x"), HF_FENCE_TROUBLE);
    assert_int_equal(write_as("1x", NULL, "x"), HF_FENCE_TROUBLE);
    file = (struct hf_fence_file){.path = "/nowhere/at/all", .resource = "r", .token = "1"};
    assert_int_equal(hf_fence_file_write(&file, NULL, "x", 1, place->reason, sizeof place->reason), HF_FENCE_TROUBLE);
    assert_contains(place->reason, "No such file or directory");
    file.path = "/tmp/";
    assert_int_equal(hf_fence_file_write(&file, NULL, "x", 1, place->reason, sizeof place->reason), HF_FENCE_TROUBLE);
    assert_false(exists(""));
    assert_false(exists(".fence"));
}

TEST(a_file_belongs_to_one_resource)
{
    assert_int_equal(write_as("1", NULL, "x"), HF_FENCE_ACCEPTED);
    struct hf_fence_file file = {.path = place->path, .resource = "account:8", .token = "2"};
    assert_int_equal(hf_fence_file_write(&file, NULL, "y", 1, place->reason, sizeof place->reason), HF_FENCE_TROUBLE);
    assert_contains(place->reason, "another resource");
    assert_string_equal(read_as("1"), "x");
}

TEST(a_fence_that_was_spoiled_lets_nobody_in)
{
    static const char *const spoiled[] = {
        "",
        "holdfast-fence 2\ntoken 1\nresource account:7\n",
        "holdfast-fence 1\ntoken -1\nresource account:7\n",
        "holdfast-fence 1\ntoken 1\n",
        "holdfast-fence 1\ntoken 1\nresource account:7",
        "holdfast-fence 1\ntoken 1\nresource account:7\nwhatever\n",
    };
    for (size_t i = 0; i < sizeof spoiled / sizeof spoiled[0]; i++) {
        put(".fence", spoiled[i], strlen(spoiled[i]));
        assert_string_equal(read_as("5"), "(trouble)");
        assert_contains(place->reason, ".fence");
    }
    static const char with_nul[] = "holdfast-fence 1\ntoken 1\nresource account:7\n\0token 9\n";
    put(".fence", with_nul, sizeof with_nul - 1);
    assert_string_equal(read_as("5"), "(trouble)");
    put(".fence", with_nul, strlen(with_nul));
    assert_string_equal(read_as("5"), "(none)");
}

TEST(links_and_directories_are_not_replaced)
{
    assert_int_equal(symlink("/nowhere", place->path), 0);
    assert_int_equal(write_as("1", NULL, "x"), HF_FENCE_TROUBLE);
    assert_contains(place->reason, "regular");
    assert_int_equal(unlink(place->path), 0);
    assert_int_equal(mkdir(place->path, 0700), 0);
    assert_int_equal(write_as("1", NULL, "x"), HF_FENCE_TROUBLE);
    assert_int_equal(rmdir(place->path), 0);
}

TEST(the_mode_stays)
{
    struct stat facts;
    assert_int_equal(write_as("1", NULL, "x"), HF_FENCE_ACCEPTED);
    assert_int_equal(chmod(place->path, 0604), 0);
    assert_int_equal(write_as("1", NULL, "y"), HF_FENCE_ACCEPTED);
    assert_int_equal(stat(place->path, &facts), 0);
    assert_int_equal(facts.st_mode & 07777, 0604);
}

TEST(whoever_is_inside_for_too_long_is_waited_for_only_so_long)
{
    char path[340];
    struct hf_fence_file file = file_for("2");
    assert_int_equal(write_as("1", NULL, "x"), HF_FENCE_ACCEPTED);
    name_of(".lock", path);
    int lock = open(path, O_RDWR | O_CLOEXEC);
    assert_int_equal(flock(lock, LOCK_EX), 0);
    file.patience_ms = 20;
    assert_int_equal(hf_fence_file_write(&file, NULL, "y", 1, place->reason, sizeof place->reason), HF_FENCE_TROUBLE);
    assert_contains(place->reason, "another process used");
    close(lock);
    assert_int_equal(hf_fence_file_write(&file, NULL, "y", 1, place->reason, sizeof place->reason), HF_FENCE_ACCEPTED);
}

/* A limit on the size of files is what a full disk looks like to the program. */
TEST(a_full_disk_is_trouble_and_loses_nothing)
{
    struct rlimit before, full;
    static char large[4000];
    memset(large, 'x', sizeof large - 1);
    assert_int_equal(write_as("1", "a", "old"), HF_FENCE_ACCEPTED);
    read_as("2");
    assert_int_equal(getrlimit(RLIMIT_FSIZE, &before), 0);
    full = (struct rlimit){.rlim_cur = 1000, .rlim_max = before.rlim_max};
    signal(SIGXFSZ, SIG_IGN);
    assert_int_equal(setrlimit(RLIMIT_FSIZE, &full), 0);
    enum hf_fence_outcome outcome = write_as("2", "b", large);
    assert_int_equal(setrlimit(RLIMIT_FSIZE, &before), 0);
    assert_int_equal(outcome, HF_FENCE_TROUBLE);
    assert_contains(place->reason, "file.new: File too large");
    assert_false(exists(".new"));
    assert_string_equal(read_as("2"), "old");
    assert_int_equal(write_as("2", "b", large), HF_FENCE_ACCEPTED);
}

RUN_TESTS_BETWEEN(enter, leave)

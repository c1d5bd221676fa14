/* The check() of handlers in a process of its own: what it says comes back, and what becomes of it is told. */
#include "tests/support/test.h"

#include <pthread.h>

#include "worker/plugin/argument_check.h"
#include "worker/plugin/plugin.h"

enum { ARGS_MAX = 1 << 20, THREADS = 4, QUESTIONS = 200 };

static struct plugins *plugins;
static struct argument_check *check;
static struct argument_answer answer;

static int check_mood(const char *args, size_t length, char *reason, size_t reason_size)
{
    static unsigned asked;
    asked++;
    if (length > 0 && args[0] == 'c')
        abort();
    if (length > 0 && args[0] == 'e')
        exit(0);
    while (length > 0 && args[0] == 'h')
        pause();
    snprintf(reason, reason_size, "question %u, %zu bytes to %c", asked, length, length > 0 ? args[length - 1] : '-');
    return length > 0 && args[0] == 'y';
}

static void start(int64_t limit_ns)
{
    struct error error = ERROR_NONE;
    plugins = plugins_create_built_in("test", NULL);
    assert_true(plugins_add_built_in(plugins, &(struct plugin_handler){.class_name = "easy"}));
    assert_true(plugins_add_built_in(plugins, &(struct plugin_handler){.class_name = "moody", .check = check_mood}));
    assert_true(argument_check_start(&check, plugins, ARGS_MAX, limit_ns, &error));
}

static void tear_down(void)
{
    argument_check_end(check);
    check = NULL;
    plugins_close(plugins);
    plugins = NULL;
}

static enum argument_verdict ask(const char *class_name, const char *args)
{
    argument_check_ask(check, class_name, args, strlen(args), &answer);
    return answer.verdict;
}

TEST(what_it_says_comes_back)
{
    start(0);
    assert_int_equal(ask("moody", "yes"), ARGUMENT_PASSES);
    assert_int_equal(ask("moody", "no"), ARGUMENT_REFUSED);
    assert_string_equal(answer.reason, "question 2, 2 bytes to o");
    assert_int_equal(ask("moody", ""), ARGUMENT_REFUSED);
    assert_string_equal(answer.reason, "question 3, 0 bytes to -");
    assert_int_equal(ask("easy", "no"), ARGUMENT_PASSES);
    assert_int_equal(ask("unknown", "no"), ARGUMENT_PASSES);
}

TEST(without_a_check_all_pass)
{
    struct error error = ERROR_NONE;
    plugins = plugins_create_built_in("test", NULL);
    assert_true(plugins_add_built_in(plugins, &(struct plugin_handler){.class_name = "easy"}));
    assert_true(argument_check_start(&check, plugins, ARGS_MAX, 0, &error));
    assert_null(check);
    assert_int_equal(ask("easy", "no"), ARGUMENT_PASSES);
    assert_true(argument_check_start(&check, NULL, ARGS_MAX, 0, &error));
    assert_null(check);
}

TEST(one_that_crashes_is_told_and_replaced)
{
    start(0);
    for (unsigned i = 0; i < 3; i++) {
        assert_int_equal(ask("moody", "crash"), ARGUMENT_CRASHED);
        assert_int_equal(answer.signal, SIGABRT);
        assert_int_equal(ask("moody", "yes"), ARGUMENT_PASSES);
    }
    assert_int_equal(ask("moody", "no"), ARGUMENT_REFUSED);
    assert_string_equal(answer.reason, "question 2, 2 bytes to o"); /* a fresh process, as it was loaded */
}

TEST(one_that_ends_its_process_has_crashed_too)
{
    start(0);
    assert_int_equal(ask("moody", "exit"), ARGUMENT_CRASHED);
    assert_int_equal(answer.signal, 0);
    assert_int_equal(ask("moody", "yes"), ARGUMENT_PASSES);
}

/* The only test with a limit: others must not take one for hanging that the machine lets wait. */
TEST(one_that_hangs_is_killed)
{
    start(1);
    assert_int_equal(ask("moody", "hang"), ARGUMENT_HANGS);
    assert_int_equal(answer.signal, SIGKILL);
}

TEST(the_longest_arguments_have_room)
{
    start(0);
    char *args = malloc(ARGS_MAX + 1);
    assert_non_null(args);
    memset(args, 'n', ARGS_MAX);
    args[ARGS_MAX - 1] = 'z';
    argument_check_ask(check, "moody", args, ARGS_MAX, &answer);
    assert_int_equal(answer.verdict, ARGUMENT_REFUSED);
    assert_string_equal(answer.reason, "question 1, 1048576 bytes to z");
    argument_check_ask(check, "moody", args, ARGS_MAX + 1, &answer);
    assert_int_equal(answer.verdict, ARGUMENT_UNCHECKED);
    free(args);
}

static void *asker(void *moods)
{
    struct argument_answer own;
    uintptr_t wrong = 0;
    for (unsigned i = 0; i < QUESTIONS; i++) {
        const char *args = ((const char *const *)moods)[i % 4];
        argument_check_ask(check, "moody", args, strlen(args), &own);
        wrong += own.verdict != (args[0] == 'y'   ? ARGUMENT_PASSES
                                 : args[0] == 'c' ? ARGUMENT_CRASHED
                                                  : ARGUMENT_REFUSED);
    }
    return (void *)wrong;
}

TEST(each_thread_has_the_answer_to_its_own_question)
{
    static const char *const moods[] = {"yes", "no", "yes", "crash"};
    pthread_t threads[THREADS];
    start(0);
    for (unsigned i = 0; i < THREADS; i++)
        assert_int_equal(pthread_create(&threads[i], NULL, asker, (void *)(uintptr_t)moods), 0);
    for (unsigned i = 0; i < THREADS; i++) {
        void *wrong;
        assert_int_equal(pthread_join(threads[i], &wrong), 0);
        assert_null(wrong);
    }
}

RUN_TESTS_BETWEEN(NULL, tear_down)

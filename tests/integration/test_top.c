/* holdfast top: what one snapshot tells, and the live screen under a pseudo terminal, which it leaves as it was however
 * it ends. */
#include "tests/support/admin_fixture.h"

#include <sys/ioctl.h>
#include <termios.h>
#include <time.h>

#include "tests/support/terminal.h"

#define ENTERED "\x1b[?1049h"
#define LEFT    "\x1b[?1049l"
#define HOME    "\x1b[H"

/* --- what there is to see ----------------------------------------------------------------------------------------- */

static void given_process(const char *identity, int busy)
{
    given_lease(identity, 3600);
    given("SADD processes %s", identity);
    given("HSET %s info '{\"hostname\":\"a\",\"pid\":7,\"concurrency\":8,\"queues\":[\"default\"],\"version\":"
          "\"holdfast 0.9.0\"}' busy %d beat 1000.5 quiet false rss 2048 concurrency 8",
          identity, busy);
}

static void given_run(const char *identity, int slot, int age_s, const char *payload, const char *more)
{
    given("HSET %s:work t%d '{\"queue\":\"default\",\"payload\":\"%s\",\"run_at\":%lld%s}'", identity, slot, payload,
          (long long)time(NULL) - age_s, more);
}

static void given_fleet(void)
{
    given_process("a:7:aa", 3);
    given_run("a:7:aa", 0, 100, "{\\\"class\\\":\\\"transfer\\\",\\\"jid\\\":\\\"j1\\\",\\\"args\\\":[]}",
              ",\"hf_fence\":\"77\",\"hf_resources\":[\"acct:1\",\"acct:2\"]");
    given_run("a:7:aa", 1, 50, "{\\\"class\\\":\\\"render\\\",\\\"jid\\\":\\\"j2\\\",\\\"resource\\\":\\\"key:3\\\"}",
              "");
    given_run("a:7:aa", 2, 10, "nonsense", "");
    given("ZADD hf:2:contended 1 resource:acct:1 2 class:render 3 resource:gone");
    given_parked("resource:acct:1", 1, 9000000001);
    given_parked("resource:acct:1", 2, 9000000002);
    given_parked("class:render", 1, 9000000003);
    given("SADD queues default");
    given("LPUSH queue:default nonsense");
    given("MSET stat:processed 1000 stat:failed 10");
}

/* --- one snapshot ------------------------------------------------------------------------------------------------- */

TEST(a_snapshot_tells_who_runs_what_and_who_waits)
{
    given_fleet();
    admin_good("top", "--once", "--json");
    assert_contains(result.out, "\"away\":null,\"rate\":{\"processed\":0.0,\"failed\":0.0,\"over\":60.0},"
                                "\"processed\":1000,\"failed\":10,\"schedule\":0,\"retry\":0,\"dead\":0,"
                                "\"processes\":[{\"identity\":\"a:7:aa\",\"state\":\"alive\",\"lease_end\":");
    assert_contains(result.out,
                    "\"busy\":3,\"concurrency\":8,\"quiet\":false,\"rss_kb\":2048,\"beat\":1000.5,"
                    "\"queues\":[\"default\"],\"threads\":8}],\"running\":[{\"class\":\"transfer\",\"age\":10");
    assert_contains(result.out, ",\"resource\":\"acct:1\",\"token\":\"77\",\"jid\":\"j1\",\"process\":\"a:7:aa\","
                                "\"queue\":\"default\"},{\"class\":\"render\",\"age\":");
    assert_contains(result.out, ",\"resource\":\"key:3\",\"token\":null,\"jid\":\"j2\",\"process\":\"a:7:aa\",");
    assert_contains(result.out, "{\"class\":null,\"age\":1");
    assert_contains(result.out,
                    "\"resources\":[{\"for\":\"resource\",\"name\":\"acct:1\",\"waiters\":2,\"holder\":\"j1\","
                    "\"process\":\"a:7:aa\"},{\"for\":\"class\",\"name\":\"render\",\"waiters\":1,\"holder\":null,"
                    "\"process\":null},{\"for\":\"resource\",\"name\":\"key:3\",\"waiters\":0,\"holder\":\"j2\",");
    assert_contains(result.out, "\"lock_nodes\":[],\"queues\":[{\"name\":\"default\",\"length\":1,\"latency\":null,"
                                "\"paused\":false}]}\n");
    char *end = strchr(result.out, '\n');
    assert_string_equal(end, "\n");
}

/* Without --once, as standard output is no terminal. */
TEST(a_snapshot_for_people_is_not_cut_and_has_no_escapes)
{
    given_fleet();
    admin_good("top");
    assert_contains(result.out, "0.0 tasks/s   3/8 busy   1 process ");
    assert_contains(result.out, "\nPROCESS  STATE  BUSY   MEMORY  BEAT ");
    assert_contains(result.out, "\na:7:aa   alive   3/8  2.0 MiB ");
    assert_contains(result.out, "  acct:1       77  j1   a:7:aa   default\n");
    assert_contains(result.out, "\nshare of class render        1 ");
    assert_lacks(result.out, "\x1b");
}

TEST(names_from_the_node_cannot_steer_a_terminal)
{
    given_process("a:7:aa", 1);
    given_run("a:7:aa", 0, 1, "{\\\"class\\\":\\\"\\\\u001b[2J\\\",\\\"jid\\\":\\\"\\\\u009b2J\\\"}",
              ",\"hf_fence\":\"\\u001b[31m\"");
    given("ZADD hf:2:contended 1 \"resource:\\x1b[2J\"");
    given_parked("\"resource:\\x1b[2J\"", 1, 9e9);
    given("SADD queues \"\\x1b]0;x\\x07\"");
    admin_good("top");
    assert_lacks(result.out, "\x1b");
    assert_lacks(result.out, "\x07");
    assert_lacks(result.out, "\xc2\x9b");
    admin_good("top", "--json");
    assert_lacks(result.out, "\x1b");
}

static void given_a_lock_node_that_is_away(void)
{
    FILE *file = fopen(admin_config, "ae");
    fprintf(file, "lock_nodes = ( { name = \"nobody\"; host = \"127.0.0.1\"; port = 1; } );\n");
    assert_int_equal(fclose(file), 0);
}

TEST(lock_nodes_that_are_away_are_told)
{
    given_a_lock_node_that_is_away();
    admin_good("top", "--json");
    assert_contains(result.out, "\"lock_nodes\":[{\"name\":\"nobody\",\"reached\":false,"
                                "\"votes\":false,\"state\":\"unseen\",");
    assert_contains(result.out, ",\"address\":\"127.0.0.1:1\"}],");
    admin_good("top");
    assert_contains(result.out, "\nnobody     unseen        - ");
    assert_contains(result.out, "\nnot well: no worker takes tasks; 0 of 1 lock nodes vote: tasks with locks are not ");
}

TEST(misuse_and_a_node_that_is_away_end_it)
{
    admin("top", "--interval", "10ms");
    assert_int_equal(result.exit_code, 2);
    assert_contains(result.error, "at least 200ms");
    admin_config_write(1);
    admin("top");
    assert_int_equal(result.exit_code, 75);
    assert_string_equal(result.out, "");
}

/* --- live --------------------------------------------------------------------------------------------------------- */

static pid_t pid;
static int screen_file;
static struct buffer shown;
static struct termios former;

static void screen_size(unsigned short columns, unsigned short lines)
{
    assert_int_equal(ioctl(screen_file, TIOCSWINSZ, &(struct winsize){.ws_col = columns, .ws_row = lines}), 0);
}

static void child_run(const char *terminal, const char *no_colour)
{
    char program[4096];
    snprintf(program, sizeof program, "%s/holdfast", test_build());
    setsid();
    int file = open(terminal, O_RDWR); /* and so it controls this process */
    dup2(file, 0);
    dup2(file, 1);
    dup2(file, 2);
    setenv("TERM", "xterm", 1);
    unsetenv("NO_COLOR");
    if (no_colour != NULL)
        setenv("NO_COLOR", no_colour, 1);
    execl(program, program, "top", "-c", admin_config, "--interval", "200ms", NULL);
    _exit(127);
}

static void top_start(const char *no_colour)
{
    screen_file = terminal_open();
    screen_size(100, 30);
    assert_int_equal(tcgetattr(screen_file, &former), 0);
    buffer_clear(&shown);
    pid = fork();
    if (pid == 0)
        child_run(ptsname(screen_file), no_colour);
}

/* Reads what there is; false when nobody has the other side open any more. */
static bool screen_read(void)
{
    char bytes[4096];
    struct pollfd readable = {.fd = screen_file, .events = POLLIN};
    if (poll(&readable, 1, 10) == 0)
        return true;
    ssize_t length = read(screen_file, bytes, sizeof bytes);
    if (length > 0)
        buffer_append(&shown, bytes, (size_t)length);
    return length > 0;
}

static bool screen_has(const char *text)
{
    screen_read();
    return strstr(buffer_text(&shown), text) != NULL;
}

static void screen_await(const char *text)
{
    struct instant patience = instant_after(instant_now(), TEST_PATIENCE_NS);
    while (!screen_has(text))
        if (instant_reached(instant_now(), patience))
            fail_msg("never shown: %s; but: %s", text, buffer_text(&shown));
}

/* From now on. */
static void screen_forget(void)
{
    buffer_clear(&shown);
}

/* Reads to the end; how it ended, as waitpid tells it. */
static int top_end(void)
{
    struct instant patience = instant_after(instant_now(), TEST_PATIENCE_NS);
    int status = 0;
    while (screen_read())
        if (instant_reached(instant_now(), patience))
            fail_msg("it does not end: %s", buffer_text(&shown));
    assert_int_equal(waitpid(pid, &status, 0), pid);
    pid = 0;
    return status;
}

/* The last thing that was said is that the terminal is as before; its settings are, too. */
static void assert_left(void)
{
    struct termios now;
    const char *text = buffer_text(&shown), *left = strstr(text, LEFT);
    assert_non_null(left);
    assert_null(strstr(left, ENTERED));
    assert_null(strstr(left, HOME));
    assert_contains(text, "\x1b[?25h");
    assert_contains(text, "\x1b[?7h");
    assert_int_equal(tcgetattr(screen_file, &now), 0);
    assert_int_equal(now.c_lflag, former.c_lflag);
    assert_int_equal(now.c_iflag, former.c_iflag);
}

static int live_tear_down(void **state)
{
    if (pid > 0) {
        kill(pid, SIGKILL);
        waitpid(pid, NULL, 0);
    }
    pid = 0;
    if (screen_file > 0)
        close(screen_file);
    screen_file = 0;
    buffer_fini(&shown);
    return admin_tear_down(state);
}

/* The slave side stays open here, because the settings of a terminal that nobody has open are gone. */
static int keep_open(void)
{
    return open(ptsname(screen_file), O_RDWR | O_NOCTTY | O_CLOEXEC);
}

TEST(q_ends_it_and_the_terminal_is_as_before)
{
    given_fleet();
    top_start(NULL);
    int other = keep_open();
    screen_await("acct:1");
    assert_contains(buffer_text(&shown), ENTERED);
    assert_contains(buffer_text(&shown), "\x1b[32malive\x1b[0m");
    screen_forget();
    given("LPUSH queue:default a b c d e f g");
    screen_await("queued 8"); /* it goes on by itself */
    assert_int_equal(write(screen_file, "xq", 2), 2);
    screen_await(LEFT);
    close(other);
    int status = top_end();
    assert_true(WIFEXITED(status) && WEXITSTATUS(status) == 0);
    assert_left();
}

TEST(signals_end_it_and_the_terminal_is_as_before)
{
    static const int numbers[] = {SIGINT, SIGTERM, SIGHUP, SIGQUIT};
    for (size_t i = 0; i < sizeof numbers / sizeof numbers[0]; i++) {
        top_start(NULL);
        int other = keep_open();
        screen_await("tasks/s");
        kill(pid, numbers[i]);
        screen_await(LEFT);
        close(other);
        int status = top_end();
        assert_true(WIFEXITED(status) && WEXITSTATUS(status) == 0);
        assert_left();
        close(screen_file);
    }
    screen_file = 0;
}

TEST(control_c_ends_it_too)
{
    top_start(NULL);
    screen_await("tasks/s");
    assert_int_equal(write(screen_file, "\x03", 1), 1);
    int status = top_end();
    assert_true(WIFEXITED(status) && WEXITSTATUS(status) == 0);
    assert_contains(buffer_text(&shown), LEFT);
}

TEST(a_crash_leaves_the_terminal_as_before)
{
    top_start(NULL);
    int other = keep_open();
    screen_await("tasks/s");
    kill(pid, SIGSEGV);
    screen_await(LEFT);
    close(other);
    int status = top_end();
    assert_true(WIFSIGNALED(status) && WTERMSIG(status) == SIGSEGV);
    assert_left();
}

/* The terminal is the shell's meanwhile. */
TEST(it_can_be_suspended)
{
    int status = 0;
    top_start(NULL);
    int other = keep_open();
    screen_await("tasks/s");
    kill(pid, SIGTSTP);
    screen_await(LEFT);
    assert_int_equal(waitpid(pid, &status, WUNTRACED), pid); /* it says that it leaves before it has */
    assert_true(WIFSTOPPED(status));
    assert_left();
    screen_forget();
    kill(pid, SIGCONT);
    test_await(screen_has(ENTERED) && screen_has("tasks/s"));
    assert_int_equal(write(screen_file, "q", 1), 1);
    screen_await(LEFT);
    close(other);
    top_end();
    assert_left();
}

/* Pictures after the newest change: what is behind the last but one HOME is whole. */
static bool picture_fits(unsigned columns, unsigned lines)
{
    unsigned seen = 1, widest = 0, width = 0;
    screen_read();
    const char *text = buffer_text(&shown), *last = NULL, *before = NULL;
    for (const char *at = text; (at = strstr(at, HOME)) != NULL; at++) {
        before = last;
        last = at;
    }
    if (before == NULL)
        return false;
    for (const char *at = before; at < last; at++) {
        if (*at == '\x1b')
            at += strcspn(at, "mHKJhl");
        else if (*at == '\n')
            seen++;
        else if (*at != '\r')
            width++;
        if (*at == '\n')
            width = 0;
        widest = width > widest ? width : widest;
    }
    return widest <= columns && seen <= lines && widest > columns / 2;
}

TEST(it_fits_into_a_terminal_that_shrinks)
{
    given_fleet();
    top_start(NULL);
    test_await(picture_fits(100, 30));
    assert_false(picture_fits(40, 12));
    screen_forget();
    screen_size(40, 12);
    kill(pid, SIGWINCH);
    test_await(picture_fits(40, 12));
}

TEST(a_queue_node_that_goes_away_is_shown_and_waited_for)
{
    given_fleet();
    top_start(NULL);
    screen_await("acct:1");
    redis_server_kill(server);
    screen_await("THE QUEUE NODE IS AWAY");
    screen_forget();
    test_await(screen_has("THE QUEUE NODE IS AWAY") && screen_has("acct:1")); /* what was seen before stays */
    redis_server_restart(server);
    given("SADD queues back");
    given("LPUSH queue:back a");
    screen_forget();
    screen_await("back");
    screen_forget();
    test_await(picture_fits(100, 30));
    assert_lacks(buffer_text(&shown), "AWAY");
}

TEST(it_can_be_ended_while_the_node_does_not_answer)
{
    top_start(NULL);
    screen_await("tasks/s");
    redis_server_pause(server);
    screen_await("IS AWAY");
    assert_int_equal(write(screen_file, "q", 1), 1);
    int status = top_end();
    redis_server_resume(server);
    assert_true(WIFEXITED(status) && WEXITSTATUS(status) == 0);
    assert_contains(buffer_text(&shown), LEFT);
}

TEST(no_color_is_obeyed)
{
    given_fleet();
    top_start("1");
    screen_await("alive");
    assert_lacks(buffer_text(&shown), "\x1b[3");
    assert_lacks(buffer_text(&shown), "\x1b[2m");
}

static void keys_send(const char *keys)
{
    screen_forget();
    assert_int_equal(write(screen_file, keys, strlen(keys)), (ssize_t)strlen(keys));
}

static bool server_says(const char *expected, const char *command)
{
    char *answer = redis_server_command(server, "%s", command);
    bool is_so = strcmp(answer, expected) == 0;
    free(answer);
    return is_so;
}

TEST(a_task_is_cancelled_with_a_key_when_that_is_confirmed)
{
    given_fleet();
    top_start(NULL);
    screen_await("> transfer");
    keys_send("c");
    screen_await("cancel the task j1? [y/N]");
    keys_send("n");
    screen_await("q quit");
    assert_true(server_says("0", "HEXISTS it-j1 cancelled"));
    keys_send("cy");
    screen_await("j1: is to be cancelled");
    assert_true(server_says("1", "HEXISTS it-j1 cancelled"));
}

TEST(a_queue_is_paused_and_resumed_with_a_key)
{
    given_fleet();
    top_start(NULL);
    screen_await("> transfer");
    keys_send("p");
    screen_await("choose a queue first");
    keys_send("\t\t\tp");
    screen_await("pause default? [y/N]");
    keys_send("y");
    screen_await("default: done");
    assert_true(server_says("1", "SISMEMBER paused default"));
    screen_await("paused"); /* the next look */
    keys_send("py");
    test_await(server_says("0", "SISMEMBER paused default"));
}

TEST(a_lock_node_can_be_chosen_and_has_nothing_to_cancel)
{
    given_fleet();
    given_a_lock_node_that_is_away();
    top_start(NULL);
    screen_await("> transfer");
    keys_send("\t\t");
    screen_await("> nobody");
    keys_send("c");
    screen_await("choose a task first");
}

TEST(what_was_asked_is_done_also_when_somebody_did_it_meanwhile)
{
    given_fleet();
    top_start(NULL);
    screen_await("> transfer");
    keys_send("\t\t\tp");
    screen_await("pause default? [y/N]");
    given("SADD paused default");
    screen_await("paused");
    keys_send("y");
    screen_await("default: done");
    assert_true(server_says("1", "SISMEMBER paused default"));
}

TEST(a_task_is_opened_and_closed_with_keys)
{
    given_fleet();
    given("RPUSH queue:default '{\"class\":\"transfer\",\"jid\":\"j1\",\"args\":[7]}'");
    top_start(NULL);
    screen_await("> transfer");
    keys_send("\r");
    screen_await("state         queue default, number 1 to run");
    screen_await("q back");
    keys_send("q");
    screen_await("> transfer");
    keys_send("/rend");
    screen_await("> render");
    assert_contains(buffer_text(&shown), "filter: rend_");
    keys_send("\rc");
    screen_await("cancel the task j2?");
}

RUN_GROUP(one_server_set_up, one_server_tear_down, admin_set_up, live_tear_down)

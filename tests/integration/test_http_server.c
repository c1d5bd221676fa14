/* The HTTP server on a real loop and real sockets: answers, bounds, streams, and clients that mean harm. */
#include "tests/support/test.h"

#include <arpa/inet.h>
#include <errno.h>
#include <fcntl.h>
#include <malloc.h>
#include <netinet/in.h>
#include <stdlib.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/un.h>
#include <unistd.h>

#include "base/buffer.h"
#include "tests/support/loop_until.h"
#include "tests/support/one_loop.h"
#include "tests/support/private_directory.h"
#include "worker/http/http_guess.h"
#include "worker/http/http_server.h"

enum { CONNECTIONS_MAX = 16 };

static struct http_server *server;
static struct http_exchange *stream, *kept;
static mode_t mode_at_first;
static int send_room; /* bytes; 0: as the kernel likes it */
static unsigned streams_closed, kept_closed;

/* Instead of libc's: what others could do with the file until now. */
int chmod(const char *path, mode_t mode)
{
    struct stat file;
    mode_at_first = stat(path, &file) == 0 ? file.st_mode & 07777 : 0;
    return fchmodat(AT_FDCWD, path, mode, 0);
}

/* Instead of libc's: a small buffer of the kernel, as a slow link has it. */
int accept4(int listener, struct sockaddr *peer, socklen_t *length, int flags)
{
    int fd = (int)syscall(SYS_accept4, listener, peer, length, flags);
    if (fd >= 0 && send_room > 0)
        assert_int_equal(setsockopt(fd, SOL_SOCKET, SO_SNDBUF, &send_room, sizeof send_room), 0);
    return fd;
}

static void hello_get(void *context, struct http_exchange *exchange)
{
    (void)context;
    http_respond_text(exchange, 200, "hello");
}

static void task_get(void *context, struct http_exchange *exchange)
{
    (void)context;
    http_respond_text(exchange, 200, http_exchange_rest(exchange));
}

static void form_post(void *context, struct http_exchange *exchange)
{
    (void)context;
    const struct http_request *request = http_exchange_request(exchange);
    struct buffer name = {0};
    bool found = http_form_value(request->body, request->body_length, "name", &name);
    http_header_add(exchange, "Set-Cookie", "seen=1");
    http_respond_text(exchange, found ? 200 : 400, found ? buffer_text(&name) : "no name");
    buffer_fini(&name);
}

static void stream_closed(void *context)
{
    (void)context;
    streams_closed++;
    stream = NULL;
}

static void stream_get(void *context, struct http_exchange *exchange)
{
    (void)context;
    if (http_stream_begin(exchange, "text/event-stream", stream_closed, NULL))
        stream = exchange;
}

static void closed_kept(void *context)
{
    (void)context;
    kept_closed++;
    kept = NULL;
}

static void later_get(void *context, struct http_exchange *exchange)
{
    (void)context;
    kept = exchange;
    http_exchange_keep(exchange, closed_kept, NULL);
}

static const struct http_route routes[] = {
    {HTTP_GET, "/", hello_get},        {HTTP_GET, "/task/", task_get},  {HTTP_POST, "/form", form_post},
    {HTTP_GET, "/stream", stream_get}, {HTTP_GET, "/later", later_get},
};

static struct http_server *server_begin(const char *address, const char *prefix, const char *token, struct error *error)
{
    return http_server_create(&(struct http_server_options){.loop = loop,
                                                            .addresses = &address,
                                                            .address_count = 1,
                                                            .prefix = prefix,
                                                            .token = token,
                                                            .routes = routes,
                                                            .route_count = sizeof routes / sizeof routes[0],
                                                            .connections_max = CONNECTIONS_MAX,
                                                            .body_max = 1024},
                              error);
}

static int set_up(void **state)
{
    one_loop_set_up(state);
    struct error error = ERROR_NONE;
    streams_closed = kept_closed = 0;
    server = server_begin("127.0.0.1:0", "", NULL, &error);
    assert_non_null(server);
    return 0;
}

static int tear_down(void **state)
{
    http_server_destroy(server);
    server = NULL;
    return one_loop_tear_down(state);
}

/* --- a client ----------------------------------------------------------------------------------------------------- */

static int client_connect_from(const char *address)
{
    struct sockaddr_in from = {.sin_family = AF_INET, .sin_addr.s_addr = inet_addr(address)};
    struct buffer text = {0};
    const char *colon = strrchr(http_server_address(server, 0, &text), ':');
    struct sockaddr_in to = {.sin_family = AF_INET,
                             .sin_port = htons((uint16_t)strtoul(colon + 1, NULL, 10)),
                             .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    int fd = socket(AF_INET, SOCK_STREAM, 0);
    assert_int_equal(bind(fd, (struct sockaddr *)&from, sizeof from), 0);
    assert_int_equal(connect(fd, (struct sockaddr *)&to, sizeof to), 0);
    buffer_fini(&text);
    return fd;
}

static int client_connect(void)
{
    return client_connect_from("127.0.0.1");
}

static void client_send(int fd, const char *text)
{
    assert_int_equal(send(fd, text, strlen(text), MSG_NOSIGNAL), strlen(text));
}

/* Takes what is there; true once the server has ended the connection. */
static bool client_take(int fd, struct buffer *answer)
{
    char *to = buffer_reserve(answer, 65536);
    ssize_t count = recv(fd, to, 65536, MSG_DONTWAIT);
    if (count > 0)
        answer->length += (size_t)count;
    return count == 0 || (count < 0 && errno != EAGAIN);
}

static bool answer_has(int fd, struct buffer *answer, const char *text)
{
    client_take(fd, answer);
    return strstr(buffer_text(answer), text) != NULL;
}

/* All that the server says to it until it closes. */
static const char *ask(const char *request)
{
    static struct buffer answer;
    int fd = client_connect();
    buffer_clear(&answer);
    client_send(fd, request);
    loop_await(loop, client_take(fd, &answer));
    close(fd);
    return buffer_text(&answer);
}

#define CLOSING " HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n"

/* --- answers ------------------------------------------------------------------------------------------------------ */

TEST(pages_are_served)
{
    const char *answer = ask("GET /" CLOSING "\r\n");
    assert_true(strncmp(answer, "HTTP/1.1 200 OK\r\nDate: ", 23) == 0);
    assert_non_null(strstr(answer, "\r\nContent-Length: 6\r\n"));
    assert_non_null(strstr(answer, "\r\n\r\nhello\n"));
    assert_non_null(strstr(ask("GET /task/a%20b" CLOSING "\r\n"), "\r\n\r\na b\n"));
    answer = ask("HEAD /" CLOSING "\r\n");
    assert_non_null(strstr(answer, "Content-Length: 6\r\n"));
    assert_null(strstr(answer, "hello"));
    answer = ask("POST /form" CLOSING "Content-Length: 10\r\n\r\nname=a%26b");
    assert_non_null(strstr(answer, "Set-Cookie: seen=1\r\n"));
    assert_non_null(strstr(answer, "\r\n\r\na&b\n"));
}

TEST(what_is_not_served_is_refused)
{
    static const struct {
        const char *request, *status;
    } cases[] = {
        {"GET /none" CLOSING "\r\n", " 404 "},
        {"GET /task" CLOSING "\r\n", " 404 "},
        {"GET /form" CLOSING "\r\n", "\r\nAllow: POST\r\n"},
        {"PUT /form" CLOSING "\r\n", "\r\nAllow: POST\r\n"},
        {"PUT /" CLOSING "\r\n", " 405 "},
        {"PUT /" CLOSING "\r\n", "\r\nAllow: GET, HEAD\r\n"},
        {"GET /../etc/passwd" CLOSING "\r\n", " 400 "},
        {"GET /%00" CLOSING "\r\n", " 400 "},
        {"POST /form" CLOSING "Content-Length: 2000\r\n\r\n", " 413 "},
        {"POST /form" CLOSING "Transfer-Encoding: chunked\r\n\r\n", " 501 "},
        {"POST /form" CLOSING "Origin: http://evil.example\r\nContent-Length: 6\r\n\r\nname=a", " 403 "},
        {"hello\r\n\r\n", " 400 "},
    };
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++)
        if (strstr(ask(cases[i].request), cases[i].status) == NULL)
            fail_msg("not%s: %s", cases[i].status, cases[i].request);
}

TEST(a_connection_serves_one_request_after_the_other)
{
    struct buffer answer = {0};
    int fd = client_connect();
    client_send(
        fd,
        "GET /task/1 HTTP/1.1\r\nHost: localhost\r\n\r\nGET /task/2 HTTP/1.1\r\nHost: localhost\r\n\r\nGET /task/3 HT");
    loop_await(loop, answer_has(fd, &answer, "\r\n\r\n2\n"));
    assert_non_null(strstr(buffer_text(&answer), "\r\n\r\n1\n"));
    client_send(fd, "TP/1.1\r\nHost: localhost\r\n\r\n");
    shutdown(fd, SHUT_WR); /* it still gets its answer */
    loop_await(loop, client_take(fd, &answer));
    assert_non_null(strstr(buffer_text(&answer), "\r\n\r\n3\n"));
    buffer_fini(&answer);
    close(fd);
}

TEST(an_answer_may_come_later_or_never)
{
    struct buffer answer = {0};
    int fd = client_connect();
    client_send(fd, "GET /later HTTP/1.1\r\nHost: localhost\r\n\r\n");
    loop_await(loop, kept != NULL);
    http_respond_text(kept, 200, "at last");
    kept = NULL;
    loop_await(loop, answer_has(fd, &answer, "at last"));
    client_send(fd, "GET /later HTTP/1.1\r\nHost: localhost\r\n\r\n");
    loop_await(loop, kept != NULL);
    http_server_destroy(server);
    server = NULL;
    assert_int_equal(kept_closed, 1);
    buffer_fini(&answer);
    close(fd);
}

TEST(a_token_and_a_prefix_are_demanded)
{
    struct error error = ERROR_NONE;
    http_server_destroy(server);
    server = server_begin("127.0.0.1:0", "/hf", "s3cret", &error);
    assert_non_null(strstr(ask("GET /hf/" CLOSING "\r\n"), " 401 "));
    assert_non_null(strstr(ask("GET /hf/" CLOSING "Authorization: Bearer S3cret\r\n\r\n"), " 401 "));
    assert_non_null(strstr(ask("GET /hf/" CLOSING "Authorization: Bearer s3cret\r\n\r\n"), "hello"));
    assert_non_null(strstr(ask("GET /hf" CLOSING "Authorization: Bearer s3cret\r\n\r\n"), "Location: /hf/\r\n"));
    assert_non_null(strstr(ask("GET /" CLOSING "Authorization: Bearer s3cret\r\n\r\n"), " 404 "));
    assert_non_null(strstr(ask("GET /hfx/" CLOSING "Authorization: Bearer s3cret\r\n\r\n"), " 404 "));
}

/* All ask within one cycle of the loop, so it does not matter how long that takes. */
TEST(guesses_of_a_token_are_slowed)
{
    enum { GUESSERS = HTTP_GUESSES_OF_ONE + 1, KNOWS = GUESSERS, KNOWS_ELSEWHERE, CLIENTS };
    static const char wrong[] = "GET / HTTP/1.1\r\nHost: localhost\r\nAuthorization: Bearer guess\r\n\r\n";
    static const char right[] = "GET / HTTP/1.1\r\nHost: localhost\r\nAuthorization: Bearer s3cret\r\n\r\n";
    struct error error = ERROR_NONE;
    struct buffer answers[CLIENTS] = {{0}};
    int fds[CLIENTS];
    http_server_destroy(server);
    server = server_begin("127.0.0.1:0", "", "s3cret", &error);
    for (unsigned i = 0; i < CLIENTS; i++) {
        fds[i] = client_connect_from(i == KNOWS_ELSEWHERE ? "127.0.0.2" : "127.0.0.1");
        client_send(fds[i], right);
        loop_await(loop, answer_has(fds[i], &answers[i], "hello"));
        buffer_clear(&answers[i]);
    }
    struct instant asked = instant_now();
    for (unsigned i = 0; i < CLIENTS; i++)
        client_send(fds[i], i < GUESSERS ? wrong : right);
    loop_await(loop, answer_has(fds[KNOWS_ELSEWHERE], &answers[KNOWS_ELSEWHERE], "hello"));
    for (unsigned i = 0; i <= KNOWS; i++) { /* a faster answer would tell which guess was right */
        loop_await(loop, answer_has(fds[i], &answers[i], i == KNOWS ? "hello" : " 401 "));
        assert_true(instant_since(asked, instant_now()) >= NS_PER_S);
    }
    for (unsigned i = 0; i < CLIENTS; i++) {
        buffer_fini(&answers[i]);
        close(fds[i]);
    }
}

/* What one address may have waiting leaves room for others. */
TEST(a_flood_of_guesses_is_refused)
{
    enum { CLIENTS = HTTP_GUESSES_OF_ONE + CONNECTIONS_MAX / 8 + 1 };
    static const char wrong[] = "GET / HTTP/1.1\r\nHost: localhost\r\nAuthorization: Bearer guess\r\n\r\n";
    struct error error = ERROR_NONE;
    struct buffer answers[CLIENTS] = {{0}};
    int fds[CLIENTS];
    http_server_destroy(server);
    server = server_begin("127.0.0.1:0", "", "s3cret", &error);
    for (unsigned i = 0; i < CLIENTS; i++) {
        fds[i] = client_connect_from("127.0.0.1");
        client_send(fds[i], wrong);
    }
    unsigned refused = 0;
    for (unsigned i = 0; i < CLIENTS; i++) {
        loop_await(loop, answer_has(fds[i], &answers[i], "\r\n\r\n"));
        refused += strstr(buffer_text(&answers[i]), " 429 ") != NULL;
        buffer_fini(&answers[i]);
        close(fds[i]);
    }
    assert_true(refused >= 1);
}

TEST(a_name_of_another_site_reads_nothing)
{
    struct error error = ERROR_NONE;
    static const char rebound[] = "GET / HTTP/1.1\r\nHost: evil.example:9190\r\nConnection: close\r\n\r\n";
    assert_non_null(strstr(ask(rebound), " 403 "));
    assert_non_null(strstr(ask("GET / HTTP/1.0\r\n\r\n"), "hello"));
    assert_non_null(strstr(ask("GET / HTTP/1.1\r\nHost: 10.0.0.5:9190\r\nConnection: close\r\n\r\n"), "hello"));
    http_server_destroy(server);
    server = server_begin("127.0.0.1:0", "", "s3cret", &error); /* which no page knows */
    assert_non_null(strstr(ask("GET / HTTP/1.1\r\nHost: worker-7\r\nConnection: close\r\n"
                               "Authorization: Bearer s3cret\r\n\r\n"),
                           "hello"));
}

/* --- streams ------------------------------------------------------------------------------------------------------ */

TEST(a_stream_goes_on_until_the_client_leaves)
{
    struct buffer answer = {0};
    int fd = client_connect();
    client_send(fd, "GET /stream HTTP/1.1\r\nHost: localhost\r\n\r\n");
    loop_await(loop, stream != NULL);
    assert_true(http_stream_write(stream, "data: 1\n\n", 9));
    loop_await(loop, answer_has(fd, &answer, "\r\n\r\ndata: 1\n\n"));
    assert_true(http_stream_write(stream, "data: 2\n\n", 9));
    loop_await(loop, answer_has(fd, &answer, "data: 1\n\ndata: 2\n\n"));
    close(fd);
    loop_await(loop, streams_closed == 1);
    buffer_fini(&answer);
}

TEST(a_client_that_does_not_read_takes_no_memory)
{
    static char piece[16384];
    int fd = client_connect();
    size_t accepted = 0;
    client_send(fd, "GET /stream HTTP/1.1\r\nHost: localhost\r\n\r\n");
    loop_await(loop, stream != NULL);
    while (http_stream_write(stream, piece, sizeof piece)) {
        accepted += sizeof piece;
        loop_for(loop, NS_PER_MS);
        assert_true(accepted < 64 * 1024 * 1024); /* beyond what the kernel keeps, there is an end */
    }
    /* When the client reads again, there is room again. */
    struct buffer answer = {0};
    loop_await(loop, (client_take(fd, &answer), answer.length >= accepted));
    assert_true(http_stream_write(stream, piece, sizeof piece));
    buffer_fini(&answer);
    close(fd);
}

/* The kernel takes little at a time, so there is no moment in which all was sent. */
TEST(a_client_that_reads_slowly_takes_no_memory)
{
    enum { PIECE = 32 * 1024, PIECES = 200, MORE_AT_MOST = 2 * 1024 * 1024 };
    static char piece[PIECE], taken[PIECE];
    int fd = client_connect();
    send_room = 8 * 1024;
    client_send(fd, "GET /stream HTTP/1.1\r\nHost: localhost\r\n\r\n");
    loop_await(loop, stream != NULL);
    send_room = 0;
    while (http_stream_write(stream, piece, sizeof piece))
        loop_for(loop, NS_PER_MS);
    size_t before = mallinfo2().uordblks + mallinfo2().hblkhd;
    for (unsigned i = 0; i < PIECES; i++)
        loop_await(loop,
                   http_stream_write(stream, piece, sizeof piece) || recv(fd, taken, sizeof taken, MSG_DONTWAIT) == -2);
    assert_true(mallinfo2().uordblks + mallinfo2().hblkhd < before + MORE_AT_MOST);
    close(fd);
    loop_await(loop, streams_closed == 1);
}

TEST(streams_leave_connections_for_others)
{
    int fds[CONNECTIONS_MAX];
    struct buffer answer = {0};
    for (unsigned i = 0; i < CONNECTIONS_MAX / 2; i++) {
        stream = NULL;
        fds[i] = client_connect();
        client_send(fds[i], "GET /stream HTTP/1.1\r\nHost: localhost\r\n\r\n");
        loop_await(loop, stream != NULL);
    }
    assert_non_null(strstr(ask("GET /stream" CLOSING "\r\n"), " 503 "));
    assert_non_null(strstr(ask("GET /" CLOSING "\r\n"), "hello"));
    for (unsigned i = 0; i < CONNECTIONS_MAX / 2; i++)
        close(fds[i]);
    loop_await(loop, streams_closed == CONNECTIONS_MAX / 2);
    buffer_fini(&answer);
}

/* --- harm --------------------------------------------------------------------------------------------------------- */

/* Ten thousand where the limit of descriptors lets them; they stay open on this side, whatever the server does. */
static unsigned slow_clients_allowed(void)
{
    struct rlimit limit;
    enum { WANTED = 10000, OTHERS = 100 };
    assert_int_equal(getrlimit(RLIMIT_NOFILE, &limit), 0);
    limit.rlim_cur = limit.rlim_max;
    assert_int_equal(setrlimit(RLIMIT_NOFILE, &limit), 0);
    if (limit.rlim_max >= WANTED + OTHERS)
        return WANTED;
    print_message("only %llu descriptors are allowed here\n", (unsigned long long)limit.rlim_max);
    return (unsigned)limit.rlim_max - OTHERS;
}

TEST(slow_clients_keep_nobody_out)
{
    unsigned count = slow_clients_allowed();
    int *slow = calloc(count, sizeof *slow);
    for (unsigned i = 0; i < count; i++) {
        slow[i] = client_connect();
        client_send(slow[i], "GET / HT");
        if (i % 32 == 31)
            loop_for(loop, NS_PER_MS);
        if (i % 2000 == 1999)
            assert_non_null(strstr(ask("GET /" CLOSING "\r\n"), "hello"));
    }
    assert_non_null(strstr(ask("GET /" CLOSING "\r\n"), "hello"));
    for (unsigned i = 0; i < count; i++)
        close(slow[i]);
    free(slow);
}

TEST(a_head_without_end_is_cut_off)
{
    static char piece[4096];
    struct buffer answer = {0};
    int fd = client_connect();
    bool is_over = false;
    memset(piece, 'a', sizeof piece);
    client_send(fd, "GET / HTTP/1.1\r\nX: ");
    for (unsigned i = 0; i < 100000 && !is_over; i++) { /* far more than any buffer takes */
        ssize_t sent = send(fd, piece, sizeof piece, MSG_NOSIGNAL | MSG_DONTWAIT);
        loop_for(loop, NS_PER_MS / 10);
        is_over = client_take(fd, &answer) || (sent < 0 && errno != EAGAIN);
    }
    assert_true(is_over);
    assert_non_null(strstr(buffer_text(&answer), " 431 "));
    buffer_fini(&answer);
    close(fd);
}

/* --- addresses ---------------------------------------------------------------------------------------------------- */

TEST(an_address_that_is_taken_is_an_error)
{
    struct buffer text = {0};
    struct error error = ERROR_NONE;
    assert_null(server_begin(http_server_address(server, 0, &text), "", NULL, &error));
    assert_non_null(strstr(error.text, "cannot listen on 127.0.0.1:"));
    assert_non_null(strstr(error.text, "another program, or another worker, has this address"));
    error = ERROR_NONE;
    assert_null(server_begin("0.0.0.0:0", "", NULL, &error));
    assert_non_null(strstr(error.text, "it needs a token"));
    buffer_fini(&text);
}

TEST(a_socket_that_was_left_over_is_replaced)
{
    char place[PRIVATE_DIRECTORY_MAX], path[PRIVATE_DIRECTORY_MAX + 16];
    struct error error = ERROR_NONE;
    private_directory_create(place);
    snprintf(path, sizeof path, "%s/http.sock", place);
    struct sockaddr_un to = {.sun_family = AF_UNIX};
    snprintf(to.sun_path, sizeof to.sun_path, "%s", path);
    int fd = socket(AF_UNIX, SOCK_STREAM, 0);
    assert_int_equal(bind(fd, (struct sockaddr *)&to, sizeof to), 0);
    close(fd); /* the file stays */

    struct http_server *on_path = server_begin(path, "", NULL, &error);
    assert_non_null(on_path);
    assert_null(server_begin(path, "", NULL, &error)); /* that one lives */

    struct buffer answer = {0};
    fd = socket(AF_UNIX, SOCK_STREAM, 0);
    assert_int_equal(connect(fd, (struct sockaddr *)&to, sizeof to), 0);
    client_send(fd, "GET / HTTP/1.1\r\nHost: worker\r\n\r\n"); /* no browser comes this way */
    loop_await(loop, answer_has(fd, &answer, "hello"));
    buffer_fini(&answer);
    close(fd);
    http_server_destroy(on_path);
    assert_int_equal(access(path, F_OK), -1);
    rmdir(place);
}

TEST(a_file_that_is_no_socket_stays)
{
    char place[PRIVATE_DIRECTORY_MAX], path[PRIVATE_DIRECTORY_MAX + 16];
    struct error error = ERROR_NONE;
    struct stat file;
    private_directory_create(place);
    snprintf(path, sizeof path, "%s/precious", place);
    int fd = open(path, O_WRONLY | O_CREAT | O_CLOEXEC, 0600);
    assert_int_equal(write(fd, "data", 4), 4);
    close(fd);
    assert_null(server_begin(path, "", NULL, &error));
    assert_non_null(strstr(error.text, "it is no socket"));
    assert_int_equal(stat(path, &file), 0);
    assert_true(S_ISREG(file.st_mode) && file.st_size == 4);
    unlink(path);
    rmdir(place);
}

TEST(a_unix_socket_is_never_open_to_all)
{
    static const mode_t umasks[] = {0, 0022, 0077};
    char place[PRIVATE_DIRECTORY_MAX], path[PRIVATE_DIRECTORY_MAX + 16];
    struct error error = ERROR_NONE;
    struct stat file;
    private_directory_create(place);
    snprintf(path, sizeof path, "%s/http.sock", place);
    for (size_t i = 0; i < sizeof umasks / sizeof umasks[0]; i++) {
        mode_at_first = 07777;
        mode_t former = umask(umasks[i]);
        struct http_server *on_path = server_begin(path, "", NULL, &error);
        umask(former);
        assert_non_null(on_path);
        assert_int_equal(mode_at_first & ~0660U, 0);
        assert_int_equal(stat(path, &file), 0);
        assert_int_equal(file.st_mode & 07777, 0660);
        http_server_destroy(on_path);
    }
    rmdir(place);
}

RUN_TESTS_WITH(set_up, tear_down)

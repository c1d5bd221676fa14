/* Uses curl_multi with a single handle, because curl_easy_perform() checks for cancellation only once a second. */
#include "jobs/webhook/call.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include <sys/socket.h>
#include <time.h>

#include "jobs/kit.h"
#include "jobs/webhook/address.h"

enum { ASK_EVERY_MS = 50, CONNECT_MAX_MS = 10000 };

struct webhook_caller {
    CURLM *multi;
    CURL *easy;
};

struct webhook_caller *webhook_caller_create(void)
{
    struct webhook_caller *caller = calloc(1, sizeof *caller);
    if (caller == NULL)
        return NULL;
    caller->multi = curl_multi_init();
    caller->easy = curl_easy_init();
    if (caller->multi != NULL && caller->easy != NULL)
        return caller;
    webhook_caller_destroy(caller);
    return NULL;
}

void webhook_caller_destroy(void *value)
{
    struct webhook_caller *caller = value;
    curl_easy_cleanup(caller->easy);
    curl_multi_cleanup(caller->multi);
    free(caller);
}

void webhook_call_fini(struct webhook_call *call)
{
    free(call->reply);
    free(call->redirect);
    call->reply = call->redirect = NULL;
}

/* --- what libcurl asks and gives ------------------------------------------------------------------------------ */

static curl_socket_t socket_open(void *context, curlsocktype purpose, struct curl_sockaddr *address)
{
    struct webhook_call *call = context;
    (void)purpose;
    const char *refusal = webhook_address_refusal(&address->addr);
    if (refusal != NULL && !call->is_private_allowed) {
        call->refusal = refusal;
        return CURL_SOCKET_BAD;
    }
    call->sockets++;
    return socket(address->family, address->socktype | SOCK_CLOEXEC, address->protocol);
}

/* Stops at the limit: taking fewer bytes than offered ends the transfer. */
static size_t reply_take(char *bytes, size_t one, size_t count, void *context)
{
    struct webhook_call *call = context;
    size_t room = WEBHOOK_REPLY_MAX - call->reply_length, taken = count * one;
    if (call->reply == NULL)
        call->reply = malloc(WEBHOOK_REPLY_MAX + 1);
    if (call->reply == NULL)
        return 0;
    if (taken > room) {
        call->is_cut = 1;
        taken = room;
    }
    memcpy(call->reply + call->reply_length, bytes, taken);
    call->reply_length += taken;
    call->reply[call->reply_length] = '\0';
    return call->is_cut ? 0 : taken;
}

/* Seconds, or a date. Anything else becomes 0 or less. */
static int64_t seconds_said(const char *value)
{
    char *rest = NULL;
    int64_t seconds = strtoll(value, &rest, 10);
    if (rest[strspn(rest, " \t\r\n")] == '\0')
        return seconds;
    time_t date = curl_getdate(value, NULL);
    return date > 0 ? (int64_t)(date - time(NULL)) : 0;
}

/* Not CURLINFO_RETRY_AFTER: newer versions of curl cut it to six hours. */
static void retry_after_read(struct webhook_call *call, const char *line, size_t length)
{
    static const char name[] = "Retry-After:";
    enum { NAME_LENGTH = sizeof name - 1 };
    char value[64];
    if (length < NAME_LENGTH || length - NAME_LENGTH >= sizeof value || strncasecmp(line, name, NAME_LENGTH) != 0)
        return;
    memcpy(value, line + NAME_LENGTH, length - NAME_LENGTH);
    value[length - NAME_LENGTH] = '\0';
    int64_t seconds = seconds_said(value);
    call->retry_after_s = seconds > 0 ? seconds : 0;
}

/* Called with each whole line, also of interim answers (100, 103), whose Retry-After does not count. */
static size_t head_take(char *bytes, size_t one, size_t count, void *context)
{
    struct webhook_call *call = context;
    if (count * one >= 5 && memcmp(bytes, "HTTP/", 5) == 0)
        call->retry_after_s = 0;
    retry_after_read(call, bytes, count * one);
    call->head_length += count * one;
    return call->head_length <= WEBHOOK_HEAD_MAX ? count * one : 0;
}

/* --- one exchange ------------------------------------------------------------------------------------------- */

static void protocols_limit(CURL *easy)
{
#if LIBCURL_VERSION_NUM >= 0x075500
    curl_easy_setopt(easy, CURLOPT_PROTOCOLS_STR, "http,https");
#else
    curl_easy_setopt(easy, CURLOPT_PROTOCOLS, CURLPROTO_HTTP | CURLPROTO_HTTPS);
#endif
#if LIBCURL_VERSION_NUM >= 0x075700
    curl_easy_setopt(easy, CURLOPT_QUICK_EXIT, 1L); /* a slow name resolution must not delay a stop */
#endif
}

static void method_set(CURL *easy, const struct webhook_call *call)
{
    int wants_body =
        strcmp(call->method, "POST") == 0 || strcmp(call->method, "PUT") == 0 || strcmp(call->method, "PATCH") == 0;
    if (strcmp(call->method, "HEAD") == 0)
        curl_easy_setopt(easy, CURLOPT_NOBODY, 1L);
    else if (call->body != NULL || wants_body) {
        curl_easy_setopt(easy, CURLOPT_POST, 1L);
        curl_easy_setopt(easy, CURLOPT_POSTFIELDS, call->body != NULL ? call->body : "");
        curl_easy_setopt(easy, CURLOPT_POSTFIELDSIZE_LARGE, (curl_off_t)call->body_length);
    }
    if (strcmp(call->method, "HEAD") != 0)
        curl_easy_setopt(easy, CURLOPT_CUSTOMREQUEST, call->method);
}

static void options_set(CURL *easy, struct webhook_call *call)
{
    curl_easy_reset(easy);
    protocols_limit(easy);
    curl_easy_setopt(easy, CURLOPT_URL, call->url);
    curl_easy_setopt(easy, CURLOPT_HTTPHEADER, call->headers);
    curl_easy_setopt(easy, CURLOPT_USERAGENT, "holdfast-webhook/1.0");
    curl_easy_setopt(easy, CURLOPT_NOSIGNAL, 1L);
    curl_easy_setopt(easy, CURLOPT_PROXY, "");
    curl_easy_setopt(easy, CURLOPT_FOLLOWLOCATION, 0L);
    curl_easy_setopt(easy, CURLOPT_CONNECTTIMEOUT_MS, (long)CONNECT_MAX_MS);
    curl_easy_setopt(easy, CURLOPT_ERRORBUFFER, call->trouble);
    curl_easy_setopt(easy, CURLOPT_OPENSOCKETFUNCTION, socket_open);
    curl_easy_setopt(easy, CURLOPT_OPENSOCKETDATA, call);
    curl_easy_setopt(easy, CURLOPT_WRITEFUNCTION, reply_take);
    curl_easy_setopt(easy, CURLOPT_WRITEDATA, call);
    curl_easy_setopt(easy, CURLOPT_HEADERFUNCTION, head_take);
    curl_easy_setopt(easy, CURLOPT_HEADERDATA, call);
    if (call->ca_file != NULL)
        curl_easy_setopt(easy, CURLOPT_CAINFO, call->ca_file);
    method_set(easy, call);
}

static void answer_read(CURL *easy, struct webhook_call *call)
{
    char *redirect = NULL;
    curl_easy_getinfo(easy, CURLINFO_RESPONSE_CODE, &call->status);
    if (curl_easy_getinfo(easy, CURLINFO_REDIRECT_URL, &redirect) == CURLE_OK && redirect != NULL)
        call->redirect = strdup(redirect);
}

static enum webhook_end end_of(CURL *easy, struct webhook_call *call, CURLcode code)
{
    if (code == CURLE_OK || (code == CURLE_WRITE_ERROR && call->is_cut)) {
        answer_read(easy, call);
        if (call->status >= 200 && call->status <= 599)
            return WEBHOOK_ANSWERED;
        snprintf(call->trouble, sizeof call->trouble, "the answer has the status %ld", call->status);
        return WEBHOOK_UNREACHABLE;
    }
    if (call->refusal != NULL && call->sockets == 0)
        return WEBHOOK_REFUSED;
    if (call->head_length > WEBHOOK_HEAD_MAX)
        snprintf(call->trouble, sizeof call->trouble, "the head of the answer is longer than 64 KiB");
    else if (call->trouble[0] == '\0')
        snprintf(call->trouble, sizeof call->trouble, "%s", curl_easy_strerror(code));
    return WEBHOOK_UNREACHABLE;
}

/* True if the transfer is over. */
static int is_over(struct webhook_caller *caller, CURLcode *code)
{
    int running = 0, left = 0;
    curl_multi_perform(caller->multi, &running);
    for (CURLMsg *message; (message = curl_multi_info_read(caller->multi, &left)) != NULL;) {
        if (message->msg == CURLMSG_DONE) {
            *code = message->data.result;
            return 1;
        }
    }
    return 0;
}

static enum webhook_end exchange(struct webhook_caller *caller, struct webhook_call *call)
{
    struct curl_waitfd wake = {.fd = call->wake_fd, .events = CURL_WAIT_POLLIN};
    for (CURLcode code; !call->must_stop(call->job);) {
        if (is_over(caller, &code))
            return end_of(caller->easy, call, code);
        int64_t left_ms = (call->deadline_ns - kit_now_ns()) / NS_PER_MS;
        if (left_ms <= 0)
            return WEBHOOK_LATE;
        curl_multi_poll(caller->multi, &wake, call->wake_fd >= 0 ? 1 : 0,
                        left_ms < ASK_EVERY_MS ? (int)left_ms : ASK_EVERY_MS, NULL);
    }
    return WEBHOOK_STOPPED;
}

enum webhook_end webhook_caller_run(struct webhook_caller *caller, struct webhook_call *call)
{
    options_set(caller->easy, call);
    if (curl_multi_add_handle(caller->multi, caller->easy) != CURLM_OK) {
        snprintf(call->trouble, sizeof call->trouble, "no memory for a request");
        return WEBHOOK_UNREACHABLE;
    }
    enum webhook_end end = exchange(caller, call);
    curl_multi_remove_handle(caller->multi, caller->easy);
    return end;
}

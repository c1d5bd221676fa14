#include "worker/commands/serve_site.h"

#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/log.h"
#include "base/memory.h"
#include "base/random.h"
#include "base/secret.h"
#include "base/thread.h"
#include "queue/envelope.h"
#include "worker/commands/command_child.h"
#include "worker/http/http_address.h"
#include "worker/http/http_request.h"
#include "worker/http/http_server.h"
#include "worker/print/json_writer.h"
#include "worker/print/page.h"

#define SESSION_NS (12 * 3600 * NS_PER_S)

enum {
    CONNECTIONS_MAX = 128,
    BODY_MAX = 8192,
    SESSIONS = 64,
    SECRET_DIGITS = 32,
    USER_MAX = 64,
    CHILDREN_MAX = 5, /* a search and four changes */
    SEARCHES_MAX = 32,
    ARGUMENTS_MAX = 24,
    OPTIONS_MAX = 4,
    FIELD_MAX = 4096,
    SAMPLES_MAX = 360, /* an hour */
};

struct session {
    char cookie[SECRET_DIGITS + 1]; /* "" = free */
    char proof[SECRET_DIGITS + 1];  /* that a change comes from our page */
    char user[USER_MAX];            /* for the log */
    struct instant until;
};

struct serve_site {
    struct serve_site_options options;
    char *token; /* NULL: nothing can be changed */
    struct loop *loop;
    struct http_server *server;
    struct command_children children;
    pthread_t thread;
    bool is_started, is_open; /* anybody may read: only this machine can reach it */
    atomic_uint watchers;
    struct list streams;
    struct list searches; /* jobs */
    unsigned search_count;
    struct session sessions[SESSIONS];
    struct buffer state, metrics[METRIC_TEXTS];
    struct instant told;
    char *samples[SAMPLES_MAX]; /* a ring */
    unsigned sample_first, sample_count;
};

/* --- the client of a request -------------------------------------------------------------------------------------- */

static struct session *session_of(struct serve_site *site, const struct http_request *request)
{
    struct buffer cookie = {0};
    struct session *found = NULL;
    struct instant now = instant_now();
    if (http_cookie_value(request, "holdfast", &cookie) && cookie.length == SECRET_DIGITS)
        for (unsigned i = 0; i < SESSIONS && found == NULL; i++)
            if (!instant_reached(now, site->sessions[i].until) &&
                strcmp(site->sessions[i].cookie, buffer_text(&cookie)) == 0)
                found = &site->sessions[i];
    buffer_fini(&cookie);
    return found;
}

static bool has_token(const struct serve_site *site, const struct http_exchange *exchange)
{
    return site->token != NULL && http_exchange_has_token(exchange, site->token);
}

/* By a proxy, for a client elsewhere: many proxies send a Host of their own, the address that we listen on. */
static bool is_forwarded(const struct http_request *request)
{
    static const char *const added[] = {"Forwarded", "Via", "X-Forwarded-For", "X-Forwarded-Host", "X-Real-IP"};
    for (size_t i = 0; i < sizeof added / sizeof added[0]; i++)
        if (http_request_header(request, added[i]) != NULL)
            return true;
    return false;
}

static bool may_see_page(struct serve_site *site, const struct http_request *request)
{
    bool is_here = http_request_host(request) == HTTP_HOST_LOCAL && !is_forwarded(request);
    return (site->is_open && is_here) || session_of(site, request) != NULL;
}

static bool may_read(struct serve_site *site, const struct http_exchange *exchange)
{
    return may_see_page(site, http_exchange_request(exchange)) || has_token(site, exchange);
}

/* A cookie comes by itself with a request that another page makes; the proof does not. */
static bool may_change(struct serve_site *site, const struct http_exchange *exchange)
{
    const struct http_request *request = http_exchange_request(exchange);
    const struct session *session = session_of(site, request);
    const char *proof = http_request_header(request, "X-Holdfast-Proof");
    return has_token(site, exchange) || (session != NULL && proof != NULL && strcmp(proof, session->proof) == 0);
}

static void refuse(struct http_exchange *exchange)
{
    http_ask_for_token(exchange, "this needs a login: the token of `holdfast serve`");
}

static void json_respond(struct http_exchange *exchange, struct json_writer *json)
{
    json_close(json, '}');
    http_respond(exchange, 200, "application/json", json->out->bytes, json->out->length);
    buffer_fini(json->out);
}

/* --- logging in --------------------------------------------------------------------------------------------------- */

/* The field of a form, as a text of the caller; NULL when it is missing or too long. */
static char *field_of(const char *form, size_t length, const char *name)
{
    struct buffer value = {0};
    char *text = NULL;
    if (http_form_value(form, length, name, &value) && value.length <= FIELD_MAX)
        text = memory_text_of(buffer_text(&value), value.length);
    buffer_fini(&value);
    return text;
}

static char *body_field(struct http_exchange *exchange, const char *name)
{
    const struct http_request *request = http_exchange_request(exchange);
    return field_of(request->body, request->body_length, name);
}

/* The author of a change, for the log. */
struct actor {
    char user[USER_MAX], peer[128], forwarded_for[128]; /* the last as a proxy says */
};

static struct actor actor_of(struct http_exchange *exchange, const char *user)
{
    struct actor actor;
    struct buffer peer = {0};
    const char *forwarded = http_request_header(http_exchange_request(exchange), "X-Forwarded-For");
    snprintf(actor.user, sizeof actor.user, "%s", user);
    snprintf(actor.peer, sizeof actor.peer, "%s", http_exchange_peer(exchange, &peer));
    snprintf(actor.forwarded_for, sizeof actor.forwarded_for, "%s", forwarded != NULL ? forwarded : "");
    buffer_fini(&peer);
    return actor;
}

static void action_log(const struct actor *actor, const char *action, const char *name, const char *option, int code)
{
    char quoted[5][LOG_QUOTE_MAX];
    log_event(code == 0 ? LOG_INFO : LOG_WARN, "serve_action",
              "action=%s name=%s option=%s user=%s peer=%s forwarded_for=%s exit_code=%d", action,
              log_value(name, quoted[0]), log_value(option, quoted[1]), log_value(actor->user, quoted[2]),
              log_value(actor->peer, quoted[3]), log_value(actor->forwarded_for, quoted[4]), code);
}

/* The one that ends first makes room. */
static struct session *session_begin(struct serve_site *site, const char *user)
{
    struct session *session = &site->sessions[0];
    for (unsigned i = 1; i < SESSIONS; i++)
        if (instant_since(site->sessions[i].until, session->until) > 0)
            session = &site->sessions[i];
    random_digits(session->cookie, SECRET_DIGITS);
    random_digits(session->proof, SECRET_DIGITS);
    snprintf(session->user, sizeof session->user, "%s", user);
    session->until = instant_after(instant_now(), SESSION_NS);
    return session;
}

static void cookie_set(struct serve_site *site, struct http_exchange *exchange, const char *value, int64_t seconds)
{
    char cookie[512];
    const char *scheme = http_request_header(http_exchange_request(exchange), "X-Forwarded-Proto");
    snprintf(cookie, sizeof cookie, "holdfast=%s; Path=%s/; Max-Age=%lld; HttpOnly; SameSite=Strict%s", value,
             site->options.prefix, (long long)seconds,
             scheme != NULL && strcmp(scheme, "https") == 0 ? "; Secure" : "");
    http_header_add(exchange, "Set-Cookie", cookie);
}

static void login_post(void *context, struct http_exchange *exchange)
{
    struct serve_site *site = context;
    char *token = body_field(exchange, "token"), *user = body_field(exchange, "user");
    bool is_looked_at = http_exchange_may_guess(exchange);
    bool is_right = is_looked_at && site->token != NULL && token != NULL && http_token_is(site->token, token);
    struct actor actor = actor_of(exchange, user != NULL ? user : "");
    if (is_looked_at)
        action_log(&actor, "login", NULL, NULL, is_right ? 0 : 1);
    if (is_right) {
        cookie_set(site, exchange, session_begin(site, actor.user)->cookie, SESSION_NS / NS_PER_S);
        http_respond_text(exchange, 200, "welcome");
    } else {
        http_refuse_token(exchange, 403,
                          site->token != NULL ? "that is not the token"
                                              : "nothing can be changed here: `holdfast serve` has no --token-file");
    }
    if (token != NULL)
        memory_wipe(token, strlen(token));
    free(token);
    free(user);
}

static void logout_post(void *context, struct http_exchange *exchange)
{
    struct serve_site *site = context;
    struct session *session = session_of(site, http_exchange_request(exchange));
    if (session != NULL)
        *session = (struct session){.cookie = ""};
    cookie_set(site, exchange, "", 0);
    http_respond_text(exchange, 200, "goodbye");
}

static void session_get(void *context, struct http_exchange *exchange)
{
    struct serve_site *site = context;
    const struct http_request *request = http_exchange_request(exchange);
    const struct session *session = session_of(site, request);
    struct buffer out = {0};
    struct json_writer json = json_begin(&out);
    json_truth(&json, "may_read", may_see_page(site, request)); /* does not give away whether a token is right */
    json_truth(&json, "has_token", site->token != NULL);
    json_text(&json, "user", session != NULL ? session->user : NULL);
    json_text(&json, "proof", session != NULL ? session->proof : NULL);
    json_respond(exchange, &json);
}

/* --- the state ---------------------------------------------------------------------------------------------------- */

static void state_write(const struct serve_site *site, struct buffer *out)
{
    buffer_format(out, "{\"age\":%.1f,\"state\":", (double)instant_since(site->told, instant_now()) / (double)NS_PER_S);
    if (site->state.length > 0)
        buffer_append(out, site->state.bytes, site->state.length);
    else
        buffer_append_text(out, "null");
    buffer_append_text(out, "}");
}

static void history_write(const struct serve_site *site, struct buffer *out)
{
    buffer_append_text(out, "[");
    for (unsigned i = 0; i < site->sample_count; i++) {
        buffer_append(out, ",", i > 0);
        buffer_append_text(out, site->samples[(site->sample_first + i) % SAMPLES_MAX]);
    }
    buffer_append_text(out, "]");
}

static void state_get(void *context, struct http_exchange *exchange)
{
    struct buffer out = {0};
    if (!may_read(context, exchange)) {
        refuse(exchange);
        return;
    }
    state_write(context, &out);
    http_respond(exchange, 200, "application/json", out.bytes, out.length);
    buffer_fini(&out);
}

struct watcher {
    struct list link;
    struct serve_site *site;
    struct http_exchange *exchange;
};

static void watcher_closed(void *context)
{
    struct watcher *watcher = context;
    list_remove(&watcher->link);
    atomic_fetch_sub(&watcher->site->watchers, 1);
    free(watcher);
}

/* What a slow reader misses it gets with the next one: each state is whole. */
static void event_send(struct http_exchange *exchange, const char *name, const struct buffer *data)
{
    struct buffer event = {0};
    buffer_format(&event, "event: %s\ndata: ", name);
    buffer_append(&event, data->bytes, data->length);
    buffer_append_text(&event, "\n\n");
    http_stream_write(exchange, event.bytes, event.length);
    buffer_fini(&event);
}

static void events_get(void *context, struct http_exchange *exchange)
{
    struct serve_site *site = context;
    struct buffer data = {0};
    if (!may_read(site, exchange)) {
        refuse(exchange);
        return;
    }
    struct watcher *watcher = memory_new(struct watcher);
    *watcher = (struct watcher){.site = site, .exchange = exchange};
    http_header_add(exchange, "X-Accel-Buffering", "no"); /* or proxies keep it back */
    if (!http_stream_begin(exchange, "text/event-stream", watcher_closed, watcher)) {
        free(watcher);
        return;
    }
    list_init(&watcher->link);
    list_append(&site->streams, &watcher->link);
    atomic_fetch_add(&site->watchers, 1);
    history_write(site, &data);
    event_send(exchange, "history", &data);
    buffer_clear(&data);
    state_write(site, &data);
    event_send(exchange, "state", &data);
    buffer_fini(&data);
}

struct told {
    struct loop_message message;
    struct serve_site *site;
    struct serve_news news;
};

static void sample_keep(struct serve_site *site, struct buffer *sample)
{
    unsigned at = (site->sample_first + site->sample_count) % SAMPLES_MAX;
    if (site->sample_count == SAMPLES_MAX)
        site->sample_first = (site->sample_first + 1) % SAMPLES_MAX;
    else
        site->sample_count++;
    free(site->samples[at]);
    site->samples[at] = memory_text(buffer_text(sample));
}

static void news_deliver(struct loop_message *message)
{
    struct told *told = list_owner(message, struct told, message);
    struct serve_site *site = told->site;
    struct buffer data = {0}, *sample = &told->news.sample;
    buffer_fini(&site->state);
    site->state = told->news.state;
    site->told = instant_now();
    for (unsigned form = 0; form < METRIC_TEXTS; form++) {
        buffer_fini(&site->metrics[form]);
        site->metrics[form] = told->news.metrics[form];
    }
    state_write(site, &data);
    if (sample->length > 0)
        sample_keep(site, sample);
    for (struct list *link = site->streams.next; link != &site->streams; link = link->next) {
        struct http_exchange *exchange = list_owner(link, struct watcher, link)->exchange;
        event_send(exchange, "state", &data);
        if (sample->length > 0)
            event_send(exchange, "sample", sample);
    }
    buffer_fini(&data);
    buffer_fini(sample);
    free(told);
}

static void metrics_get(void *context, struct http_exchange *exchange)
{
    struct serve_site *site = context;
    const struct http_request *request = http_exchange_request(exchange);
    enum metric_text form = metric_text_for(http_request_header(request, "Accept"));
    if (!may_read(site, exchange))
        refuse(exchange);
    else
        http_respond(exchange, 200, metric_text_types[form], site->metrics[form].bytes, site->metrics[form].length);
}

static void health_get(void *context, struct http_exchange *exchange)
{
    (void)context;
    http_respond_text(exchange, 200, "holdfast serve is alive");
}

/* --- commands ----------------------------------------------------------------------------------------------------- */

/* What people may ask for. A field of the request becomes an operand behind "--" or the value of an option, and so
 * never an option itself. */
struct site_command {
    const char *name;
    const char *words[8];
    const char *options[OPTIONS_MAX]; /* fields that become --NAME=VALUE */
    const char *operand;              /* the field that follows "--"; NULL = there is none */
};

static const struct site_command searches[] = {
    {"tasks", {"tasks", "--json", "list"}, {"queue", "class", "cursor", "limit"}, "state"},
    {"task", {"tasks", "--json", "show"}, {NULL}, "id"},
    {"holder", {"who", "--json"}, {NULL}, "resource"},
    {"contention", {"contention", "--json"}, {"days"}, NULL},
    {"queues", {"queues", "--json"}, {NULL}, NULL},
};
static const struct site_command changes[] = {
    {"pause", {"pause", "--json"}, {NULL}, "name"},
    {"resume", {"resume", "--json"}, {NULL}, "name"},
    {"quiet", {"quiet", "--json"}, {NULL}, "name"},
    {"stop", {"stop", "--json"}, {NULL}, "name"},
    {"retry", {"tasks", "--json", "retry"}, {NULL}, "name"},
    {"bury", {"tasks", "--json", "bury"}, {NULL}, "name"},
    {"delete", {"tasks", "--json", "delete"}, {NULL}, "name"},
    {"cancel", {"cancel", "--json"}, {NULL}, "name"},
    {"unlock", {"unlock", "--json", "--force"}, {"seat"}, "name"},
};

static const struct site_command *command_named(const struct site_command *table, size_t count, const char *name)
{
    for (size_t i = 0; i < count; i++)
        if (strcmp(table[i].name, name) == 0)
            return &table[i];
    return NULL;
}

/* A change that runs, or a search that runs or waits for others. Searches may walk through much of the queue node, so
 * one runs at a time, however many readers there are. A reader joins an equal search that still waits; one that runs
 * may have missed what happened since. */
struct job {
    struct list link; /* of a search, in site->searches: the first one runs */
    struct serve_site *site;
    const struct site_command *command;
    char *arguments[ARGUMENTS_MAX + 1];
    unsigned argument_count;
    const char *option; /* the last of its options, among the arguments; NULL = it has none */
    struct list askers;
    bool is_change;
    struct actor actor; /* of a change */
};

struct asker {
    struct list link;
    struct http_exchange *exchange;
    struct job *job;
};

static void job_free(struct job *job)
{
    list_remove(&job->link);
    for (unsigned i = 0; i < job->argument_count; i++)
        free(job->arguments[i]);
    free(job);
}

static void argument_add(struct job *job, char *argument)
{
    job->arguments[job->argument_count++] = argument;
}

/* A field of what is asked for: changes have them in the body, searches in the query. */
static char *job_field(const struct job *job, struct http_exchange *exchange, const char *name)
{
    const char *query = http_exchange_request(exchange)->query;
    return job->is_change ? body_field(exchange, name) : field_of(query, strlen(query), name);
}

/* NULL when the request does not say what it is about. */
static struct job *job_create(struct serve_site *site, struct http_exchange *exchange,
                              const struct site_command *command, bool is_change)
{
    const struct session *session = session_of(site, http_exchange_request(exchange));
    struct job *job = memory_new(struct job);
    *job = (struct job){.site = site, .command = command, .is_change = is_change};
    list_init(&job->link);
    list_init(&job->askers);
    job->actor = actor_of(exchange, session != NULL ? session->user : "");
    for (unsigned i = 0; command->words[i] != NULL; i++)
        argument_add(job, memory_text(command->words[i]));
    argument_add(job, memory_text(site->options.origin));
    for (unsigned i = 0; i < OPTIONS_MAX && command->options[i] != NULL; i++) {
        char *value = job_field(job, exchange, command->options[i]), *option;
        if (value != NULL && value[0] != '\0' && asprintf(&option, "--%s=%s", command->options[i], value) > 0) {
            argument_add(job, option);
            job->option = option;
        }
        free(value);
    }
    if (command->operand == NULL)
        return job;
    char *operand = job_field(job, exchange, command->operand);
    if (operand == NULL) {
        job_free(job);
        return NULL;
    }
    argument_add(job, memory_text("--"));
    argument_add(job, operand);
    return job;
}

static bool is_same(const struct job *a, const struct job *b)
{
    bool same = a->argument_count == b->argument_count;
    for (unsigned i = 0; same && i < a->argument_count; i++)
        same = strcmp(a->arguments[i], b->arguments[i]) == 0;
    return same;
}

/* The client has gone: a search for nobody does not begin. */
static void asker_gone(void *context)
{
    struct asker *asker = context;
    struct job *job = asker->job;
    list_remove(&asker->link);
    free(asker);
    bool is_waiting = !job->is_change && job != list_owner(job->site->searches.next, struct job, link);
    if (is_waiting && list_is_empty(&job->askers)) {
        job->site->search_count--;
        job_free(job);
    }
}

static void asker_add(struct job *job, struct http_exchange *exchange)
{
    struct asker *asker = memory_new(struct asker);
    *asker = (struct asker){.exchange = exchange, .job = job};
    list_init(&asker->link);
    list_append(&job->askers, &asker->link);
    http_exchange_keep(exchange, asker_gone, asker);
}

static struct http_exchange *asker_take(struct job *job)
{
    struct list *link = list_take_first(&job->askers);
    if (link == NULL)
        return NULL;
    struct asker *asker = list_owner(link, struct asker, link);
    struct http_exchange *exchange = asker->exchange;
    free(asker);
    return exchange;
}

static void searches_go_on(struct serve_site *site);

/* Appends what a command printed, without its line end, so that the page loses nothing of it: the task of an answer, as
 * it is, becomes a string, and so do large numbers. */
static void answer_append(const struct buffer *printed, struct buffer *out)
{
    struct text_span answer = {printed->bytes, printed->length - 1}, task = {NULL, 0};
    if (json_object_member(answer, (struct text_span){"task", 4}, &task) == 0) {
        json_append_exact(out, answer.bytes, answer.length);
        return;
    }
    const char *behind = task.bytes + task.length;
    json_append_exact(out, answer.bytes, (size_t)(task.bytes - answer.bytes));
    envelope_append_string(out, task.bytes, task.length);
    json_append_exact(out, behind, (size_t)(answer.bytes + answer.length - behind));
}

static void job_done(void *context, int exit_code, struct buffer *printed, struct buffer *complaint)
{
    struct job *job = context;
    struct serve_site *site = job->site;
    bool is_object = exit_code >= 0 && printed->length > 1 && printed->bytes[0] == '{'; /* it was not cut off */
    bool is_search = !job->is_change;
    struct buffer answer = {0};
    if (is_object)
        answer_append(printed, &answer);
    if (job->is_change)
        action_log(&job->actor, job->command->name, job->arguments[job->argument_count - 1], job->option, exit_code);
    for (struct http_exchange *exchange; (exchange = asker_take(job)) != NULL;) {
        struct buffer out = {0};
        struct json_writer json = json_begin(&out);
        json_number(&json, "exit_code", exit_code);
        json_raw(&json, "answer", answer.bytes, answer.length);
        json_bytes(&json, "error", buffer_text(complaint), complaint->length);
        json_respond(exchange, &json);
    }
    buffer_fini(&answer);
    job_free(job);
    if (is_search) {
        site->search_count--;
        searches_go_on(site);
    }
}

/* False when no process can be started: the job is gone. */
static bool job_start(struct job *job)
{
    if (command_child_start(&job->site->children, (const char *const *)job->arguments, job_done, job))
        return true;
    for (struct http_exchange *exchange; (exchange = asker_take(job)) != NULL;)
        http_respond_text(exchange, 500, "no process can be started");
    job_free(job);
    return false;
}

static void searches_go_on(struct serve_site *site)
{
    while (!list_is_empty(&site->searches) && !job_start(list_owner(site->searches.next, struct job, link)))
        site->search_count--;
}

static void search_begin(struct serve_site *site, struct http_exchange *exchange, struct job *job)
{
    bool is_free = list_is_empty(&site->searches);
    for (struct list *link = site->searches.next->next; !is_free && link != &site->searches; link = link->next)
        if (is_same(list_owner(link, struct job, link), job)) {
            job_free(job);
            asker_add(list_owner(link, struct job, link), exchange);
            return;
        }
    if (site->search_count == SEARCHES_MAX) {
        job_free(job);
        http_respond_text(exchange, 503, "many others search; try again in a moment");
        return;
    }
    asker_add(job, exchange);
    list_append(&site->searches, &job->link);
    site->search_count++;
    if (is_free)
        searches_go_on(site);
}

static void command_begin(struct serve_site *site, struct http_exchange *exchange, const struct site_command *command,
                          bool is_change)
{
    struct job *job = job_create(site, exchange, command, is_change);
    if (job == NULL) {
        http_respond_text(exchange, 400, "the request does not say what it is about");
    } else if (!is_change) {
        search_begin(site, exchange, job);
    } else if (site->children.count >= CHILDREN_MAX) {
        job_free(job);
        http_respond_text(exchange, 503, "others ask already; try again in a moment");
    } else {
        asker_add(job, exchange);
        (void)job_start(job);
    }
}

static void search_get(void *context, struct http_exchange *exchange)
{
    const struct site_command *command =
        command_named(searches, sizeof searches / sizeof searches[0], http_exchange_rest(exchange));
    if (!may_read(context, exchange))
        refuse(exchange);
    else if (command == NULL)
        http_respond_text(exchange, 404, "there is no such search");
    else
        command_begin(context, exchange, command, false);
}

static void change_post(void *context, struct http_exchange *exchange)
{
    const struct site_command *command =
        command_named(changes, sizeof changes / sizeof changes[0], http_exchange_rest(exchange));
    if (!may_change(context, exchange))
        refuse(exchange);
    else if (command == NULL)
        http_respond_text(exchange, 404, "there is no such action");
    else
        command_begin(context, exchange, command, true);
}

/* --- the page ----------------------------------------------------------------------------------------------------- */

static void page_get(void *context, struct http_exchange *exchange)
{
    struct serve_site *site = context;
    struct buffer json = {0}, out = {0};
    struct json_writer writer = json_begin(&json);
    json_text(&writer, "prefix", site->options.prefix);
    json_close(&writer, '}');
    page_write(
        &(struct page){.title = "Holdfast", .json = buffer_text(&json), .script = "serve_page.js", .connects = true},
        &out);
    http_header_add(exchange, "Content-Security-Policy", "frame-ancestors 'none'");
    http_header_add(exchange, "Referrer-Policy", "no-referrer");
    http_respond(exchange, 200, "text/html; charset=utf-8", out.bytes, out.length);
    buffer_fini(&json);
    buffer_fini(&out);
}

/* --- the thread --------------------------------------------------------------------------------------------------- */

static const struct http_route routes[] = {
    {HTTP_GET, "/", page_get},
    {HTTP_GET, "/events", events_get},
    {HTTP_GET, "/metrics", metrics_get},
    {HTTP_GET, "/healthz", health_get},
    {HTTP_GET, "/api/state", state_get},
    {HTTP_GET, "/api/session", session_get},
    {HTTP_POST, "/api/login", login_post},
    {HTTP_POST, "/api/logout", logout_post},
    {HTTP_GET, "/api/search/", search_get},
    {HTTP_POST, "/api/change/", change_post},
};

static void *site_run(void *context)
{
    struct serve_site *site = context;
    loop_run(site->loop);
    return NULL;
}

static bool all_are_local(const struct serve_site_options *options)
{
    struct http_address address;
    struct error error = ERROR_NONE;
    for (size_t i = 0; i < options->address_count; i++)
        if (!http_address_read(options->addresses[i], 0, &address, &error) || !address.is_local ||
            (address.bytes.ss_family == AF_UNIX && options->token != NULL))
            return false;
    return true;
}

struct serve_site *serve_site_start(const struct serve_site_options *options, struct error *error)
{
    struct serve_site *site = memory_new(struct serve_site);
    site->options = *options;
    site->token = options->token != NULL ? memory_text(options->token) : NULL;
    site->is_open =
        !options->asks_all && all_are_local(options) && options->prefix[0] == '\0'; /* else a proxy is there */
    list_init(&site->streams);
    list_init(&site->searches);
    site->told = instant_now();
    site->loop = loop_create(error);
    if (site->loop != NULL) {
        command_children_init(&site->children, site->loop);
        site->server = http_server_create(&(struct http_server_options){.loop = site->loop,
                                                                        .addresses = options->addresses,
                                                                        .address_count = options->address_count,
                                                                        .prefix = options->prefix,
                                                                        .has_login = options->token != NULL,
                                                                        .routes = routes,
                                                                        .route_count = sizeof routes / sizeof routes[0],
                                                                        .context = site,
                                                                        .connections_max = CONNECTIONS_MAX,
                                                                        .body_max = BODY_MAX},
                                          error);
    }
    site->is_started = site->server != NULL && thread_spawn(&site->thread, "hf-site", site_run, site) == 0;
    if (site->is_started)
        return site;
    if (site->server != NULL)
        error_set(error, "no thread can be started");
    serve_site_stop(site);
    return NULL;
}

void serve_site_stop(struct serve_site *site)
{
    if (site == NULL)
        return;
    if (site->is_started) {
        loop_stop(site->loop);
        pthread_join(site->thread, NULL);
    }
    if (site->loop != NULL) {
        http_server_destroy(site->server);
        command_children_end(&site->children);
        loop_destroy(site->loop);
    }
    for (unsigned i = 0; i < SAMPLES_MAX; i++)
        free(site->samples[i]);
    for (unsigned form = 0; form < METRIC_TEXTS; form++)
        buffer_fini(&site->metrics[form]);
    buffer_fini(&site->state);
    secret_free(site->token);
    free(site);
}

struct new_token {
    struct loop_message message;
    struct serve_site *site;
    char *token;
};

/* Ends the logins with another token. */
static void token_deliver(struct loop_message *message)
{
    struct new_token *fresh = list_owner(message, struct new_token, message);
    struct serve_site *site = fresh->site;
    if (strcmp(fresh->token, site->token) != 0)
        memset(site->sessions, 0, sizeof site->sessions);
    secret_free(site->token);
    site->token = fresh->token;
    free(fresh);
}

void serve_site_change_token(struct serve_site *site, const char *token)
{
    struct new_token *fresh = memory_new(struct new_token);
    *fresh = (struct new_token){.message.deliver = token_deliver, .site = site, .token = memory_text(token)};
    loop_post(site->loop, &fresh->message);
}

void serve_site_tell(struct serve_site *site, const struct serve_news *news)
{
    struct told *told = memory_new(struct told);
    *told = (struct told){.message.deliver = news_deliver, .site = site, .news = *news};
    loop_post(site->loop, &told->message);
}

bool serve_site_is_watched(const struct serve_site *site)
{
    return atomic_load(&site->watchers) > 0;
}

const char *serve_site_address(const struct serve_site *site, size_t index, struct buffer *out)
{
    return http_server_address(site->server, index, out);
}

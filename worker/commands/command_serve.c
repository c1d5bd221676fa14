/* holdfast serve: the fleet in a browser. Looks at the fleet as `holdfast top` does, and gives what it sees to the site
 * (serve_site.h), which answers on a thread of its own.
 *
 * A look that fails is no end: what was seen before stays, with the reason and its age. */
#include "worker/commands/command.h"

#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/log.h"
#include "base/memory.h"
#include "base/secret.h"
#include "worker/commands/console.h"
#include "worker/commands/health.h"
#include "worker/commands/serve_site.h"
#include "worker/commands/top_look.h"
#include "worker/commands/top_nodes.h"
#include "worker/commands/top_screen.h"
#include "worker/http/http_address.h"
#include "worker/print/json_writer.h"

#define PATIENCE_NS (2 * NS_PER_S)  /* with a queue node that does not answer */
#define WATCHED_NS  (1 * NS_PER_S)  /* between looks while a browser watches */
#define SAMPLE_NS   (10 * NS_PER_S) /* between points of the last hour, and between looks that nobody watches */

enum { ROWS_SHOWN = 200 }; /* of running tasks, and of resources */
enum { QUEUES_MAX = 200 }; /* in /metrics */

struct serve_command {
    struct option_texts listen;
    const char *prefix, *token_file;
    bool asks_all;
    struct console console;
    char *token, *origin;
    struct serve_site *site;
    struct top_nodes *nodes;
    struct top_facts facts; /* of the last look that succeeded */
    struct rate_window rates;
    struct instant looked, sampled;
    bool is_away, must_reload;
};

#define AT(member) offsetof(struct serve_command, member)
static const struct option_row options[] = {
    {OPTION_TEXTS, 'l', "listen", "ADDRESS", "ADDRESS:PORT, or the path of a unix socket; repeatable (127.0.0.1:9191)",
     .offset = AT(listen), .most = 8},
    {OPTION_TEXT, 0, "token-file", "FILE", "its first line is the token: who logs in with it may change things",
     .offset = AT(token_file)},
    {OPTION_FLAG, 0, "login-to-read", NULL,
     "whoever looks needs the token, on this machine, too (a proxy may be there)", .offset = AT(asks_all)},
    {OPTION_TEXT, 0, "prefix", "PATH", "the path below which a reverse proxy shows the page, like /holdfast",
     .offset = AT(prefix)},
    {OPTION_TABLE, .table = origin_options, .help = ORIGIN_HEADLINE, .offset = AT(console.origin)},
    {.type = OPTION_END},
};
#undef AT

/* --- looking ------------------------------------------------------------------------------------------------------ */

/* False when a signal ends it. */
static bool look(struct serve_command *serve)
{
    struct top_facts fresh = {.away = NULL};
    bool is_good = console_time(&serve->console) && top_look(&fresh, &serve->console) == EXIT_CODE_OK;
    if (is_good) {
        top_facts_free(&serve->facts);
        serve->facts = fresh;
        serve->looked = instant_now();
        top_rates_fill(&serve->facts, &serve->rates);
    } else {
        top_facts_free(&fresh);
    }
    serve->is_away = !is_good;
    return is_good || node_client_ended(serve->console.client) != NODE_CLIENT_INTERRUPTED;
}

static void sample_write(const struct serve_command *serve, struct buffer *out)
{
    const struct top_facts *facts = &serve->facts;
    long long queued = 0, waiting = 0;
    for (size_t i = 0; i < facts->status.backlog.count; i++)
        queued += facts->status.backlog.items[i].length;
    for (size_t i = 0; i < facts->resource_count; i++)
        waiting += facts->resources[i].waiters;
    struct json_writer json = json_begin(out);
    json_seconds(&json, "at", facts->now.us);
    if (facts->has_rate) {
        json_decimal(&json, "processed", facts->processed_rate);
        json_decimal(&json, "failed", facts->failed_rate);
    }
    json_number(&json, "queued", queued);
    json_number(&json, "waiting", waiting);
    json_number(&json, "running", (int64_t)facts->task_count);
    json_close(&json, '}');
}

static void health_write(const struct top_facts *facts, struct json_writer *json)
{
    struct health health;
    struct buffer line = {0};
    health_judge(&health, &facts->status, &health_bounds_usual, facts->now);
    health_line(&health, &facts->status, &line);
    json_truth(json, "well", health.count == 0);
    json_bytes(json, "health", buffer_text(&line), line.length);
    buffer_fini(&line);
    health_free(&health);
}

/* What `holdfast top --json` prints, and more; long lists are cut, and their lengths told. */
static void state_write(struct serve_command *serve, const struct redlock_node_view *views, unsigned node_count,
                        const char *reason, struct buffer *out)
{
    struct top_facts shown = serve->facts;
    size_t tasks = shown.task_count, resources = shown.resource_count;
    const char *away = node_client_reason(serve->console.client);
    shown.node_count = node_count;
    shown.nodes = views;
    status_votes_take(&shown.status.votes, views, NULL, shown.node_count);
    shown.nodes_reason = reason[0] != '\0' ? reason : NULL;
    if (serve->is_away)
        shown.away = away[0] != '\0' ? away : "no answer in time";
    shown.old_us = instant_since(serve->looked, instant_now()) / NS_PER_US;
    shown.task_count = tasks < ROWS_SHOWN ? tasks : ROWS_SHOWN;
    shown.resource_count = resources < ROWS_SHOWN ? resources : ROWS_SHOWN;
    top_json_write(&shown, out);
    out->length -= strlen("}");
    struct json_writer json = {.out = out, .needs_comma = true};
    json_seconds(&json, "old", shown.old_us);
    json_number(&json, "running_total", (int64_t)tasks);
    json_number(&json, "resources_total", (int64_t)resources);
    health_write(&shown, &json);
    json_close(&json, '}');
}

static int by_length(const void *a, const void *b)
{
    const struct backlog_queue *left = *(const struct backlog_queue *const *)a;
    const struct backlog_queue *right = *(const struct backlog_queue *const *)b;
    return left->length != right->length ? (left->length < right->length ? 1 : -1) : strcmp(left->name, right->name);
}

/* Names of queues are those of producers, so their number is bounded. */
static size_t queues_choose(const struct backlog *backlog, const struct backlog_queue *chosen[QUEUES_MAX])
{
    const struct backlog_queue **all = memory_zeroed(backlog->count + 1, sizeof *all);
    size_t count = backlog->count < QUEUES_MAX ? backlog->count : QUEUES_MAX;
    for (size_t i = 0; i < backlog->count; i++)
        all[i] = &backlog->items[i];
    qsort(all, backlog->count, sizeof *all, by_length);
    memcpy(chosen, all, count * sizeof *chosen);
    free(all);
    return count;
}

static void totals_set(const struct serve_command *serve, struct metric_store *store)
{
    const struct status *status = &serve->facts.status;
    const struct metric_at once = {{0}};
    int64_t alive = 0, busy = 0, waiting = 0;
    for (size_t i = 0; i < status->fleet.count; i++) {
        bool lives = status->fleet.items[i].state == FLEET_ALIVE || status->fleet.items[i].state == FLEET_FOREIGN;
        alive += lives;
        busy += lives ? status->fleet.items[i].busy : 0;
    }
    for (size_t i = 0; i < serve->facts.resource_count; i++)
        waiting += serve->facts.resources[i].waiters;
    const struct {
        enum metric metric;
        int64_t value;
    } totals[] = {{METRIC_FLEET_PROCESSES, alive},
                  {METRIC_FLEET_BUSY, busy},
                  {METRIC_FLEET_WAITING, waiting},
                  {METRIC_FLEET_PROCESSED, status->processed},
                  {METRIC_FLEET_FAILED, status->failed},
                  {METRIC_FLEET_SCHEDULED, status->schedule},
                  {METRIC_FLEET_RETRIES, status->retry},
                  {METRIC_FLEET_DEAD, status->dead},
                  {METRIC_FLEET_QUEUE_NODE_UP, !serve->is_away},
                  {METRIC_FLEET_AGE, instant_since(serve->looked, instant_now())}};
    for (size_t i = 0; i < sizeof totals / sizeof totals[0]; i++)
        metric_set(store, totals[i].metric, once, totals[i].value > 0 ? totals[i].value : 0);
}

static void metrics_write(const struct serve_command *serve, const struct redlock_node_view *views, unsigned node_count,
                          struct buffer texts[METRIC_TEXTS])
{
    const struct backlog_queue *queues[QUEUES_MAX];
    const char *names[QUEUES_MAX], *nodes[REDLOCK_NODES_MAX];
    size_t count = queues_choose(&serve->facts.status.backlog, queues);
    for (size_t i = 0; i < count; i++)
        names[i] = queues[i]->name;
    for (unsigned i = 0; i < node_count; i++)
        nodes[i] = views[i].name;
    struct metric_store *store = metric_store_create(&(struct metric_names){.queues = names,
                                                                            .queue_count = (unsigned)count,
                                                                            .nodes = nodes,
                                                                            .node_count = node_count,
                                                                            .process = "",
                                                                            .is_of_fleet = true});
    for (unsigned i = 0; i < count; i++) {
        metric_set(store, METRIC_FLEET_QUEUE_TASKS, (struct metric_at){{i}}, queues[i]->length);
        metric_set(store, METRIC_FLEET_QUEUE_LATENCY, (struct metric_at){{i}},
                   queues[i]->latency_us > 0 ? queues[i]->latency_us : 0);
        metric_set(store, METRIC_FLEET_QUEUE_PAUSED, (struct metric_at){{i}}, queues[i]->is_paused);
    }
    for (unsigned i = 0; i < node_count; i++) {
        metric_set(store, METRIC_FLEET_NODE_UP, (struct metric_at){{i}}, views[i].is_reached);
        metric_set(store, METRIC_FLEET_NODE_VOTES, (struct metric_at){{i}}, views[i].votes);
    }
    totals_set(serve, store);
    for (enum metric_text form = 0; form < METRIC_TEXTS; form++)
        metric_store_print(store, form, &texts[form]);
    metric_store_destroy(store);
}

static void tell(struct serve_command *serve)
{
    struct redlock_node_view views[REDLOCK_NODES_MAX];
    char reason[TOP_NODES_REASON_MAX];
    struct serve_news news = {.state = {0}};
    struct instant now = instant_now();
    unsigned node_count = top_nodes_copy(serve->nodes, views, reason);
    state_write(serve, views, node_count, reason, &news.state);
    metrics_write(serve, views, node_count, news.metrics);
    if (!serve->is_away && instant_since(serve->sampled, now) >= SAMPLE_NS) {
        sample_write(serve, &news.sample);
        serve->sampled = now;
    }
    serve_site_tell(serve->site, &news);
}

/* Until the next look; somebody who begins to watch ends it. False when a signal asks for the end. */
static bool wait_for_look(struct serve_command *serve)
{
    struct instant until = instant_after(instant_now(), SAMPLE_NS);
    do
        if (!node_client_pause(serve->console.client, WATCHED_NS))
            return false;
    while (!serve_site_is_watched(serve->site) && !serve->must_reload && !instant_reached(instant_now(), until));
    return true;
}

/* --- beginning and reloading -------------------------------------------------------------------------------------- */

static void reload_asked(void *context)
{
    ((struct serve_command *)context)->must_reload = true;
}

/* Connects, and looks after signals and lock nodes. A queue node that is away may come back: the page says so until
 * then. */
static int attend(struct serve_command *serve)
{
    int code = console_connect(&serve->console, false);
    struct node_client *client = serve->console.client;
    if (client == NULL || node_client_ended(client) == NODE_CLIENT_INTERRUPTED)
        return code;
    node_client_hold_signals(client, true); /* whoever was answered may end it in order */
    node_client_watch_reload(client, reload_asked, serve);
    node_client_set_patience(client, PATIENCE_NS);
    return EXIT_CODE_OK;
}

/* Complains; NULL with an exit code then, and without a --token-file. */
static char *token_read(const struct serve_command *serve, int *code)
{
    struct error error = ERROR_NONE;
    if (serve->token_file == NULL)
        return NULL;
    char *token = secret_read_token(serve->token_file, &error);
    if (token == NULL)
        *code = command_complain(&command_serve, "--token-file: %s", error.text);
    return token;
}

/* Takes all or nothing of the token and the configuration. False when a signal asks for the end. */
static bool reload(struct serve_command *serve)
{
    int code = EXIT_CODE_OK;
    struct console former = serve->console, fresh = {.origin.path = serve->origin + strlen("--config=")};
    serve->must_reload = false;
    char *token = token_read(serve, &code);
    if (code == EXIT_CODE_OK)
        code = console_configure(&fresh, &command_serve, ORIGIN_NEEDS_LOCKS);
    bool is_good = code == EXIT_CODE_OK;
    if (is_good) {
        if (token != NULL)
            serve_site_change_token(serve->site, token);
        top_nodes_stop(serve->nodes);
        serve->console = fresh;
        fresh = former;
        code = attend(serve);
        log_set_level(LOG_INFO);
        serve->console.is_silent = true;
        serve->nodes = top_nodes_start(serve->console.config, SAMPLE_NS / 5);
        log_event(LOG_INFO, "serve_reloaded", "changes=%s", token != NULL ? "yes" : "no");
    } else {
        log_event(LOG_ERROR, "serve_reload_refused", "reason=\"it goes on with what it had: see above\"");
    }
    secret_free(token);
    (void)console_close(&fresh, EXIT_CODE_OK);
    return !is_good || code == EXIT_CODE_OK;
}

/* --- the command -------------------------------------------------------------------------------------------------- */

static int serve_run(struct serve_command *serve)
{
    static const char *const usual[] = {"127.0.0.1:9191"};
    struct error error = ERROR_NONE;
    struct buffer address = {0};
    struct serve_site_options site = {.addresses = serve->listen.count > 0 ? serve->listen.items : usual,
                                      .address_count = serve->listen.count > 0 ? serve->listen.count : 1,
                                      .prefix = serve->prefix,
                                      .token = serve->token,
                                      .asks_all = serve->asks_all,
                                      .origin = serve->origin};
    bool has_log = log_start(&(struct log_options){.level = LOG_INFO, .fd = STDERR_FILENO}, &error);
    serve->site = has_log ? serve_site_start(&site, &error) : NULL;
    if (serve->site == NULL) {
        log_stop();
        return console_complain(&serve->console, "%s", error.text);
    }
    for (size_t i = 0; serve_site_address(serve->site, i, &address) != NULL; i++)
        log_event(LOG_INFO, "serve_started", "address=%s prefix=%s changes=%s", buffer_text(&address),
                  serve->prefix[0] != '\0' ? serve->prefix : "-", serve->token != NULL ? "yes" : "no");
    buffer_fini(&address);
    serve->nodes = top_nodes_start(serve->console.config, SAMPLE_NS / 5);
    serve->console.is_silent = true;
    serve->looked = instant_now();
    serve->sampled = instant_after(serve->looked, -SAMPLE_NS);
    while (look(serve)) {
        tell(serve);
        if (!wait_for_look(serve) || (serve->must_reload && !reload(serve)))
            break;
    }
    node_client_hold_signals(serve->console.client, false);
    top_nodes_stop(serve->nodes);
    serve_site_stop(serve->site);
    serve->console.code = EXIT_CODE_OK; /* the last look may have been interrupted: to end is what was asked */
    log_event(LOG_INFO, "serve_stopped", "exit_code=0");
    log_stop();
    return EXIT_CODE_OK;
}

/* "/holdfast", without a '/' at its end and without what would mean something in a header. */
static bool prefix_is_good(const char *prefix)
{
    size_t length = strlen(prefix);
    return length == 0 ||
           (prefix[0] == '/' && prefix[length - 1] != '/' && length < 128 && strstr(prefix, "//") == NULL &&
            strstr(prefix, "/.") == NULL && /* no request has such a path */
            strspn(prefix, "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789-._/") == length);
}

static int address_check(const struct serve_command *serve, const char *text)
{
    struct http_address address;
    struct error error = ERROR_NONE;
    if (!http_address_read(text, 0, &address, &error))
        return command_misused(&command_serve, "--listen: %s", error.text);
    if (!address.is_local && serve->token_file == NULL)
        return command_misused(&command_serve, "--listen: %s: other machines can reach it: give --token-file, too",
                               text);
    return EXIT_CODE_OK;
}

static int prepare(struct serve_command *serve)
{
    int code = EXIT_CODE_OK;
    if (!prefix_is_good(serve->prefix))
        return command_misused(&command_serve, "--prefix: %s is no path like /holdfast", serve->prefix);
    if (serve->asks_all && serve->token_file == NULL)
        return command_misused(&command_serve, "--login-to-read: nobody can log in without --token-file");
    for (size_t i = 0; i < serve->listen.count && code == EXIT_CODE_OK; i++)
        code = address_check(serve, serve->listen.items[i]);
    if (code == EXIT_CODE_OK)
        serve->token = token_read(serve, &code);
    if (code == EXIT_CODE_OK)
        code = console_configure(&serve->console, &command_serve, ORIGIN_NEEDS_LOCKS);
    if (code != EXIT_CODE_OK)
        return code;
    if (asprintf(&serve->origin, "--config=%s", origin_path(&serve->console.origin)) < 0)
        return EXIT_CODE_FAILURE;
    return attend(serve);
}

static int run(int argc, char **argv)
{
    struct serve_command serve = {.prefix = ""};
    struct command_line line;
    if (!command_line_read(&line, &command_serve, argc, argv, &serve))
        return line.exit_code;
    int code = prepare(&serve);
    if (code == EXIT_CODE_OK)
        code = serve_run(&serve);
    top_facts_free(&serve.facts);
    secret_free(serve.token);
    free(serve.origin);
    return console_close(&serve.console, code);
}

const struct command command_serve = {
    .name = "serve",
    .summary = "show the fleet in a browser, and let people act",
    .about =
        "Serves a page that shows the fleet as it is now: processes, queues, tasks a second of the last hour, what\n"
        "runs, the hottest resources with who holds them and who waits, the lock nodes, and retries and dead tasks to\n"
        "search through. It needs only the configuration, and runs until SIGTERM or Ctrl-C. SIGHUP makes it read the\n"
        "configuration and the token again.\n"
        "\n"
        "With --token-file people who log in with the token can pause queues, quiet and stop processes, retry, bury,\n"
        "delete and cancel tasks, and take locks away. Each of these is one of the other commands, and the log says\n"
        "who did it. Programs send `Authorization: Bearer TOKEN` instead of logging in.\n"
        "\n"
        "Who needs the token to look:\n"
        "  nobody     on this machine: at 127.0.0.1 or ::1, and at a unix socket without --token-file\n"
        "  everybody  at an address that others can reach, which needs --token-file\n"
        "  everybody  at a unix socket with --token-file, where mostly a proxy asks; and with --login-to-read\n"
        "  everybody  with --prefix, and who comes through a proxy (X-Forwarded-For, Via, ...) or names another host\n"
        "A proxy on this machine that adds none of these headers cannot be told from a browser here: give it\n"
        "--login-to-read.\n"
        "HTTP is not encrypted: put a reverse proxy with TLS before an address that others can reach, and give the\n"
        "path that the proxy keeps as --prefix.\n"
        "\n"
        "Without a browser: /metrics is for Prometheus, /healthz says that it lives, /api/state has what `holdfast "
        "top\n"
        "--json` prints, with its age, and /events sends that again and again.\n",
    .examples = "  holdfast serve\n"
                "  holdfast serve --listen 10.0.0.5:9191 --token-file /etc/holdfast/serve-token\n",
    .options = options,
    .run = run,
};

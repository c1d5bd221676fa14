#include "worker/commands/nodes.h"

#include <stdio.h>
#include <string.h>

#include "base/clock.h"
#include "base/log.h"
#include "base/secret.h"
#include "worker/config/node_options.h"
#include "worker/print/human.h"
#include "worker/print/printer.h"

#define PATIENCE_NS (1 * NS_PER_S)

/* --- the session ------------------------------------------------------------------------------------------------- */

#define AT(member) offsetof(struct nodes_login, member)
const struct option_row nodes_login_options[] = {
    {OPTION_TEXT, 0, "lock-user", "NAME", "log in to the lock nodes as this user", .offset = AT(user)},
    {OPTION_TEXT, 0, "lock-password-file", "FILE", "with the password in the first line of FILE",
     .offset = AT(password_file)},
    {.type = OPTION_END},
};
#undef AT

int nodes_login_check(const struct nodes_login *login, const struct command *command)
{
    struct error error = ERROR_NONE;
    if (login->user != NULL && login->password_file == NULL)
        return command_misused(command, "--lock-user needs --lock-password-file");
    if (login->password_file == NULL)
        return EXIT_CODE_OK;
    char *secret = secret_read_file(login->password_file, &error);
    secret_free(secret);
    return secret != NULL ? EXIT_CODE_OK : command_complain(command, "%s", error.text);
}

void nodes_login_apply(const struct nodes_login *login, struct redlock_node *nodes, size_t count)
{
    for (size_t i = 0; i < count; i++) {
        if (login->user != NULL)
            nodes[i].user = login->user;
        if (login->password_file == NULL)
            continue;
        nodes[i].password = NULL;
        nodes[i].password_file = login->password_file;
    }
}

void nodes_patience_bound(struct config *config, int64_t given_ns)
{
    int64_t most_ns = given_ns > 0 ? given_ns : PATIENCE_NS;
    for (size_t i = 0; i < config->lock_node_count; i++)
        if (config->lock_nodes[i].connect_timeout_ns > most_ns)
            config->lock_nodes[i].connect_timeout_ns = most_ns;
}

bool nodes_session_open(struct nodes_session *session, const struct config *config, const struct nodes_login *login)
{
    *session = (struct nodes_session){.reason = "the configuration names no lock nodes"};
    if (config->lock_node_count == 0 || config->lock_node_count > REDLOCK_NODES_MAX)
        return false;
    session->options = lock_setup_options(config, "holdfast-nodes", session->list);
    if (login != NULL)
        nodes_login_apply(login, session->list, config->lock_node_count);
    session->nodes = redlock_nodes_open(&session->options, session->reason, sizeof session->reason);
    return session->nodes != NULL;
}

void nodes_session_close(struct nodes_session *session)
{
    redlock_nodes_close(session->nodes);
}

/* --- in words ---------------------------------------------------------------------------------------------------- */

static void append_span(int64_t ms, struct buffer *out)
{
    char human[HUMAN_TEXT_MAX];
    buffer_append_text(out, human_span(ms * 1000, human));
}

void nodes_verdict_text(const struct redlock_node_view *view, struct buffer *out)
{
    buffer_append_text(out, view->state);
    if (view->quarantine_left_ms > 0) {
        buffer_append_text(out, " for at most ");
        append_span(view->quarantine_left_ms, out);
        buffer_append_text(out, " more");
    }
    bool is_cause = !view->is_reached && view->trouble[0] != '\0';
    buffer_format(out, " (%s): %s", is_cause ? view->trouble : view->reason, view->advice);
    if (!is_cause && view->trouble[0] != '\0')
        buffer_format(out, " (%s)", view->trouble);
}

struct nodes_markers nodes_markers_of(const struct redlock_nodes *nodes)
{
    struct nodes_markers found = {0};
    unsigned count = redlock_nodes_group(nodes).nodes;
    for (unsigned i = 0; i < count; i++) {
        const struct redlock_node_view *view = redlock_nodes_view(nodes, i);
        if (view->group[0] == '\0' || (found.group[0] != '\0' && view->generation <= found.generation))
            continue;
        found.generation = view->generation;
        memcpy(found.group, view->group, sizeof found.group);
    }
    for (unsigned i = 0; i < count && found.group[0] != '\0'; i++)
        found.marked += strcmp(redlock_nodes_view(nodes, i)->group, found.group) == 0;
    return found;
}

/* Of several nodes that are no group as far as one can see. */
static void no_group_text(const struct redlock_nodes *nodes, const struct redlock_group_view *group, struct buffer *out)
{
    struct nodes_markers markers = nodes_markers_of(nodes);
    if (markers.marked > 0)
        buffer_format(out,
                      "lock group %s, generation %u, by the marker%s of %u node%s, which cannot be confirmed without a "
                      "majority",
                      markers.group, (unsigned)markers.generation, human_plural(markers.marked), markers.marked,
                      human_plural(markers.marked));
    else if (group->reached < group->quorum)
        buffer_append_text(out,
                           "a majority of the lock nodes cannot be reached, so whether they are a group is not known");
    else
        buffer_append_text(out, "no lock group");
    if (markers.marked > 0 || group->reached < group->quorum)
        buffer_format(out, " (%u of %u reached)", group->reached, group->nodes);
}

static void group_text(const struct redlock_nodes *nodes, struct buffer *out)
{
    struct redlock_group_view view = redlock_nodes_group(nodes);
    const struct redlock_group_view *group = &view;
    if (group->nodes == 1)
        buffer_append_text(out, "one lock node: this is no Redlock, when the node forgets, two can hold one lock");
    else if (!group->has_group)
        no_group_text(nodes, group, out);
    else
        buffer_format(out, "lock group %s, generation %u, longest ttl ", group->group, (unsigned)group->generation);
    if (group->has_group)
        append_span(group->max_ttl_ms, out);
    /* Workers that know the group count those that confirm it; a single look cannot. */
    bool is_cut_off = !group->has_group && group->reached < group->quorum && group->nodes > 1;
    unsigned marked = is_cut_off ? nodes_markers_of(nodes).marked : 0;
    if (marked > 0)
        buffer_format(out, ": %u of %u nodes would vote with a majority, %u are needed", marked, group->nodes,
                      group->quorum);
    else
        buffer_format(out, ": %u of %u node%s vote%s, %u %s needed", group->voters, group->nodes,
                      human_plural(group->nodes), group->voters == 1 ? "s" : "", group->quorum,
                      group->quorum == 1 ? "is" : "are");
}

/* --- printing ---------------------------------------------------------------------------------------------------- */

static enum table_style style_of(const struct redlock_node_view *view)
{
    if (view->votes)
        return TABLE_GOOD;
    return view->quarantine_left_ms > 0 ? TABLE_WARN : TABLE_BAD;
}

/* Of a node that was not reached, what the system said: the end of "connect to HOST: Connection refused". */
static const char *why_of(const struct redlock_node_view *view)
{
    const char *colon = strrchr(view->trouble, ':');
    if (view->is_reached || view->trouble[0] == '\0')
        return view->reason;
    return colon != NULL && colon[1] == ' ' ? colon + 2 : view->trouble;
}

static void clock_put(const struct redlock_node_view *view, struct printer *out)
{
    int64_t ahead_us = view->clock_ahead_us;
    bool is_far = ahead_us > US_PER_S || ahead_us < -US_PER_S;
    if (out->is_json)
        json_seconds_if(&out->json, "clock_ahead", view->is_reached, ahead_us);
    if (view->is_reached)
        printer_cell(out, ">CLOCK", is_far ? TABLE_WARN : TABLE_PLAIN, "%+.1f ms", (double)ahead_us / 1000);
    else
        printer_cell(out, ">CLOCK", TABLE_DIM, "-");
}

static void node_put(const struct redlock_node_view *view, struct printer *out)
{
    bool is_quarantined = view->quarantine_left_ms > 0;
    int64_t left_us = view->quarantine_left_ms * 1000;
    printer_row(out);
    printer_text(out, "NODE", "name", view->name);
    printer_text(out, "ADDRESS", "address", view->address);
    printer_truth(out, "reached", view->is_reached);
    printer_truth(out, "votes", view->votes);
    printer_text(out, "STATE", "state", view->state);
    printer_style(out, style_of(view));
    printer_cell(out, "WHY", view->votes ? TABLE_DIM : TABLE_PLAIN, "%.60s", why_of(view));
    printer_text(out, NULL, "reason", view->reason);
    printer_text(out, NULL, "advice", view->advice);
    printer_text(out, NULL, "trouble", printer_known(view->trouble));
    printer_span(out, NULL, "quarantine_left", left_us);
    printer_span(out, ">AT MOST", NULL, is_quarantined ? left_us : -1);
    printer_style(out, is_quarantined ? TABLE_WARN : TABLE_DIM);
    printer_text(out, NULL, "group", printer_known(view->group));
    printer_text(out, NULL, "id", printer_known(view->id));
    printer_number(out, NULL, "generation", view->group[0] != '\0' ? (int64_t)view->generation : -1);
    printer_text(out, NULL, "run_id", printer_known(view->run_id));
    printer_text(out, NULL, "eviction", printer_known(view->eviction));
    printer_span(out, NULL, "latency", view->is_reached ? view->latency_us : -1);
    printer_cell(out, ">LATENCY", view->is_reached ? TABLE_PLAIN : TABLE_DIM, view->is_reached ? "%.1f ms" : "-",
                 (double)view->latency_us / 1000);
    clock_put(view, out);
    printer_text(out, ".ID", NULL, printer_known(view->id));
    printer_number(out, NULL, "fence_count", view->has_fence_count ? (int64_t)view->fence_count : -1);
    printer_number(out, NULL, "fence_floor", view->has_fence_count ? (int64_t)view->fence_floor : -1);
    printer_row_end(out);
}

static void verdicts_print(const struct redlock_nodes *nodes, unsigned count)
{
    struct buffer text = {0};
    for (unsigned i = 0; i < count; i++) {
        const struct redlock_node_view *view = redlock_nodes_view(nodes, i);
        if (view->votes)
            continue;
        buffer_clear(&text);
        buffer_format(&text, "%s is ", view->name);
        nodes_verdict_text(view, &text);
        buffer_append(&text, "", 1);
        puts(log_defuse(text.bytes));
    }
    buffer_fini(&text);
}

static void fences_print(const struct redlock_nodes *nodes, unsigned count)
{
    bool is_known = false;
    uint64_t most = 0, floor = 0;
    char number[HUMAN_TEXT_MAX];
    for (unsigned i = 0; i < count; i++) {
        const struct redlock_node_view *view = redlock_nodes_view(nodes, i);
        most = view->fence_count > most ? view->fence_count : most;
        floor = view->fence_floor > floor ? view->fence_floor : floor;
        is_known |= view->has_fence_count;
    }
    if (is_known)
        printf("fences: the most that a node remembers are %s; highest floor %llu\n",
               human_count((int64_t)most, number), (unsigned long long)floor);
}

static void notes_print(const struct redlock_nodes *nodes, const struct redlock_group_view *group)
{
    struct buffer text = {0};
    group_text(nodes, &text);
    puts(buffer_text(&text));
    if (group->vacant > 0)
        puts("A member of the group is vacant: a replacement was begun and not finished. Run `holdfast nodes replace`, "
             "or `holdfast nodes heal --wait`, again.");
    fences_print(nodes, group->nodes);
    verdicts_print(nodes, group->nodes);
    buffer_fini(&text);
}

void nodes_print(const struct redlock_nodes *nodes, bool as_json)
{
    struct redlock_group_view group = redlock_nodes_group(nodes);
    struct printer out = printer_begin(as_json, (struct wall_time){0}, &(struct buffer){0});
    printer_text(&out, NULL, "group", printer_known(group.group));
    printer_number(&out, NULL, "generation", group.has_group ? (int64_t)group.generation : -1);
    printer_span(&out, NULL, "max_ttl", group.has_group ? group.max_ttl_ms * 1000 : -1);
    printer_number(&out, NULL, "vacant", group.vacant);
    printer_number(&out, NULL, "voters", group.voters);
    printer_number(&out, NULL, "quorum", group.quorum);
    printer_list(&out, "nodes");
    for (unsigned i = 0; i < group.nodes; i++)
        node_put(redlock_nodes_view(nodes, i), &out);
    printer_list_end(&out, NULL);
    if (!as_json)
        notes_print(nodes, &group);
    printer_end(&out);
}

/* --- for other commands ------------------------------------------------------------------------------------------ */

void nodes_judge(const struct redlock_nodes *nodes, struct findings *findings)
{
    struct redlock_group_view group = redlock_nodes_group(nodes);
    struct buffer text = {0};
    for (unsigned i = 0; i < group.nodes; i++) {
        const struct redlock_node_view *view = redlock_nodes_view(nodes, i);
        bool is_away = strcmp(view->state, "unseen") == 0;
        bool is_unknown = !group.has_group && group.reached < group.quorum;
        if (view->votes || is_away || is_unknown)
            continue;
        buffer_clear(&text);
        nodes_verdict_text(view, &text);
        if (view->quarantine_left_ms > 0)
            findings_warn(findings, "%s: %s", view->name, buffer_text(&text));
        else
            findings_error(findings, "%s: %s", view->name, buffer_text(&text));
    }
    if (group.vacant > 0)
        findings_warn(findings, "a member of the lock group is vacant: a replacement was begun and not finished; run "
                                "`holdfast nodes` to see how to go on");
    buffer_fini(&text);
}

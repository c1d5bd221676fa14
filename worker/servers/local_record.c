#include "worker/servers/local_record.h"

#include <stdio.h>

#include "worker/config/config_table.h"

#define TITLE "# Local nodes of Holdfast, format %u: ports"

enum local_record_found local_record_read(const char *text, struct local_record *record)
{
    unsigned format = 0, ports[LOCAL_NODES];
    int got = sscanf(text, TITLE " %5u %5u %5u %5u", &format, &ports[0], &ports[1], &ports[2], &ports[3]);
    bool is_good = got == 1 + LOCAL_NODES && format == LOCAL_RECORD_FORMAT;
    *record = (struct local_record){.ports = {0}};
    if (got >= 1 && format > LOCAL_RECORD_FORMAT)
        return LOCAL_RECORD_NEWER;
    for (unsigned i = 0; is_good && i < LOCAL_NODES; i++)
        is_good = ports[i] > 0 && ports[i] <= 65535;
    for (unsigned i = 0; is_good && i < LOCAL_NODES; i++)
        record->ports[i] = ports[i];
    return is_good ? LOCAL_RECORD_GOOD : LOCAL_RECORD_NONE;
}

static void node_print(unsigned port, const char *password_file, struct buffer *out)
{
    buffer_format(out, "host = \"127.0.0.1\"; port = %u; password_file = ", port);
    config_text_print(password_file, out);
    buffer_append_text(out, ";");
}

static void nodes_print(const struct local_record *record, const char *password_file, struct buffer *out)
{
    buffer_append_text(out, "queue_node = { ");
    node_print(record->ports[0], password_file, out);
    buffer_append_text(out, " };\nlock_nodes = (\n");
    for (unsigned i = 1; i < LOCAL_NODES; i++) {
        buffer_append_text(out, "    { ");
        node_print(record->ports[i], password_file, out);
        buffer_append_text(out, i + 1 < LOCAL_NODES ? " },\n" : " }\n");
    }
    buffer_append_text(out, ");\n");
}

static const char classes[] = "classes = (\n"
                              "    { class = \"echo\"; result_ttl = \"1h\"; },\n"
                              "    { class = \"sleep\"; result_ttl = \"1h\"; }\n"
                              ");\n";

void local_record_print(const struct local_record *record, struct buffer *out)
{
    buffer_format(out, TITLE, (unsigned)LOCAL_RECORD_FORMAT);
    for (unsigned i = 0; i < LOCAL_NODES; i++)
        buffer_format(out, " %u", record->ports[i]);
    buffer_append_text(out, "\n# Written anew by each start of `holdfast work --local`: changes here are lost.\n"
                            "# `holdfast config --from-local > holdfast.conf` writes one of your own.\n"
                            "worker = { jobs = [\"echo\", \"sleep\"]; };\n");
    nodes_print(record, LOCAL_PASSWORD_FILE, out);
    buffer_append_text(out, classes);
}

void local_record_print_sample(const struct local_record *record, const char *password_file, bool as_root,
                               struct buffer *out)
{
    buffer_append_text(
        out, "# A configuration of Holdfast to begin with. `holdfast config --manual` explains all settings, and\n"
             "# `holdfast check -c holdfast.conf` says what is wrong with this file.\n"
             "#\n"
             "# Before it serves more than trying things out, change\n"
             "#   the nodes: below are the private ones of `holdfast work --local`, on this machine, which\n"
             "#     `holdfast local stop` ends. The lock nodes belong on three machines or more, and become a group\n"
             "#     with `holdfast nodes -c holdfast.conf init`; each has a password_file that only you may read\n"
             "#   the plugins: make the directory below for your own (*.so), and name them in jobs\n"
             "#   the user: a worker runs as one of its own, not as root\n"
             "\n"
             "worker = {\n"
             "    queues = [\"default\"];\n"
             "    # jobs_directory = \"jobs\"; # beside this file\n"
             "    jobs = [\"echo\", \"sleep\"]; # these two come with Holdfast\n");
    if (as_root)
        buffer_append_text(out, "    allow_root = true; # as `holdfast work --local` of root: see above\n");
    buffer_append_text(out, "};\n\n"
                            "# Private nodes: `holdfast work --local` starts them.\n");
    nodes_print(record, password_file, out);
    buffer_append_text(out, "\n# How long results are kept, for `holdfast result` and `holdfast push --wait`.\n");
    buffer_append_text(out, classes);
}

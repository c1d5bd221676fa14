/* holdfast config: the configuration as text: what is in effect, a sample to begin with, the manual page. */
#include <unistd.h>

#include "worker/commands/command.h"

#include "worker/commands/origin.h"
#include "worker/config/config.h"
#include "worker/config/config_print.h"
#include "worker/servers/local_record.h"

struct config_command {
    struct origin origin;
    bool is_sample, is_manual, is_from_local;
};

#define AT(member) offsetof(struct config_command, member)
static const struct option_row options[] = {
    {OPTION_FLAG, 0, "sample", NULL, "print a commented sample file", .offset = AT(is_sample)},
    {OPTION_FLAG, 0, "manual", NULL, "print the page about all settings, in Markdown", .offset = AT(is_manual)},
    {OPTION_FLAG, 0, "from-local", NULL, "print a file to begin with, for the nodes of `holdfast work --local`",
     .offset = AT(is_from_local)},
    {OPTION_TABLE, .table = origin_options, .help = ORIGIN_HEADLINE, .offset = AT(origin)},
    {.type = OPTION_END},
};
#undef AT

static int text_print(struct buffer *text)
{
    fwrite(text->bytes, 1, text->length, stdout);
    buffer_fini(text);
    return EXIT_CODE_OK;
}

static void sample_from_local(const struct config *config, struct buffer *out)
{
    struct local_record record = {.ports = {config->queue_node.port}};
    for (unsigned i = 1; i < LOCAL_NODES && i <= config->lock_node_count; i++)
        record.ports[i] = config->lock_nodes[i - 1].port;
    local_record_print_sample(&record, config->queue_node.password_file, geteuid() == 0, out);
}

static int file_print(struct origin *origin, void (*print)(const struct config *config, struct buffer *out))
{
    struct findings findings = {0};
    struct buffer text = {0};
    struct config *config = NULL;
    int code = origin_open(origin, &command_config, ORIGIN_NEEDS_LOCKS, &config, &findings);
    if (code == EXIT_CODE_OK) {
        findings_print(&findings, stderr); /* warnings */
        print(config, &text);
        code = text_print(&text);
    }
    config_free(config);
    findings_fini(&findings);
    origin_close(origin);
    return code;
}

static int run(int argc, char **argv)
{
    struct config_command command = {0};
    struct command_line line;
    struct buffer text = {0};
    if (!command_line_read(&line, &command_config, argc, argv, &command))
        return line.exit_code;
    bool has_origin = command.origin.path != NULL || command.origin.is_local;
    if (has_origin + command.is_sample + command.is_manual + command.is_from_local > 1)
        return command_misused(&command_config, "--sample, --manual and --from-local go without other options");
    command.origin.is_local |= command.is_from_local;
    if (!command.is_sample && !command.is_manual)
        return file_print(&command.origin, command.is_from_local ? sample_from_local : config_print);
    if (command.is_sample)
        config_print_sample(&text);
    else
        config_print_manual(&text);
    return text_print(&text);
}

const struct command command_config = {
    .name = "config",
    .summary = "print the effective configuration, a sample, or the manual",
    .about = "Prints the configuration that is in effect with a file, in the format of the file. Passwords are never\n"
             "part of it, and settings of plugins whose names speak of secrets are shown as (redacted).\n"
             "\n"
             "With --from-local it prints a configuration to begin with instead, whose nodes are those of\n"
             "`holdfast work --local`, and says what to change before it serves more than trying things out.\n",
    .examples = "  holdfast config --sample > holdfast.conf\n"
                "  holdfast config --from-local > holdfast.conf\n"
                "  holdfast config\n",
    .options = options,
    .run = run,
};

/* What is made of the rows of commands: help of the width of the terminal, pages for man, and what completes command
 * lines. */
#include "tests/support/test.h"

#include <sys/ioctl.h>

#include "tests/support/terminal.h"
#include "worker/commands/manual.h"
#include "worker/print/roff.h"

/* "--node-timeout" as a page has it. */
static const char *escaped(const char *text, struct buffer *out)
{
    buffer_clear(out);
    for (; *text != '\0'; text++)
        buffer_format(out, "%s%c", *text == '-' ? "\\" : "", *text);
    return buffer_text(out);
}

TEST(every_option_has_its_place_in_the_page_of_its_command)
{
    struct buffer page = {0}, name = {0}, wanted = {0};
    for (const struct command *const *command = command_list; *command != NULL; command++) {
        struct option_walk walk = {.table = (*command)->options};
        buffer_clear(&page);
        buffer_clear(&name);
        buffer_format(&name, "holdfast-%s.1", (*command)->name);
        assert_true(manual_print_page(buffer_text(&name), &page));
        for (const struct option_row *row; (row = option_next(&walk)) != NULL;) {
            char form[128], letter[8] = "";
            if (row->letter != 0)
                snprintf(letter, sizeof letter, "-%c, ", row->letter);
            snprintf(form, sizeof form, ".TP\n.B %s--%s%s%s\n", letter, row->name,
                     row->value != NULL && !option_value_is_optional(row) ? " " : "",
                     row->value != NULL ? row->value : "");
            assert_contains(buffer_text(&page), escaped(form, &wanted));
        }
        if ((*command)->examples != NULL)
            assert_contains(buffer_text(&page), ".SH EXAMPLES\n.nf\n");
    }
    buffer_fini(&page);
    buffer_fini(&name);
    buffer_fini(&wanted);
}

/* Bytes beyond ASCII would need a coding that a page cannot name. */
TEST(every_page_that_is_listed_can_be_printed)
{
    struct buffer list = {0}, page = {0};
    size_t pages = 0;
    char name[64];
    manual_list_pages(&list);
    for (const char *line = buffer_text(&list); *line != '\0'; line += strlen(name) + 1, pages++) {
        snprintf(name, sizeof name, "%.*s", (int)strcspn(line, "\n"), line);
        buffer_clear(&page);
        assert_true(manual_print_page(name, &page));
        assert_int_equal(strncmp(buffer_text(&page), ".TH \"holdfast", 13), 0);
        assert_contains(buffer_text(&page), "\n.SH NAME\nholdfast");
        for (size_t i = 0; i < page.length; i++)
            assert_true(page.bytes[i] == '\n' || (page.bytes[i] >= ' ' && page.bytes[i] < 0x7f));
    }
    assert_true(pages > 20);
    assert_false(manual_print_page("holdfast-frobnicate.1", &page));
    assert_false(manual_print_page("push", &page));
    buffer_fini(&list);
    buffer_fini(&page);
}

TEST(the_first_page_tells_of_all_commands)
{
    struct buffer page = {0}, wanted = {0};
    assert_true(manual_print_page("holdfast.1", &page));
    for (const struct command *const *command = command_list; *command != NULL; command++) {
        char item[64];
        snprintf(item, sizeof item, ".TP\n.B holdfast-%s(1)\n", (*command)->name);
        assert_contains(buffer_text(&page), escaped(item, &wanted));
    }
    assert_contains(buffer_text(&page), ".SH COMMANDS\n.SS Commands to run workers\n.TP\n.B holdfast\\-work(1)\n");
    assert_contains(buffer_text(&page), ".SS Commands to lock\n.TP\n.B holdfast\\-lock(1)\n");
    assert_contains(buffer_text(&page), ".SH EXIT STATUS\n");
    assert_contains(buffer_text(&page), ".B HOLDFAST_CONFIG\n");
    assert_contains(buffer_text(&page), "/etc/holdfast/holdfast.conf\n");
    buffer_fini(&page);
    buffer_fini(&wanted);
}

/* --- the width ---------------------------------------------------------------------------------------------------- */

/* What is laid out: usage, examples and lines of `about` that begin with a space stay as they are. */
static void assert_fits(const char *name, const char *text, size_t width)
{
    bool is_option = false;
    for (size_t length; *text != '\0'; text += length + (text[length] == '\n')) {
        length = strcspn(text, "\n");
        is_option = is_option || strncmp(text, "Options:", 8) == 0 || strncmp(text, "Commands to", 11) == 0;
        if (strncmp(text, "Examples:", 9) == 0)
            return;
        if (length > width && strncmp(text, "Usage:", 6) != 0 && (is_option || text[0] != ' '))
            fail_msg("%s at %zu columns: %.*s", name, width, (int)length, text);
    }
}

TEST(help_fits_the_terminal)
{
    static const unsigned short widths[] = {40, 50, 60, 80, 132};
    int terminal = terminal_open(), other = open(ptsname(terminal), O_RDWR | O_NOCTTY | O_CLOEXEC);
    int output = dup(STDOUT_FILENO);
    for (size_t i = 0; i < sizeof widths / sizeof widths[0]; i++) {
        const struct command *const *command = command_list;
        assert_int_equal(ioctl(other, TIOCSWINSZ, &(struct winsize){.ws_col = widths[i], .ws_row = 24}), 0);
        for (bool is_program = true; is_program || *command != NULL; is_program = false) {
            struct buffer text = {0};
            fflush(stdout);
            dup2(other, STDOUT_FILENO);
            if (is_program)
                manual_print_program(&text);
            else
                manual_print_command(*command, &text);
            dup2(output, STDOUT_FILENO);
            assert_fits(is_program ? "holdfast" : (*command)->name, buffer_text(&text), widths[i]);
            command += !is_program;
            buffer_fini(&text);
        }
    }
    close(output);
    close(other);
    close(terminal);
}

/* --- completion --------------------------------------------------------------------------------------------------- */

/* `row` in the part of `script` that begins with `begin` and ends before `end`. */
static void assert_offers(const char *script, const char *begin, const char *end, const char *option)
{
    const char *part = strstr(script, begin), *behind = part != NULL ? strstr(part + strlen(begin), end) : NULL;
    const char *at = part != NULL ? strstr(part, option) : NULL;
    if (part == NULL || behind == NULL || at == NULL || at > behind)
        fail_msg("no '%s' between '%s' and '%s'", option, begin, end);
}

TEST(every_shell_offers_every_option)
{
    struct buffer bash = {0}, zsh = {0}, fish = {0};
    assert_true(completion_print("bash", &bash) && completion_print("zsh", &zsh) && completion_print("fish", &fish));
    for (const struct command *const *command = command_list; *command != NULL; command++) {
        const char *name = (*command)->name;
        struct option_walk walk = {.table = (*command)->options};
        for (const struct option_row *row; (row = option_next(&walk)) != NULL;) {
            bool needs_value = row->value != NULL && !option_value_is_optional(row);
            char begin[64], option[160];
            snprintf(begin, sizeof begin, "    1,%s) ", name);
            snprintf(option, sizeof option, "--%s%s:", row->name, needs_value ? "=" : "");
            assert_offers(buffer_text(&bash), begin, "\n", option);
            snprintf(begin, sizeof begin, "    (%s)\n", name);
            snprintf(option, sizeof option, "--%s%s%s'[", row->name,
                     row->value == NULL ? ""
                     : needs_value      ? "="
                                        : "=-",
                     row->letter != 0 ? "}" : "");
            assert_offers(buffer_text(&zsh), begin, "\n        ;;\n", option);
            snprintf(option, sizeof option, "complete -c holdfast -n '__holdfast_runs %s' -l %s ", name, row->name);
            assert_contains(buffer_text(&fish), option);
        }
    }
    buffer_fini(&bash);
    buffer_fini(&zsh);
    buffer_fini(&fish);
}

TEST(shells_offer_files_and_words_where_they_are_wanted)
{
    struct buffer bash = {0}, zsh = {0}, fish = {0};
    assert_true(completion_print("bash", &bash) && completion_print("zsh", &zsh) && completion_print("fish", &fish));
    assert_offers(buffer_text(&bash), "    1,push) ", "\n", "-c:file --config=:file ");
    assert_offers(buffer_text(&bash), "    1,push) ", "\n", " --queue=:text ");
    assert_offers(buffer_text(&bash), "    1,plugin) ", "\n", " --directory=:directory ");
    assert_offers(buffer_text(&bash), "    1,plugins) ", "\n", " words='list check ' files=1 ");
    assert_offers(buffer_text(&bash), "    1,push) ", "\n", " words='' files= ");
    assert_offers(buffer_text(&bash), "    1,help) ", "\n", " words='work quiet ");
    assert_offers(buffer_text(&zsh), "    (push)\n", ";;", "]:FILE:_files'");
    assert_offers(buffer_text(&zsh), "    (push)\n", ";;", "how often a failed task is retried (yes\\: 25 times)]");
    assert_offers(buffer_text(&zsh), "    (push)\n", ";;", "--jid='[the task'\\''s id");
    assert_offers(buffer_text(&zsh), "    (push)\n", ";;", "\\*{-r+,--resource=}");
    assert_offers(buffer_text(&zsh), "    (plugins)\n", ";;", "'1: :(list check )'");
    assert_offers(buffer_text(&zsh), "    (plugins)\n", ";;", "'*: :_files'");
    assert_offers(buffer_text(&zsh), "    (result)\n", ";;", "'*: :()'"); /* options behind the jid are offered too */
    assert_contains(buffer_text(&fish), "'__holdfast_runs push' -l config -s c -r -F -d");
    assert_contains(buffer_text(&fish), "'__holdfast_runs push' -l queue -s q -x -d");
    assert_contains(buffer_text(&fish), "'__holdfast_runs push' -l wait -s w -d");
    assert_contains(buffer_text(&fish), "'__holdfast_runs plugins' -a 'list check '");
    assert_false(completion_print("csh", &bash));
    buffer_fini(&bash);
    buffer_fini(&zsh);
    buffer_fini(&fish);
}

/* --- roff --------------------------------------------------------------------------------------------------------- */

static void assert_text(const char *text, const char *page)
{
    struct buffer out = {0};
    roff_text(text, &out);
    assert_string_equal(buffer_text(&out), page);
    buffer_fini(&out);
}

TEST(nothing_in_a_text_is_a_request)
{
    assert_text(".TH is text", "\\&.TH is text\n");
    assert_text("'br is text", "\\(aqbr is text\n");
    assert_text("a \\fB b\\n", "a \\efB b\\en\n");
    assert_text("--wait \"x\" ^ ~", "\\-\\-wait \\(dqx\\(dq \\(ha \\(ti\n");
    assert_text("say `holdfast push`", "say holdfast push\n");
    struct buffer out = {0};
    roff_item(".so \"a b\"", "'x", &out);
    roff_literal("  `date`\n.so x\n", &out);
    assert_string_equal(buffer_text(&out), ".TP\n.B \\&.so \\(dqa b\\(dq\n\\(aqx\n"
                                           ".nf\n  \\(gadate\\(ga\n\\&.so x\n.fi\n");
    buffer_fini(&out);
}

TEST(texts_have_paragraphs_and_lists)
{
    assert_text("one\nline\n\nand another\n", "one\nline\n.PP\nand another\n");
    assert_text("as it is:\n  a b\n  c\nand so on\n", "as it is:\n.nf\n  a b\n  c\n.fi\nand so on\n");
    assert_text("- one\n  more\n- two\n\nend", ".IP \\(bu 2\none\nmore\n.IP \\(bu 2\ntwo\n.PP\nend\n");
    assert_text("Signals:\n  SIGTERM, SIGINT  stop\n                   now\n  SIGHUP           read\nend\n",
                "Signals:\n.TP\n.B SIGTERM, SIGINT\nstop\nnow\n.TP\n.B SIGHUP\nread\n.PP\nend\n");
    assert_text("a\n\n  b\n", "a\n.PP\n.nf\n  b\n.fi\n");
}

RUN_TESTS

#include "worker/dry_run/run/live_block.h"

#include <stdarg.h>
#include <stdio.h>

#include "base/log.h"
#include "worker/print/human.h"
#include "worker/print/table.h"

enum { BAR_WIDTH = 24, LINE_MAX_BYTES = 512 };

struct block {
    unsigned width, lines;
    bool has_colour;
    struct buffer *out;
};

/* As far as there is room for it: a line that went on would be two, and the block would not lie upon itself. */
static void PRINTF_LIKE(3, 4) line_write(struct block *block, enum table_style style, const char *format, ...)
{
    char text[LINE_MAX_BYTES];
    bool is_styled = block->has_colour && style != TABLE_PLAIN;
    va_list values;
    va_start(values, format);
    vsnprintf(text, sizeof text, format, values);
    va_end(values);
    buffer_append_text(block->out, is_styled ? table_style_code(style) : "");
    table_text_write(log_defuse(text), block->width, block->out);
    buffer_append_text(block->out, is_styled ? table_style_code(TABLE_PLAIN) : "");
    buffer_append(block->out, "\n", 1);
    block->lines++;
}

static void bar_text(double share, char out[BAR_WIDTH + 3])
{
    unsigned full = share >= 1 ? BAR_WIDTH : share > 0 ? (unsigned)(share * BAR_WIDTH) : 0;
    out[0] = '[';
    for (unsigned i = 0; i < BAR_WIDTH; i++)
        out[i + 1] = i < full ? '#' : '.';
    out[BAR_WIDTH + 1] = ']';
    out[BAR_WIDTH + 2] = '\0';
}

static void progress_line(struct block *block, const struct live_numbers *numbers)
{
    char bar[BAR_WIDTH + 3];
    bar_text(numbers->total > 0 ? numbers->elapsed / numbers->total : 0, bar);
    if (numbers->total > 0)
        line_write(block, TABLE_GOOD, "%-11s %s %.0f of %.0f s", numbers->phase, bar, numbers->elapsed, numbers->total);
    else
        line_write(block, TABLE_GOOD, "%-11s %.0f s", numbers->phase, numbers->elapsed);
}

static void rates_line(struct block *block, const struct live_numbers *numbers)
{
    const struct result_second *last = &numbers->stats.last;
    char pushed[HUMAN_TEXT_MAX], wanted[HUMAN_TEXT_MAX + 8] = "", ended[HUMAN_TEXT_MAX], parked[HUMAN_TEXT_MAX],
                                                         handed[HUMAN_TEXT_MAX], human[HUMAN_TEXT_MAX];
    if (numbers->rate_wanted > 0)
        snprintf(wanted, sizeof wanted, " of %s", human_rate(numbers->rate_wanted, human));
    line_write(block, TABLE_PLAIN, "a second    pushed %s%s  ended %s  parked %s  handed over %s",
               human_rate(last->pushed, pushed), wanted, human_rate(last->ended, ended),
               human_rate(last->parked, parked), human_rate(last->handed_over, handed));
}

static void tasks_line(struct block *block, const struct stats_live *stats)
{
    char waiting[HUMAN_TEXT_MAX], busy[HUMAN_TEXT_MAX], pushed[HUMAN_TEXT_MAX], ended[HUMAN_TEXT_MAX];
    line_write(block, TABLE_PLAIN, "tasks       waiting %s  runners busy %s of %u  pushed %s  ended %s",
               human_count((int64_t)stats->last.waiting, waiting), human_share(stats->busy, busy), stats->runners,
               human_count((int64_t)stats->pushed, pushed), human_count((int64_t)stats->ended, ended));
}

static void waits_line(struct block *block, const struct stats_live *stats)
{
    char p50[HUMAN_TEXT_MAX], p99[HUMAN_TEXT_MAX], now50[HUMAN_TEXT_MAX], now99[HUMAN_TEXT_MAX];
    line_write(block, TABLE_PLAIN, "wait        p50 %s  p99 %s    last second: p50 %s  p99 %s",
               human_time(stats->wait_p50, p50), human_time(stats->wait_p99, p99),
               human_time(stats->last.wait_p50, now50), human_time(stats->last.wait_p99, now99));
}

/* What should not be: only when it is. */
static void trouble_line(struct block *block, const struct live_numbers *numbers)
{
    if (numbers->stats.lost + numbers->stats.overlaps + numbers->records_lost == 0)
        return;
    line_write(block, TABLE_BAD, "trouble     locks lost %llu  overlaps %llu  records lost %llu",
               (unsigned long long)numbers->stats.lost, (unsigned long long)numbers->stats.overlaps,
               (unsigned long long)numbers->records_lost);
}

static void hot_rows(struct block *block, const struct stats_live *stats)
{
    char quoted[LOG_QUOTE_MAX], human[HUMAN_TEXT_MAX];
    unsigned rows = stats->hot_count < LIVE_HOT_ROWS ? stats->hot_count : LIVE_HOT_ROWS;
    if (rows == 0)
        return;
    struct table *table = table_create("HOTTEST:10|>HELD|>WAITING");
    for (unsigned i = 0; i < rows; i++) {
        const struct stats_hot *hot = &stats->hot[i];
        table_cell(table, TABLE_PLAIN, "%s", hot->name[0] != '\0' ? log_quote(hot->name, quoted) : "-");
        table_cell(table,
                   hot->share_held >= 0.9   ? TABLE_BAD
                   : hot->share_held >= 0.7 ? TABLE_WARN
                                            : TABLE_PLAIN,
                   "%s", human_share(hot->share_held, human));
        table_cell(table, TABLE_PLAIN, "%u", hot->waiters);
    }
    table_write(table, block->width, rows, block->has_colour, block->out);
    table_free(table);
    block->lines += rows + 1;
}

unsigned live_block_write(const struct live_numbers *numbers, unsigned width, bool has_colour, struct buffer *out)
{
    struct block block = {.width = width, .has_colour = has_colour, .out = out};
    progress_line(&block, numbers);
    if (numbers->has_begun) {
        rates_line(&block, numbers);
        tasks_line(&block, &numbers->stats);
        waits_line(&block, &numbers->stats);
        trouble_line(&block, numbers);
        hot_rows(&block, &numbers->stats);
    }
    return block.lines;
}

/* To the first line of the block, and nothing from there on. */
static void block_clear(const struct live_block *block, struct buffer *out)
{
    if (block->lines > 0)
        buffer_format(out, "\x1b[%uA\r\x1b[J", block->lines);
}

void live_block_draw(struct live_block *block, const struct live_numbers *numbers, struct buffer *out)
{
    block_clear(block, out);
    block->lines = live_block_write(numbers, block->width, block->has_colour, out);
}

void live_block_end(struct live_block *block, struct buffer *out)
{
    block_clear(block, out);
    block->lines = 0;
}

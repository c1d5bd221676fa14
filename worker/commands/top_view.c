#include "worker/commands/top_view.h"

#include <string.h>

enum { KEY_ESCAPE = 27, KEY_BACKSPACE = 127, KEY_UP = 256, KEY_DOWN, KEY_RIGHT, KEY_LEFT, KEY_OTHER };

/* Terminals send the arrows as ESC [ A or ESC O A, up to D. */
static int key_read(const char *bytes, size_t length, size_t *used)
{
    *used = 1;
    if (bytes[0] != KEY_ESCAPE || length < 2 || (bytes[1] != '[' && bytes[1] != 'O'))
        return (unsigned char)bytes[0];
    *used = 2;
    while (*used < length && strchr("0123456789;", bytes[*used]) != NULL)
        ++*used;
    if (*used == length)
        return KEY_OTHER;
    char last = bytes[(*used)++];
    return last >= 'A' && last <= 'D' ? KEY_UP + (last - 'A') : KEY_OTHER;
}

static void section_step(struct top_view *view, int step)
{
    view->section = (enum top_section)(((int)view->section + step + TOP_SECTIONS) % TOP_SECTIONS);
    view->row = 0;
}

static enum top_wish filter_type(struct top_view *view, int key)
{
    size_t length = strlen(view->filter);
    if (key == '\r' || key == '\n') {
        view->mode = TOP_LISTS;
    } else if (key == KEY_ESCAPE) {
        view->filter[0] = '\0';
        view->mode = TOP_LISTS;
    } else if ((key == KEY_BACKSPACE || key == '\b') && length > 0) {
        while (length > 0 && (view->filter[--length] & 0xc0) == 0x80)
            ; /* the bytes of one character */
        view->filter[length] = '\0';
    } else if (key >= ' ' && key < KEY_UP && key != KEY_BACKSPACE && length + 1 < sizeof view->filter) {
        view->filter[length] = (char)key;
        view->filter[length + 1] = '\0';
    }
    view->row = 0;
    return TOP_NOTHING;
}

static enum top_wish answer_type(struct top_view *view, int key)
{
    view->mode = TOP_LISTS;
    view->note[0] = '\0';
    return key == 'y' || key == 'Y' ? TOP_DO : TOP_NOTHING;
}

static enum top_wish text_type(struct top_view *view, int key)
{
    if (key == KEY_DOWN || key == 'j')
        view->text_line++;
    else if ((key == KEY_UP || key == 'k') && view->text_line > 0)
        view->text_line--;
    else if (key == 'q' || key == 'Q' || key == KEY_ESCAPE || key == '\r' || key == '\n')
        view->mode = TOP_LISTS;
    return TOP_NOTHING;
}

static void lists_move(struct top_view *view, int key)
{
    switch (key) {
    case '\t':
    case KEY_RIGHT:
        section_step(view, 1);
        break;
    case KEY_LEFT:
        section_step(view, -1);
        break;
    case KEY_DOWN:
    case 'j':
        view->row++;
        break;
    case KEY_UP:
    case 'k':
        view->row -= view->row > 0;
        break;
    case 's':
        view->sorted[view->section]++; /* the screen knows how many columns there are */
        break;
    case 'r':
        view->is_descending[view->section] = !view->is_descending[view->section];
        break;
    case '/':
        view->mode = TOP_FILTERS;
        break;
    case KEY_ESCAPE:
        view->filter[0] = '\0';
        break;
    default:
        break;
    }
}

enum top_wish top_view_type(struct top_view *view, const char *bytes, size_t length, size_t *used)
{
    int key = key_read(bytes, length, used);
    if (view->mode == TOP_FILTERS)
        return filter_type(view, key);
    if (view->mode == TOP_CONFIRMS)
        return answer_type(view, key);
    if (view->mode == TOP_READS)
        return text_type(view, key);
    view->note[0] = '\0';
    switch (key) {
    case 'q':
    case 'Q':
        return TOP_QUIT;
    case '\r':
    case '\n':
        return TOP_OPEN;
    case 'c':
        return TOP_CANCEL;
    case 'p':
        return TOP_PAUSE;
    default:
        lists_move(view, key);
        return TOP_NOTHING;
    }
}

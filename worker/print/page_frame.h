/* What every page of ours has around what it shows: the head, the colours of light, dark and paper, and the looks of
 * headings, tables and keys. A page needs nothing else: no network, no other file. Pure.
 *
 *     page_begin(out, title, my_style);
 *     ...
 *     page_end(out, my_script);               NULL = none
 *
 * Colours are CSS variables (--back, --text, --soft, --line, --card, --good, --bad); the classes p0 to p7 set --c to
 * one of eight that can be told apart, p8 to grey, p9 to that of what is bad. */
#ifndef WORKER_PAGE_FRAME_H
#define WORKER_PAGE_FRAME_H

#include "base/buffer.h"

/* The title is also the heading. */
void page_begin(struct buffer *out, const char *title, const char *style);
void page_end(struct buffer *out, const char *script);

#endif

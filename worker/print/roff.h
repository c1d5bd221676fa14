/* Manual pages, for man(7). Texts are as `--help` prints them: a blank line begins a paragraph, "- " an item of a list,
 * and so does an indented line "  TERM  what it is"; what is indented otherwise stays as it is. Quotes `...` around
 * words of a program are left out where the text is filled. Pure. */
#ifndef WORKER_ROFF_H
#define WORKER_ROFF_H

#include "base/buffer.h"

/* "NAME(1)" and the section NAME. */
void roff_begin(const char *name, int section, const char *summary, const char *version, struct buffer *out);
void roff_headline(const char *text, struct buffer *out);
void roff_subheadline(const char *text, struct buffer *out);
/* Below a headline: lines that end with \n, but for the last. A literal one stays as it is. */
void roff_text(const char *text, struct buffer *out);
void roff_literal(const char *text, struct buffer *out);
void roff_item(const char *term, const char *text, struct buffer *out);

#endif

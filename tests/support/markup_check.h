/* Whether a page of HTML is well-formed: every element that is opened is closed in its turn, every attribute has a name
 * of its own and a value in double quotes, no bare < or & stands in the text. A page that keeps to this means the same
 * to every browser. */
#ifndef SUPPORT_MARKUP_CHECK_H
#define SUPPORT_MARKUP_CHECK_H

#include <stddef.h>

/* NULL when it is, else what is wrong and where, to be freed. */
char *markup_check(const char *page);
/* How often the page has an element of that name. */
size_t markup_count(const char *page, const char *element);

#endif

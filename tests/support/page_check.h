/* Pages of HTML (worker/print/page.h): that foreign text is where it belongs, and what was embedded. */
#ifndef SUPPORT_PAGE_CHECK_H
#define SUPPORT_PAGE_CHECK_H

/* The JSON that the page's script draws, as it was before it was embedded; to be freed. Fails the test when it is no
 * JSON, when anything could have left its element, when a control or what reorders text is in the page, or when the
 * page could load something. */
char *page_data(const char *page);
/* The report as text, with the characters of HTML still escaped; to be freed. */
char *page_text(const char *page);

#endif

/* A page of HTML that is one file: it opens from the disk, loads nothing and can be printed. A script of ours draws its
 * data; for readers without scripts the page has the same report as text.
 *
 *     page_write(&(struct page){.title = "Dry run", .text = text, .json = json, .script = "result_page.js"}, out);
 *
 * The script is a file beside the C file that writes the JSON. It defines draw(data, main) and uses functions of
 * page.js; page.css has the looks of all pages. Whatever is in the title, the text and the JSON stays text. Pure. */
#ifndef WORKER_PAGE_H
#define WORKER_PAGE_H

#include <stdbool.h>

#include "base/buffer.h"

struct page {
    const char *title; /* also the heading */
    const char *text;  /* lines; NULL: there is nothing to read without a script */
    const char *json, *script;
    bool connects; /* the script asks the server that the page came from */
};

void page_write(const struct page *page, struct buffer *out);

#endif

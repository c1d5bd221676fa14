#include "worker/print/page_frame.h"

#include "worker/print/markup.h"

#define LIGHT                                                                                                          \
    "--back:#fdfdfc;--text:#1d2226;--soft:#626b73;--line:#d9dde0;--card:#f2f4f5;--good:#14713b;--bad:#b3261e;"         \
    "--p0:#3465a4;--p1:#c4690c;--p2:#3f8f3c;--p3:#8554a8;--p4:#0b8a8a;--p5:#b0497b;--p6:#7b6a1e;--p7:#4f5bd5;"         \
    "--p8:#8a9299;"
#define DARK                                                                                                           \
    "--back:#14181b;--text:#e6e9eb;--soft:#9aa4ab;--line:#343b41;--card:#1e2428;--good:#6fd08c;--bad:#ff8a80;"         \
    "--p0:#7fb0ee;--p1:#f0a050;--p2:#84cf7e;--p3:#c39be0;--p4:#5ccfcf;--p5:#ee90bb;--p6:#cdb95a;--p7:#9aa3ff;"         \
    "--p8:#7d868d;"

/* Paper is light. */
static const char frame_style[] =
    ":root{color-scheme:light dark;" LIGHT "}"
    "@media (prefers-color-scheme:dark){:root{" DARK "}}"
    "@media print{:root{color-scheme:light;" LIGHT "}"
    "*{print-color-adjust:exact;-webkit-print-color-adjust:exact}h2{break-after:avoid}}\n"
    "body{margin:0 auto;max-width:1500px;padding:1rem 1.5rem 3rem;background:var(--back);color:var(--text);"
    "font:15px/1.5 system-ui,sans-serif}\n"
    "h1{font-size:1.5rem;margin:.5rem 0}h2{font-size:1.2rem;margin:2.2rem 0 .6rem}h3{font-size:1rem;margin:1.2rem 0 "
    ".3rem}"
    "p{margin:.4rem 0;max-width:80ch}.soft{color:var(--soft)}\n"
    "table{border-collapse:collapse;margin:.5rem 0;font-size:.9rem}"
    "th,td{padding:.2rem .7rem;border-bottom:1px solid var(--line);text-align:left;vertical-align:top}"
    "th{color:var(--soft);font-weight:600}.n{text-align:right;font-variant-numeric:tabular-nums;white-space:nowrap}"
    ".good{color:var(--good)}.bad{color:var(--bad);font-weight:600}.wide{overflow-x:auto}\n"
    "svg{display:block;width:100%}svg text{font-size:11px;fill:var(--soft)}.grid{stroke:var(--line)}"
    ".p0{--c:var(--p0)}.p1{--c:var(--p1)}.p2{--c:var(--p2)}.p3{--c:var(--p3)}.p4{--c:var(--p4)}.p5{--c:var(--p5)}"
    ".p6{--c:var(--p6)}.p7{--c:var(--p7)}.p8{--c:var(--p8)}.p9{--c:var(--bad)}\n"
    "span.key{display:inline-block;width:.8em;height:.8em;background:var(--c);margin-right:.3em;border-radius:2px}"
    ".legend span{white-space:nowrap;margin-right:1rem}.legend span.key{margin-right:.3em}\n";

void page_begin(struct buffer *out, const char *title, const char *style)
{
    buffer_append_text(out, "<!DOCTYPE html>\n<html lang=\"en\"><head><meta charset=\"utf-8\">"
                            "<meta name=\"viewport\" content=\"width=device-width, initial-scale=1\"><title>");
    markup_text(out, title);
    buffer_append_text(out, "</title><style>\n");
    buffer_append_text(out, frame_style);
    buffer_append_text(out, style);
    buffer_append_text(out, "</style></head><body>\n<h1>");
    markup_text(out, title);
    buffer_append_text(out, "</h1>\n");
}

void page_end(struct buffer *out, const char *script)
{
    if (script != NULL) {
        buffer_append_text(out, "<script>\n");
        buffer_append_text(out, script);
        buffer_append_text(out, "</script>");
    }
    buffer_append_text(out, "</body></html>\n");
}

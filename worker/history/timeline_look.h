/* The style and the script of a page with timelines, as they stand in it. */
#ifndef WORKER_TIMELINE_LOOK_H
#define WORKER_TIMELINE_LOOK_H

/* So many processes have colours of their own, p0 to p7; p8 is that of all others. */
enum { TIMELINE_COLOURS = 8, TIMELINE_ROW_HEIGHT = 14, TIMELINE_ROW_GAP = 8, TIMELINE_AXIS_HEIGHT = 22 };

extern const char timeline_style[];
extern const char timeline_script[];

#endif

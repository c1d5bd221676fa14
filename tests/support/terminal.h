/* A pseudo terminal for a program that wants one. */
#ifndef SUPPORT_TERMINAL_H
#define SUPPORT_TERMINAL_H

/* The side of the one who sits at it; the program opens ptsname() of it. Where there is none, as in a root without
 * /dev/pts, the test is skipped. */
int terminal_open(void);

#endif

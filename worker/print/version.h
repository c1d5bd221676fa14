#ifndef WORKER_VERSION_H
#define WORKER_VERSION_H

#define HOLDFAST_VERSION "0.9.0"

/* For whom it was built: lines that end with \n. Written by the Makefile, and linked into the program only. */
extern const char build_facts[];

#endif

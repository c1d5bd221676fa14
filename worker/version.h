#ifndef WORKER_VERSION_H
#define WORKER_VERSION_H

#define HOLDFAST_VERSION "0.1.0"

#endif

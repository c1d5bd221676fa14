/* The processor time that this process has used so far, in user and system mode, all threads together. */
#ifndef SUPPORT_CPU_TIME_H
#define SUPPORT_CPU_TIME_H

#include <stdint.h>

int64_t cpu_time_us(void);

#endif

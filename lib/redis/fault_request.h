/* The fault points of a request (base/fault.h). Its name and keys are read from its bytes. Private to lib/redis. */
#ifndef REDIS_FAULT_REQUEST_H
#define REDIS_FAULT_REQUEST_H

#include "base/fault.h"
#include "redis/request.h"

#ifdef HOLDFAST_FAULTS
void fault_request(const struct redis_script *const *scripts, size_t script_count, const char *request, size_t length,
                   enum fault_side side);
#else
static inline void fault_request(const struct redis_script *const *scripts, size_t script_count, const char *request,
                                 size_t length, enum fault_side side)
{
    (void)scripts, (void)script_count, (void)request, (void)length, (void)side;
}
#endif

#endif

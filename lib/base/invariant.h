/* invariant(condition) states what the program itself guarantees. It is checked in every build, because a broken
 * invariant in a lock is worse than a dead process: the process aborts, and another one recovers its tasks. What
 * users, files, nodes and plugins send is never checked this way; see error.h. */
#ifndef BASE_INVARIANT_H
#define BASE_INVARIANT_H

#define invariant(condition)                                                                                           \
    do {                                                                                                               \
        if (__builtin_expect(!(condition), 0))                                                                         \
            invariant_broken(#condition, __FILE__, __LINE__, __func__);                                                \
    } while (0)

#define invariant_unreachable(why) invariant_broken(why, __FILE__, __LINE__, __func__)

_Noreturn void invariant_broken(const char *condition, const char *file, int line, const char *function);

#endif

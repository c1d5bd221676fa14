/* A function that the linker replaces in the world (tests/sim/world/wraps): `__wrap_` is ours, `__real_` the other. */
#ifndef SIM_WRAPPED_H
#define SIM_WRAPPED_H

#define WRAPPED(result, name, ...)                                                                                     \
    result __real_##name(__VA_ARGS__);                                                                                 \
    result __wrap_##name(__VA_ARGS__)

#endif

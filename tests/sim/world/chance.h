/* Randomness that repeats: one 64-bit seed gives one sequence, on every machine. Everything that happens by chance in
 * a simulated schedule is drawn from here and nowhere else. */
#ifndef SIM_CHANCE_H
#define SIM_CHANCE_H

#include <stdbool.h>
#include <stdint.h>

struct chance {
    uint64_t state;
};

static inline uint64_t chance_mix(uint64_t bits)
{
    bits = (bits ^ (bits >> 30)) * UINT64_C(0xbf58476d1ce4e5b9);
    bits = (bits ^ (bits >> 27)) * UINT64_C(0x94d049bb133111eb);
    return bits ^ (bits >> 31);
}

static inline uint64_t chance_next(struct chance *chance)
{
    chance->state += UINT64_C(0x9e3779b97f4a7c15);
    return chance_mix(chance->state);
}

/* Uniform in [0, bound); 0 when there is nothing to choose from. */
static inline int64_t chance_below(struct chance *chance, int64_t bound)
{
    if (bound <= 1)
        return 0;
    return (int64_t)(((unsigned __int128)chance_next(chance) * (uint64_t)bound) >> 64);
}

/* Uniform in [low, high]. */
static inline int64_t chance_between(struct chance *chance, int64_t low, int64_t high)
{
    return low + chance_below(chance, high - low + 1);
}

static inline unsigned chance_pick(struct chance *chance, unsigned count)
{
    return (unsigned)chance_below(chance, count);
}

static inline bool chance_per_mille(struct chance *chance, unsigned share)
{
    return chance_below(chance, 1000) < share;
}

/* Between low and high, each order of magnitude (to the base of two) equally likely. */
static inline int64_t chance_scale(struct chance *chance, int64_t low, int64_t high)
{
    int steps = 0;
    while ((high >> (steps + 1)) >= low && steps < 60)
        steps++;
    int64_t top = high >> chance_below(chance, steps + 1);
    return chance_between(chance, top / 2 > low ? top / 2 : low, top);
}

#endif

-- Begins a run of a task: counts it, and returns where an earlier one stopped.
-- KEYS: the task's iteration hash. ARGV: the name of the run.
-- Returns whether to cancel the task (1 or 0), the cursor and the seconds of earlier runs ('' = none). Writes together
-- what dashboards read together. Counts a repeated call once. Leaves a foreign value alone.
local LIFE_S = 2592000
local kind = redis.call('TYPE', KEYS[1]).ok
if kind ~= 'hash' and kind ~= 'none' then
    return {0, '', ''}
end
local state = redis.call('HMGET', KEYS[1], 'ex', 'c', 'rt', 'cancelled', 'run')
if state[5] ~= ARGV[1] then
    redis.call('HDEL', KEYS[1], 'run') -- first, so that the next command works on a node that is out of memory
    redis.call('HSET', KEYS[1], 'ex', string.format('%d', (tonumber(state[1]) or 0) + 1), 'c', state[2] or 'null', 'rt',
        state[3] or '0.0', 'run', ARGV[1])
    if redis.call('TTL', KEYS[1]) < 0 then
        redis.call('EXPIRE', KEYS[1], LIFE_S)
    end
end
return {state[4] and 1 or 0, state[2] or '', state[3] or ''}

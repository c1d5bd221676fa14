-- Pauses or resumes queues, and signals every living process to look at once.
-- KEYS: `paused`, processes. ARGV: pause or resume, prefixes of the keys of calls and processes, then the names of the
-- queues.
-- Returns how many processes it signalled. Safe to repeat.
local verb = ARGV[1] == 'pause' and 'SADD' or 'SREM'
for i = 4, #ARGV do
    redis.call(verb, KEYS[1], ARGV[i])
end
local time, told = redis.call('TIME'), 0
local living = redis.call('ZRANGEBYSCORE', KEYS[2], time[1], '+inf')
for i = 1, #living do
    -- A recovered process stays listed for a while.
    if redis.pcall('HEXISTS', ARGV[3] .. living[i], 'gone') ~= 1 then
        local calls = ARGV[2] .. living[i] -- as in call.lua: bounded, because a process may not listen
        redis.pcall('LTRIM', calls, 0, 98)
        redis.pcall('LPUSH', calls, 'LOOK')
        redis.pcall('EXPIRE', calls, 60)
        told = told + 1
    end
end
return told

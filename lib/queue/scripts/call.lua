-- Calls all processes whose lease runs, or the named one.
-- KEYS: processes. ARGV: the prefixes of the keys of calls and processes, the text, the identity of the one ('' = all),
-- the prefix of the keys under which processes confirm calls.
-- A list of calls is bounded and expires, because a process may not listen.
-- Returns the number of processes that were called.
local CALLS, LIFE_S = 100, 60
local called = 0
local living = redis.call('ZRANGEBYSCORE', KEYS[1], redis.call('TIME')[1], '+inf')
for i = 1, #living do
    -- A recovered process stays listed for a while.
    local is_meant = ARGV[4] == '' or ARGV[4] == living[i]
    if is_meant and redis.pcall('HEXISTS', ARGV[2] .. living[i], 'gone') ~= 1 then
        local calls = ARGV[1] .. living[i]
        redis.pcall('DEL', ARGV[5] .. living[i])
        redis.pcall('LTRIM', calls, 0, CALLS - 2)
        redis.pcall('LPUSH', calls, ARGV[3])
        redis.pcall('EXPIRE', calls, LIFE_S)
        called = called + 1
    end
end
return called

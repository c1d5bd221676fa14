-- Calls all processes that are listed.
-- KEYS: processes. ARGV: the prefix of their calls, the text.
-- A list of calls is bounded and expires: a process that does not listen is called in vain.
-- Answers the number of processes that were called.
local CALLS, LIFE_S = 100, 60
local processes = redis.call('ZRANGE', KEYS[1], 0, -1)
for i = 1, #processes do
    local calls = ARGV[1] .. processes[i]
    redis.pcall('LTRIM', calls, 0, CALLS - 2)
    redis.pcall('LPUSH', calls, ARGV[2])
    redis.pcall('EXPIRE', calls, LIFE_S)
end
return #processes

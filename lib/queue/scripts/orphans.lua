-- Returns the claims of a process whose lease has ended.
-- KEYS: processes, the process. ARGV: identity, bytes of tasks to return at most (at least one task is returned).
-- Returns slot, claim, slot, claim, ...; nothing if the process came back.
local time = redis.call('TIME')
local now = tonumber(time[1]) + tonumber(time[2]) / 1000000
local ended = redis.call('ZSCORE', KEYS[1], ARGV[1])
local budget, answer = tonumber(ARGV[2]), {}
if not ended or tonumber(ended) >= now then
    return answer
end
for _, field in ipairs(redis.call('HKEYS', KEYS[2])) do
    local size = tonumber(field) and redis.call('HSTRLEN', KEYS[2], field) or 0
    if size > 16 and (#answer == 0 or size <= budget) then
        budget = budget - size
        answer[#answer + 1] = field
        answer[#answer + 1] = redis.call('HGET', KEYS[2], field)
    end
end
return answer

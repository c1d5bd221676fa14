-- Reads what decides about trust in this node (trust.h). KEYS: the marker. ARGV: none. Changes nothing.
-- Returns {marker ("" = none, "?" = no string), run_id, "1" if keys can be evicted, else "0", the eviction policy,
-- "1" if the set of fences or its floor is something else, else "0", the node's clock in microseconds as an integer}.
-- What it cannot find out is an error, never a guess. A user without the right to the fences gets no grant anyway.
local function info(section, field)
    local text = '\r\n' .. redis.call('INFO', section)
    local value = string.match(text, '\r\n' .. field .. ':([^\r\n]+)')
    if not value then
        error('INFO ' .. section .. ' does not tell ' .. field)
    end
    return value
end
local marker = redis.pcall('GET', KEYS[1])
if type(marker) == 'table' then
    if not string.find(marker.err, 'WRONGTYPE', 1, true) then
        return marker
    end
    marker = '?'
end
local run_id = info('server', 'run_id')
local policy = info('memory', 'maxmemory_policy')
local evicts = info('memory', 'maxmemory') ~= '0' and policy ~= 'noeviction'
local floor, fences = redis.pcall('GET', 'hf:fences:floor'), redis.pcall('ZCARD', 'hf:fences')
local is_spoilt = type(floor) == 'string' and not tonumber(floor)
for _, reply in ipairs({floor or '', fences}) do
    is_spoilt = is_spoilt or (type(reply) == 'table' and string.find(reply.err, 'WRONGTYPE', 1, true))
end
local time = redis.call('TIME')
return {marker or '', run_id, evicts and '1' or '0', policy, is_spoilt and '1' or '0', tonumber(time[1]) * 1000000 + tonumber(time[2])}

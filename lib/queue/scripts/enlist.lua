-- Lists a process among those that may have claims, with a fresh lease, and announces its terms (queue/terms.h): which
-- of its items may it serve? One that takes itself for listed only announces: its lease stays as it is, and if it was
-- recovered meanwhile it has to hear of that, as renew_lease.lua says it.
--
-- An item is served by whoever served it first. A process with other breaking words for it waits until each listed
-- process with those has left or was recovered: a lease that has ended proves nothing. All of this is one step, so of
-- two processes that begin together one is the first.
--
-- No process is listed beside those of another scheme: neither would understand the keys of the other. Their lists lose
-- whoever has left or was recovered, so what is on them is alive, or has tasks that only its own scheme can bring back.
--
-- KEYS: processes, the process, the processes of other schemes. ARGV: identity, lease in seconds, the names of its
--       queues, one a line, the prefix of the key of a process; its terms ('' = not known yet); 'first' if it has
--       announced none before, 'more' if it may serve more than before, or 'same'; which items it has served so far,
--       one a line; and '1' if it takes itself for listed, else '0'.
-- Returns the number of another scheme that has processes; 'lost' if it takes itself for listed and is not; else '1' if
-- the node has forgotten that the process announced terms, else '0';
-- the items for which it waits, one a line; how many processes are listed; then for processes whose terms differ:
-- identity, terms, what each waits for. Of those with the same terms it is one, and those that merely differ are few.
--
-- A process that the node has forgotten serves only what it served: others that it waited for may have been forgotten
-- too, and announce themselves within a lease.
--
-- Removes before it adds, so that workers can start, and make room, on a node that is out of memory.
local TOLD_MAX = 8
local terms, served = ARGV[5], '\n' .. ARGV[7] .. '\n'
for i = 3, ARGV[8] == '0' and #KEYS or 0 do
    local count = redis.pcall('ZCARD', KEYS[i])
    if type(count) == 'number' and count > 0 then
        return tonumber(string.match(KEYS[i], 'hf:(%d+):processes$'))
    end
end
if ARGV[8] == '0' then
    redis.call('HDEL', KEYS[2], 'gone', 'culprit') -- may be refused, and the process stays listed
    redis.call('ZREM', KEYS[1], ARGV[1])
elseif not redis.call('ZSCORE', KEYS[1], ARGV[1]) or redis.call('HEXISTS', KEYS[2], 'queues') == 0 then
    return 'lost'
end
local has_forgotten = terms ~= '' and ARGV[6] ~= 'first' and redis.call('HEXISTS', KEYS[2], 'terms') == 0
local may_begin = ARGV[6] == 'first' or (ARGV[6] == 'more' and not has_forgotten)
local breaking, waits = {}, {}
local function each_item(text, act)
    for name, words in string.gmatch(text, '([^\t\n]*)\t([^\t\n]*)\t[^\n]*') do
        act(name, words)
    end
end
each_item(terms, function(name, words)
    breaking[name] = words
    waits[name] = not may_begin and not string.find(served, '\n' .. name .. '\n', 1, true) or nil
end)

-- `seen`: where a text is in `told`; `broken`: by a process that serves what breaks ours.
local told, seen, broken, listed = {}, {[terms] = 0}, {}, terms ~= '' and redis.call('ZRANGE', KEYS[1], 0, -1) or {}
for _, identity in ipairs(listed) do
    local other = redis.pcall('HMGET', ARGV[4] .. identity, 'terms', 'waits')
    if other[1] and other[1] ~= terms then
        local waiting, breaks = '\n' .. (other[2] or '') .. '\n', false
        each_item(other[1], function(name, words)
            local is_other = breaking[name] and breaking[name] ~= words
            if is_other and not string.find(waiting, '\n' .. name .. '\n', 1, true) then
                waits[name], breaks = true, true
            end
        end)
        local at = seen[other[1]] or ((breaks or #told < 3 * TOLD_MAX) and #told + 1)
        if at and (at > #told or (breaks and not broken[other[1]])) then
            told[at], told[at + 1], told[at + 2] = identity, other[1], other[2] or ''
            seen[other[1]], broken[other[1]] = at, breaks
        end
    end
end
-- Who may not lock serves no class that locks, and is in nobody's way there: else two that wait could keep each other.
each_item(waits.locks and terms or '', function(name, words)
    waits[name] = waits[name] or words ~= 'no lock' or nil
end)
local names = {}
for name in pairs(waits) do
    names[#names + 1] = name
end
table.sort(names)
local waiting = table.concat(names, '\n')

if ARGV[8] == '0' then
    local time = redis.call('TIME')
    local now = tonumber(time[1]) + tonumber(time[2]) / 1000000
    redis.call('ZADD', KEYS[1], string.format('%.6f', now + tonumber(ARGV[2])), ARGV[1])
end
redis.call('HSET', KEYS[2], 'queues', ARGV[3])
if terms ~= '' then
    redis.call('HSET', KEYS[2], 'terms', terms, 'waits', waiting)
end
return {has_forgotten and '1' or '0', waiting, #listed, unpack(told)}

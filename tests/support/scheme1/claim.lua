-- Settles what slots have done and claims new tasks for them, for all slots of one turn of a worker's loop.
--
-- KEYS: processes, the claims of the process, then the lists to claim from, in order: its bells, then its queues.
-- ARGV: identity, bytes of payload that one call may claim, then the name of the queue behind each list,
--       then for each slot: number, id that its place holds ('' = none), new id, '1' to claim or '0' to only settle.
-- Answers one string a slot: '+' queue newline payload, '-' nothing (to claim), '!' and the place as it is: lost.
--
-- A place always holds the id of the last call that changed it, so a repetition after a lost reply is recognised by
-- the new id and answered the same, and a call that arrives late finds another id and changes nothing. A place is
-- opened only for a process that is listed: the late call of one that has left claims nothing.
-- Removes first and adds second, so that it works on a node that is out of memory.
local claims, lists = KEYS[2], #KEYS - 2
local budget = tonumber(ARGV[2])
local first = 3 + lists
local numbers = {}
for i = first, #ARGV, 4 do
    numbers[#numbers + 1] = ARGV[i]
end
local places = redis.call('HMGET', claims, unpack(numbers))

local answers, moved, wanted, opens = {}, {}, 0, false
for s = 1, #numbers do
    local at = first + (s - 1) * 4
    local place = places[s]
    local id = place and string.sub(place, 1, 16) or ''
    if id == ARGV[at + 2] then
        answers[s] = #place > 16 and '+' .. string.sub(place, 17) or '-'
    elseif id == ARGV[at + 1] then
        moved[#moved + 1] = s
        opens = opens or not place
        if ARGV[at + 3] == '1' then
            wanted = wanted + 1
        end
    else
        answers[s] = '!' .. (place or '')
    end
end
if opens and redis.call('SISMEMBER', KEYS[1], ARGV[1]) == 0 then
    return redis.error_reply('UNLISTED this process is not in ' .. KEYS[1])
end
local emptied = {}
for m = 1, #moved do
    emptied[m] = numbers[moved[m]]
end
if #moved > 0 then
    redis.call('HDEL', claims, unpack(emptied))
end

local tasks = {}
for l = 1, lists do
    if wanted == 0 then
        break
    end
    -- A foreign value under the key is an error here, and must not keep the tasks of the other queues.
    local popped = redis.pcall('RPOP', KEYS[2 + l], wanted)
    if popped and not popped.err then
        local taken = 0
        for i = 1, #popped do
            if #tasks > 0 and #popped[i] > budget then
                break
            end
            budget = budget - #popped[i]
            tasks[#tasks + 1] = ARGV[2 + l] .. '\n' .. popped[i]
            taken = i
        end
        for i = #popped, taken + 1, -1 do
            redis.call('RPUSH', KEYS[2 + l], popped[i])
        end
        wanted = taken < #popped and 0 or wanted - taken
    end
end

local fields, next_task = {}, 1
for m = 1, #moved do
    local s = moved[m]
    local at = first + (s - 1) * 4
    local task = ''
    if ARGV[at + 3] == '1' and tasks[next_task] then
        task = tasks[next_task]
        next_task = next_task + 1
    end
    answers[s] = task ~= '' and '+' .. task or '-'
    fields[#fields + 1] = numbers[s]
    fields[#fields + 1] = ARGV[at + 2] .. task
end
if #fields > 0 then
    redis.call('HSET', claims, unpack(fields))
end
return answers

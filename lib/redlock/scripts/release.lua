-- Deletes each key that still holds its value. KEYS[i] belongs to ARGV[i], so that the releases of many locks leave
-- in one call. Returns one character a key: 1 deleted, 0 gone already, 2 another owner's.
-- ARGV[#KEYS + i] is the channel on which to announce that the key is free, "" for none; a deleted key is announced if
-- anybody listens. That is a hint: if the user may not publish it, the release works all the same.
local held = redis.call('MGET', unpack(KEYS))
local answer, ours, told, question = {}, {}, {}, {'PUBSUB', 'NUMSUB'}
for i, key in ipairs(KEYS) do
    if held[i] == ARGV[i] then
        ours[#ours + 1] = key
        answer[i] = '1'
        if ARGV[#KEYS + i] ~= '' then
            told[#told + 1] = i
            question[#question + 1] = ARGV[#KEYS + i]
        end
    else
        answer[i] = held[i] and '2' or '0'
    end
end
if #ours > 0 then
    redis.call('DEL', unpack(ours))
end
if #told > 0 then
    local listeners = redis.pcall(unpack(question))
    for position, i in ipairs(told) do
        local count = tonumber(listeners[2 * position]) or 0
        if count > 0 then
            redis.pcall('PUBLISH', ARGV[#KEYS + i], 'hf:free:' .. count .. ':' .. KEYS[i])
        end
    end
end
return table.concat(answer)

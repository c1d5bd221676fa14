-- Deletes each key that still holds its value. KEYS[i] belongs to ARGV[i], so that the releases of many locks leave
-- in one call. Answers one character a key: 1 deleted, 0 gone already, 2 somebody else's.
-- ARGV[#KEYS + i] is the channel on which to say that the key is free, "" for none; it is said if it was deleted and
-- somebody listens. That is a hint: where a user may not say it, the release is none the worse.
local answer, told, question = {}, {}, {'PUBSUB', 'NUMSUB'}
for i = 1, #KEYS do
    local held = redis.pcall('GET', KEYS[i])
    if held == ARGV[i] then
        redis.call('DEL', KEYS[i])
        answer[i] = '1'
        local channel = ARGV[#KEYS + i]
        if channel and channel ~= '' then
            told[#told + 1] = i
            question[#question + 1] = channel
        end
    elseif held then
        answer[i] = '2'
    else
        answer[i] = '0'
    end
end
if #told > 0 then
    local listeners = redis.pcall(unpack(question))
    for place, i in ipairs(told) do
        local count = tonumber(listeners[2 * place]) or 0
        if count > 0 then
            redis.pcall('PUBLISH', ARGV[#KEYS + i], 'hf:free:' .. count .. ':' .. KEYS[i])
        end
    end
end
return table.concat(answer)

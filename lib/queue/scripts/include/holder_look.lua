-- Checks whether a unique task still exists: in a queue, a bell, `schedule` or `retry`, claimed, or running after it
-- was ended (open.lua). Its text contains its digest, which identifies it.
--
-- The task counts as existing if the check cannot be complete: there is more than LOOKED_AT to read, the user may not
-- read it, or a process of another kind serves the queue and may run it. Two notes also bound the reading. After each
-- check nobody checks for a moment, so that all checks together take a small part of the node's time. A task that was
-- found at a high cost is not checked again for some time, so that others are.
--
-- keys: processes, listed, queues, schedule, retry, note (of this digest), pause. before: the prefixes of the names of
-- queues, processes, bells and shown processes.
local function holder_look(keys, before)
    local LOOKED_AT, PAGE = 5000, 64
    local DEAR, NOTED_MS, PAUSE_US = 100, 20, 40 -- for each entry read, which takes the node about 2 us
    local look, read, is_unknown = {}, 0, false

    -- A value of another type holds no task.
    local function ask(otherwise, ...)
        local reply = redis.pcall(...)
        read = read + 1
        if type(reply) == 'table' and reply.err then
            is_unknown = is_unknown or not string.find(reply.err, 'WRONGTYPE', 1, true)
            return otherwise
        end
        return reply
    end

    -- The keys of claims and of lists.
    local function keys_to_read(queue)
        local claims, lists, names = {}, {}, {[queue] = true}
        for _, identity in ipairs(ask({}, 'ZRANGE', keys.processes, 0, -1)) do
            local claim = before.processes .. identity
            local told = ask({}, 'HMGET', claim, 'queues', 'gone')
            for name in string.gmatch(told[1] or string.sub(told[2] or '', 2), '[^\n]+') do
                names[name] = true
                lists[#lists + 1] = before.bells .. identity .. ':' .. name
            end
            claims[#claims + 1] = claim
        end
        for _, name in ipairs(ask({}, 'SMEMBERS', keys.queues)) do
            names[name] = true
        end
        for name in pairs(names) do
            lists[#lists + 1] = before.queues .. name
        end
        return claims, lists
    end

    -- A process that does not claim as we do: of Sidekiq, or of another scheme.
    local function is_served_by_others(queue)
        for _, identity in ipairs(ask({}, 'SMEMBERS', keys.listed)) do
            local info = not ask(true, 'ZSCORE', keys.processes, identity)
                and ask(false, 'HGET', before.shown .. identity, 'info')
            local is_read, told = pcall(cjson.decode, info or '{"queues":[]}')
            if not is_read or type(told) ~= 'table' or type(told.queues) ~= 'table' then
                return true
            end
            for _, name in ipairs(told.queues) do
                if name == queue then
                    return true
                end
            end
        end
        return false
    end

    local function has(texts, digest)
        read = read + #texts
        for i = 1, #texts do
            if string.find(texts[i], digest, 1, true) then
                return true
            end
        end
        return false
    end

    local function is_claimed(claim, digest, holder)
        local fields, slots = ask({}, 'HGETALL', claim), {}
        for i = 1, #fields, 2 do
            slots[fields[i]] = fields[i + 1]
        end
        for field, text in pairs(slots) do
            local slot = string.match(field, '^once:(%d+)$')
            if slot and text == (slots[slot] or '') .. holder then
                return true
            end
        end
        return has(fields, digest)
    end

    local function is_in(command, key, digest)
        local from, texts = 0, nil
        repeat
            texts = ask({}, command, key, from, from + PAGE - 1)
            if has(texts, digest) then
                return true
            end
            from = from + PAGE
        until #texts < PAGE
        return false
    end

    local function is_found(queue, digest, holder)
        local size = ask(0, 'ZCARD', keys.processes) + ask(0, 'SCARD', keys.listed) + ask(0, 'SCARD', keys.queues)
            + ask(0, 'ZCARD', keys.schedule) + ask(0, 'ZCARD', keys.retry)
        if size > LOOKED_AT or is_served_by_others(queue) then
            return true
        end
        local claims, lists = keys_to_read(queue)
        for _, claim in ipairs(claims) do
            size = size + ask(0, 'HLEN', claim)
        end
        for _, list in ipairs(lists) do
            size = size + ask(0, 'LLEN', list)
        end
        if size > LOOKED_AT then
            return true
        end
        for _, claim in ipairs(claims) do
            if is_claimed(claim, digest, holder) then
                return true
            end
        end
        for _, list in ipairs(lists) do
            if is_in('LRANGE', list, digest) then
                return true
            end
        end
        return is_in('ZRANGE', keys.schedule, digest) or is_in('ZRANGE', keys.retry, digest)
    end

    function look.may_begin()
        return redis.call('EXISTS', keys.note, keys.pause) == 0
    end

    function look.finds(queue, digest, holder)
        local is_there = is_found(queue, digest, holder) or is_unknown
        redis.pcall('SET', keys.pause, '1', 'PX', math.ceil(read * PAUSE_US / 1000))
        if is_there and read > DEAR then
            redis.pcall('SET', keys.note, '1', 'PX', read * NOTED_MS)
        end
        return is_there
    end

    return look
end

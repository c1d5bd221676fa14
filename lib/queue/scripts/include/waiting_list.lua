-- include: entry_add.lua
-- A waiting list, for the scripts that include this (docs/data-model.md: waiting for a lock). `order` is the sorted set
-- of jids by their sequence, `places` the hash of what is known of each, `now` the node's time in microseconds.
--
-- A place is PARKED while `schedule` has an entry of its digest at exactly its due time. It is OUT since its due time
-- when it has no digest (it was woken, promoted or claimed). One that is OUT is on its way to the lock for a minute;
-- after that it is passed over, and after a day forgotten.
--
-- When its entry is gone and nobody noted that, another program took it. Before it is due, the task was deleted, and the
-- place goes too. Later it was deleted, or promoted: it is on its way for a few seconds only, and soon forgotten.
--
-- Who waits in a paused queue keeps its place, and nobody waits for it: it is neither woken nor on its way.
--
-- Values of another type under `order` and `places` are nobody's places; they are left as they are.
local function waiting_list(order, places, schedule, paused, now)
    local on_its_way, forgotten, looked_at, page = 60, 86400, 128, 16
    local taken_on_its_way, taken_forgotten = 10, 600 -- taken by another program
    local list, now_seconds = {}, now / 1000000
    -- A share of the runners is for several at once, who are OUT until they end: an end makes room for one more, whoever
    -- else is OUT. (Of a list of a resource only one can have what it waits for.)
    local is_share = string.find(order, '^hf:%d+:waiting:class:') ~= nil
    local function is_out_lately(place)
        local since = now_seconds - tonumber(place.due)
        return since > -1 and since < (place.digest == '' and on_its_way or taken_on_its_way)
    end
    local function is_out_too_long(place)
        return now_seconds - tonumber(place.due) > (place.digest == '' and forgotten or taken_forgotten)
    end

    function list.may_go(place)
        return redis.pcall('SISMEMBER', paused, place.queue) ~= 1
    end

    function list.works()
        return type(redis.pcall('ZCARD', order)) == 'number' and type(redis.pcall('HLEN', places)) == 'number'
    end

    function list.has(jid)
        return type(redis.pcall('ZSCORE', order, jid)) == 'string'
    end

    function list.drop(jid)
        redis.pcall('ZREM', order, jid)
        redis.pcall('HDEL', places, jid)
    end

    -- What is known of a task; `task` is its entry of `schedule` while it is parked. Nothing when it has no place.
    function list.place(jid)
        local text = redis.pcall('HGET', places, jid)
        local place = {jid = jid}
        if type(text) == 'string' then
            place.due, place.digest, place.rest = string.match(text, '^(%d+%.%d+)\n(%x*)\n(.*)$')
        end
        if not place.rest then
            return nil
        end
        place.queue, place.set, place.class = string.match(place.rest, '^([^\n]*)\n([^\n]*)\n(.*)$')
        if not place.queue then
            return nil
        end
        if place.digest ~= '' then
            local entries = redis.pcall('ZRANGEBYSCORE', schedule, place.due, place.due, 'LIMIT', 0, 64)
            for i = 1, #entries do
                if redis.sha1hex(entries[i]) == place.digest then
                    place.task = entries[i]
                end
            end
            if not place.task and tonumber(place.due) > now_seconds then
                return nil
            end
        end
        return place
    end

    -- A task that has the lock, or had it, gives up its place; but another of the same jid that is parked there keeps it.
    function list.give_up(jid)
        local place = list.place(jid)
        if not place or not place.task then
            list.drop(jid)
        end
    end

    -- The oldest that is parked and accepted (nil: any), looking no further than `behind` (nil: at all); and how many
    -- before it, but for `except`, are on their way. Looks at a bounded number: behind so many that are OUT, nobody is
    -- found.
    function list.oldest(accepts, behind, except)
        local out, from = 0, 0
        for _ = 1, looked_at / page do
            local jids = redis.pcall('ZRANGE', order, from, from + page - 1)
            for i = 1, #jids do
                if jids[i] == behind then
                    return nil, out
                end
                local place = list.place(jids[i])
                if not place or (not place.task and is_out_too_long(place)) then
                    list.drop(jids[i])
                else
                    from = from + 1
                    if not place.task then
                        local counts = jids[i] ~= except and is_out_lately(place) and list.may_go(place)
                        out = out + (counts and 1 or 0)
                    elseif not accepts or accepts(place) then
                        return place, out
                    end
                end
            end
            if #jids < page then
                break
            end
        end
        return nil, out
    end

    -- Puts a task into `schedule`, where no other entry has its time, and notes it at its place. What is to be removed
    -- for it has been: a script that has written may go on when the node is out of memory.
    function list.park(jid, due, task, rest)
        local score = string.format('%.6f', due / 1000000)
        for _ = 1, 64 do
            if redis.call('ZCOUNT', schedule, score, score) == 0 then
                break
            end
            due = due + 1
            score = string.format('%.6f', due / 1000000)
        end
        local entry = entry_add(schedule, score, task)
        redis.call('HSET', places, jid, score .. '\n' .. redis.sha1hex(entry) .. '\n' .. rest)
    end

    -- The one that is parked is due at another time.
    function list.move(place, due)
        redis.call('ZREM', schedule, place.task)
        list.park(place.jid, due, place.task, place.rest)
    end

    -- It is OUT, since now.
    function list.note_out(place)
        redis.call('HSET', places, place.jid, string.format('%.6f', now_seconds) .. '\n\n' .. place.rest)
    end

    -- Takes the one that is parked out of `schedule`.
    function list.take(place)
        redis.call('ZREM', schedule, place.task)
        list.note_out(place)
    end

    -- Runs `take`, which takes the text, an entry of `schedule`, out of it for an operator. When the oldest that is parked
    -- leaves, the next is due when it was. A task that goes to its queue is out, like one that another program moved: it
    -- may not be tried soon there.
    function list.leave(jid, text, goes_to_queue, take)
        local place = list.works() and list.has(jid) and list.place(jid)
        if not place or place.task ~= text then
            return take()
        end
        local is_first = not list.oldest(list.may_go, jid)
        if not take() then
            return false
        end
        if goes_to_queue then
            local out_since = string.format('%.6f', now_seconds)
            redis.call('HSET', places, jid, out_since .. '\n' .. place.digest .. '\n' .. place.rest)
        else
            list.drop(jid)
        end
        local next_place = is_first and list.oldest(list.may_go)
        if next_place and tonumber(next_place.due) > tonumber(place.due) then
            list.move(next_place, tonumber(place.due) * 1000000)
        end
        return true
    end

    -- The oldest go to the heads of their queues, until as many as `count` are on their way. One whose queue is paused,
    -- or has a foreign value under its key, is passed over.
    function list.wake(count, queue_prefix)
        local function can_go(place)
            return type(redis.pcall('LLEN', queue_prefix .. place.queue)) == 'number'
                and list.may_go(place)
        end
        for _ = 1, count do
            local place, out = list.oldest(can_go)
            if not place or (out >= count and not is_share) then
                break
            end
            list.take(place)
            redis.call('RPUSH', queue_prefix .. place.queue, place.task)
        end
    end

    -- Who was woken here has to wait elsewhere: the next is woken instead of it, and it keeps its place. With `until_then`
    -- only who was woken by then.
    function list.pass(jid, queue_prefix, until_then)
        local place = list.has(jid) and list.place(jid)
        local is_meant = place and not place.task and (not until_then or tonumber(place.due) <= until_then)
        if is_meant and is_out_lately(place) then
            redis.call('HSET', places, jid, string.format('%.6f', now_seconds - on_its_way - 1) .. '\n\n' .. place.rest)
            list.wake(1, queue_prefix)
        end
    end

    return list
end

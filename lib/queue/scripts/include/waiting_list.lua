-- include: entry_add.lua
-- A waiting list (docs/data-model.md: waiting for a lock). `order` is the sorted set of jids by their sequence,
-- `places` the hash of what is known of each, `now` the node's time in microseconds.
--
-- A place is PARKED while `schedule` has an entry of its digest at exactly its due time. It is OUT since its due time
-- if it has no digest (it was woken, promoted or claimed). A place that is OUT is on its way to the lock for a minute;
-- after that the list passes over it, and after a day forgets it.
--
-- If its entry is gone and the place does not say why, another program took it. If it was not due yet, the task was
-- deleted, and the place goes too. If it was due, it was deleted or promoted: it counts as on its way for a few
-- seconds only, and is soon forgotten.
--
-- A task in a paused queue keeps its place, but blocks nobody: it is neither woken nor on its way.
--
-- A value of another type under `order` or `places` holds no places and stays as it is.
local function waiting_list(order, places, schedule, paused, now)
    local on_its_way, forgotten, looked_at, page = 60, 86400, 128, 16
    local taken_on_its_way, taken_forgotten = 10, 600 -- taken by another program
    local list, now_seconds = {}, now / 1000000
    -- Several tasks may have a share of the runners at once, or a place of a resource, and are OUT until they end: an
    -- end makes room for one more, so none of them counts as on its way. (Of the list of another resource, only one
    -- task can have the lock.)
    local is_share = string.find(order, '^hf:%d+:waiting:class:') or string.find(order, '^hf:%d+:waiting:seats:')
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

    -- The needs of a task that needs only what this list is for. Most parked tasks do, so their places say '' instead,
    -- which takes less memory. Earlier versions hand the lock on to none of these; they wake them.
    function list.own_set(name)
        return redis.sha1hex(name .. '\0')
    end

    -- Returns the place of a task, nil if it has none; `task` is its entry of `schedule` while it is parked.
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

    -- A task that has or had the lock gives up its place; another task of the same jid that is parked there keeps it.
    function list.give_up(jid)
        local place = list.place(jid)
        if not place or not place.task then
            list.drop(jid)
        end
    end

    -- Returns the oldest task that is parked and accepted (nil: any), up to `behind` (nil: to the end); and how many
    -- before it, except `except`, are on their way. Looks at a bounded number of places, so it finds none behind too
    -- many that are OUT.
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
                        local counts = not is_share and jids[i] ~= except and is_out_lately(place)
                            and list.may_go(place)
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

    -- Puts a task into `schedule`, where no other entry has its time, and records it in its place. The caller has
    -- already removed what has to go: a script that has written may go on when the node is out of memory.
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

    -- Changes the due time of a parked task.
    function list.move(place, due)
        redis.call('ZREM', schedule, place.task)
        list.park(place.jid, due, place.task, place.rest)
    end

    -- Marks the place as OUT from now on.
    function list.note_out(place)
        redis.call('HSET', places, place.jid, string.format('%.6f', now_seconds) .. '\n\n' .. place.rest)
    end

    -- Takes a parked task out of `schedule`.
    function list.take(place)
        redis.call('ZREM', schedule, place.task)
        list.note_out(place)
    end

    -- Runs `take`, which removes `text`, an entry of `schedule`, for an operator. If the oldest parked task leaves, the
    -- next one gets its due time. A task that goes to its queue is OUT, like one that another program moved, because it
    -- may wait there for long.
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

    -- A task came back by time: no end woke it, so its holder died, or there are more places than before. Then another
    -- may be free too, for which the next task looks. It does the same, until one finds none: then an older one is
    -- parked again, and two tasks do not send each other back and forth.
    function list.let_next_look(jid)
        local next_place = is_share and list.oldest(list.may_go)
        local function score(of)
            return tonumber(redis.pcall('ZSCORE', order, of))
        end
        if next_place and tonumber(next_place.due) > now_seconds and score(next_place.jid) > score(jid) then
            list.move(next_place, now)
        end
    end

    -- Moves the oldest to the heads of their queues, until `count` are on their way. Passes over a task whose queue is
    -- paused or has a foreign value under its key. After a hand-over nothing is woken while the successor is on its
    -- way. It may have failed to get the lock since; where several may be OUT, its process says so itself.
    function list.wake(count, queue_prefix, is_handed_on)
        local function can_go(place)
            return type(redis.pcall('LLEN', queue_prefix .. place.queue)) == 'number'
                and list.may_go(place)
        end
        for _ = 1, count do
            local place, out = list.oldest(can_go)
            if not place or out >= count or (is_handed_on and is_share) then
                break
            end
            list.take(place)
            redis.call('RPUSH', queue_prefix .. place.queue, place.task)
            if tonumber(place.due) <= now_seconds then
                list.let_next_look(place.jid) -- it may have been due for another place than this one
            end
        end
    end

    -- A task that was woken here has to wait elsewhere: the next is woken instead of it, and it keeps its place. With
    -- `until_then` this applies only if it was woken by then.
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

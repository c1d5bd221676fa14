-- include: entry_add.lua
-- A waiting list (docs/data-model.md: waiting for a lock). `order` is the sorted set of jids by their sequence,
-- `waiters` the hash of what is known of each waiter, `now` the node's time in microseconds.
--
-- A waiter is PARKED while `schedule` has an entry of its digest at exactly its due time. It is OUT since its due time
-- if it has no digest (it was woken, promoted or claimed). A waiter that is OUT is on its way to the lock for a minute;
-- after that the list passes over it, and after a day forgets it.
--
-- If its entry is gone and the waiter does not say why, another program took it. If it was not due yet, the task was
-- deleted, and the waiter goes too. If it was due, it was deleted or promoted: it counts as on its way for a few
-- seconds only, and is soon forgotten.
--
-- A task in a paused queue keeps its position, but blocks nobody: it is neither woken nor on its way.
--
-- A value of another type under `order` or `waiters` holds no waiters and stays as it is.
local function waiting_list(order, waiters, schedule, paused, now)
    local on_its_way, forgotten, looked_at, page = 60, 86400, 128, 16
    local taken_on_its_way, taken_forgotten = 10, 600 -- taken by another program
    local list, now_seconds = {}, now / 1000000
    -- Several tasks may have a share of the runners at once, or a seat of a resource, and are OUT until they end: an
    -- end makes room for one more, so none of them counts as on its way. (Of the list of another resource, only one
    -- task can have the lock.)
    local is_share = string.find(order, '^hf:%d+:waiting:class:') or string.find(order, '^hf:%d+:waiting:seats:')
    local function is_out_lately(waiter)
        local since = now_seconds - tonumber(waiter.due)
        return since > -1 and since < (waiter.digest == '' and on_its_way or taken_on_its_way)
    end
    local function is_out_too_long(waiter)
        return now_seconds - tonumber(waiter.due) > (waiter.digest == '' and forgotten or taken_forgotten)
    end

    function list.may_go(waiter)
        return redis.pcall('SISMEMBER', paused, waiter.queue) ~= 1
    end

    function list.works()
        return type(redis.pcall('ZCARD', order)) == 'number' and type(redis.pcall('HLEN', waiters)) == 'number'
    end

    function list.has(jid)
        return type(redis.pcall('ZSCORE', order, jid)) == 'string'
    end

    function list.drop(jid)
        redis.pcall('ZREM', order, jid)
        redis.pcall('HDEL', waiters, jid)
    end

    -- The needs of a task that needs only what this list is for. Most parked tasks do, so they say '' instead,
    -- which takes less memory.
    function list.own_set(name)
        return redis.sha1hex(name .. '\0')
    end

    -- Returns the waiter of a jid, nil if there is none; `task` is its entry of `schedule` while it is parked.
    function list.waiter(jid)
        local text = redis.pcall('HGET', waiters, jid)
        local waiter = {jid = jid}
        if type(text) == 'string' then
            waiter.due, waiter.digest, waiter.rest = string.match(text, '^(%d+%.%d+)\n(%x*)\n(.*)$')
        end
        if not waiter.rest then
            return nil
        end
        waiter.queue, waiter.set, waiter.class = string.match(waiter.rest, '^([^\n]*)\n([^\n]*)\n(.*)$')
        if not waiter.queue then
            return nil
        end
        if waiter.digest ~= '' then
            local entries = redis.pcall('ZRANGEBYSCORE', schedule, waiter.due, waiter.due, 'LIMIT', 0, 64)
            for i = 1, #entries do
                if redis.sha1hex(entries[i]) == waiter.digest then
                    waiter.task = entries[i]
                end
            end
            if not waiter.task and tonumber(waiter.due) > now_seconds then
                return nil
            end
        end
        return waiter
    end

    -- A task that has or had the lock leaves the list; another task of the same jid that is parked there stays.
    function list.give_up(jid)
        local waiter = list.waiter(jid)
        if not waiter or not waiter.task then
            list.drop(jid)
        end
    end

    -- Returns the oldest task that is parked and accepted (nil: any), up to `behind` (nil: to the end); and how many
    -- before it, except `except`, are on their way. Looks at a bounded number of waiters, so it finds none behind too
    -- many that are OUT.
    function list.oldest(accepts, behind, except)
        local out, from = 0, 0
        for _ = 1, looked_at / page do
            local jids = redis.pcall('ZRANGE', order, from, from + page - 1)
            for i = 1, #jids do
                if jids[i] == behind then
                    return nil, out
                end
                local waiter = list.waiter(jids[i])
                if not waiter or (not waiter.task and is_out_too_long(waiter)) then
                    list.drop(jids[i])
                else
                    from = from + 1
                    if not waiter.task then
                        local counts = not is_share and jids[i] ~= except and is_out_lately(waiter)
                            and list.may_go(waiter)
                        out = out + (counts and 1 or 0)
                    elseif not accepts or accepts(waiter) then
                        return waiter, out
                    end
                end
            end
            if #jids < page then
                break
            end
        end
        return nil, out
    end

    -- Puts a task into `schedule`, where no other entry has its time, and records that of its waiter. The caller has
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
        redis.call('HSET', waiters, jid, score .. '\n' .. redis.sha1hex(entry) .. '\n' .. rest)
    end

    -- Changes the due time of a parked task.
    function list.move(waiter, due)
        redis.call('ZREM', schedule, waiter.task)
        list.park(waiter.jid, due, waiter.task, waiter.rest)
    end

    -- Marks the waiter as OUT from now on.
    function list.note_out(waiter)
        redis.call('HSET', waiters, waiter.jid, string.format('%.6f', now_seconds) .. '\n\n' .. waiter.rest)
    end

    -- Takes a parked task out of `schedule`.
    function list.take(waiter)
        redis.call('ZREM', schedule, waiter.task)
        list.note_out(waiter)
    end

    -- Runs `take`, which removes `text`, an entry of `schedule`, for an operator. If the oldest parked task leaves, the
    -- next one gets its due time. A task that goes to its queue is OUT, like one that another program moved, because it
    -- may wait there for long.
    function list.leave(jid, text, goes_to_queue, take)
        local waiter = list.works() and list.has(jid) and list.waiter(jid)
        if not waiter or waiter.task ~= text then
            return take()
        end
        local is_first = not list.oldest(list.may_go, jid)
        if not take() then
            return false
        end
        if goes_to_queue then
            local out_since = string.format('%.6f', now_seconds)
            redis.call('HSET', waiters, jid, out_since .. '\n' .. waiter.digest .. '\n' .. waiter.rest)
        else
            list.drop(jid)
        end
        local next_waiter = is_first and list.oldest(list.may_go)
        if next_waiter and tonumber(next_waiter.due) > tonumber(waiter.due) then
            list.move(next_waiter, tonumber(waiter.due) * 1000000)
        end
        return true
    end

    -- A task came back by time: no end woke it, so its holder died, or there are more seats than before. Then another
    -- may be free too, for which the next task looks. It does the same, until one finds none: then an older one is
    -- parked again, and two tasks do not send each other back and forth.
    function list.let_next_look(jid)
        local next_waiter = is_share and list.oldest(list.may_go)
        local function score(of)
            return tonumber(redis.pcall('ZSCORE', order, of))
        end
        if next_waiter and tonumber(next_waiter.due) > now_seconds and score(next_waiter.jid) > score(jid) then
            list.move(next_waiter, now)
        end
    end

    -- Moves the oldest to the heads of their queues, until `count` are on their way. Passes over a task whose queue is
    -- paused or has a foreign value under its key. After a hand-over nothing is woken while the successor is on its
    -- way. It may have failed to get the lock since; where several may be OUT, its process says so itself.
    function list.wake(count, queue_prefix, is_handed_on)
        local function can_go(waiter)
            return type(redis.pcall('LLEN', queue_prefix .. waiter.queue)) == 'number'
                and list.may_go(waiter)
        end
        for _ = 1, count do
            local waiter, out = list.oldest(can_go)
            if not waiter or out >= count or (is_handed_on and is_share) then
                break
            end
            list.take(waiter)
            redis.call('RPUSH', queue_prefix .. waiter.queue, waiter.task)
            if tonumber(waiter.due) <= now_seconds then
                list.let_next_look(waiter.jid) -- it may have been due for another seat than this one
            end
        end
    end

    -- A task that was woken here has to wait elsewhere: the next is woken instead of it, and it keeps its position.
    -- With `until_then` this applies only if it was woken by then.
    function list.pass(jid, queue_prefix, until_then)
        local waiter = list.has(jid) and list.waiter(jid)
        local is_meant = waiter and not waiter.task and (not until_then or tonumber(waiter.due) <= until_then)
        if is_meant and is_out_lately(waiter) then
            local out_since = string.format('%.6f', now_seconds - on_its_way - 1)
            redis.call('HSET', waiters, jid, out_since .. '\n\n' .. waiter.rest)
            list.wake(1, queue_prefix)
        end
    end

    return list
end

-- What is noted of a periodic task: "LAST SINCE SCHEDULE". LAST: its last tick that was pushed, 0 if none was. SINCE:
-- when this schedule was first seen. Both in seconds of the node's clock.
local function tick_note_read(text)
    local last, since, schedule = string.match(text or '', '^(%d+) (%d+) (.*)$')
    return tonumber(last) or 0, tonumber(since) or 0, schedule
end
local function tick_note_text(last, since, schedule)
    return string.format('%d %d %s', last, since, schedule)
end

-- Adds a task to a sorted set without replacing another: tasks of the same bytes would be one member, so if the set has
-- such a twin, the task gets blanks at its end. JSON ignores them. They spell the time, so a free text is found at once
-- however many twins there are.
-- Returns the text that was added.
local function entry_add(set, score, task)
    local text, tries = task, 0
    while redis.call('ZADD', set, 'NX', score, text) == 0 do
        local time = redis.call('TIME')
        local number = tonumber(time[1]) * 1000000 + tonumber(time[2]) + tries
        local blanks = {}
        while number > 0 do
            blanks[#blanks + 1] = number % 2 == 0 and ' ' or '\t'
            number = math.floor(number / 2)
        end
        text, tries = task .. table.concat(blanks), tries + 1
    end
    return text
end

-- A turn in milliseconds (REDLOCK_TURN_NS), and whether an intent is that of a wish of several keys: its digits end
-- with "+" (turns.lua).
local TURN_MS = 200
local function is_of_several(intent)
    return string.sub(intent, 32, 33) == '+:'
end

-- A turn in milliseconds (REDLOCK_TURN_NS), and the sign behind the digits of an intent, nil if it has none: "+" of a
-- waiter of several keys, "*" of readers that need several keys or seats free at once.
local TURN_MS = 200 -- also in C
local function sign_of(intent)
    return string.match(string.sub(intent, 32, 33), '^([+*]):')
end

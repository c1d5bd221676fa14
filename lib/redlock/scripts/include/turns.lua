-- A lock that waits keeps its turn: hf:writer: and a key holds its intent (intent.lua). With a sign (turn.lua) it is
-- kept from all others, or from all but readers, and `turns` is set while there may be any of these on this node.
-- turn_of: the name of the turn of the key that keeps out a waiter with the intent `own` (nil: it keeps none itself);
-- nil if none does. A waiter of several keys passes by those of younger ones. Of a seat, only readers want the
-- resource.
local turn_of
if turns then
    -- include: turn.lua
    turn_of = function(key, own, is_seat)
        local name = 'hf:writer:' .. key
        local turn = redis.pcall('GET', name)
        local sign = type(turn) == 'string' and sign_of(turn)
        local keeps_all = sign == '*' or sign == '+' and not is_seat
        return keeps_all and not (own and own <= turn) and name or nil
    end
end

-- A writer that waits keeps its turn: hf:writer: and a key holds its intent (intent.lua). A wish of several keys ends
-- its digits with "+": that turn is kept from every other lock, and `turns` is set while there may be any on this node.
-- turn_of: the name of the turn that others than `own` keep of the key; nil if none does.
local turn_of
if turns then
    -- include: turn.lua
    turn_of = function(key, own)
        local name = 'hf:writer:' .. key
        local turn = redis.pcall('GET', name)
        return type(turn) == 'string' and turn ~= own and is_of_several(turn) and name or nil
    end
end

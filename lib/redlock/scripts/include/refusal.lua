-- What is answered for `key`, which is taken and has the value `held`: "-" remaining ttl ":" value, or "!" remaining
-- ttl if it is no string. `where` stands behind the ttl.
local left = string.format('%.0f', redis.call('PTTL', key)) .. where -- as text of its own, Lua would round it
local refusal = type(held) == 'table' and '!' .. left or '-' .. left .. ':' .. string.sub(held or '', 1, 192)

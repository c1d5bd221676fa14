-- Claims as successors (docs/data-model.md): `successors` is the sorted set of them by the time, in seconds of the
-- node's clock, until which each is kept for its process. An entry says all that it takes to bring the claim back:
-- where it is, the list, its jid, and that of the holder. The entry is void once the slot holds another
-- id. If a foreign value is under the key, such claims follow the lease of their process.
local function successor_entry(process, slot, id, list, jid, holder)
    return id .. slot .. '\n' .. process .. '\n' .. #jid .. '\n' .. #holder .. '\n' .. jid .. holder .. list
end

local function successor_entry_read(entry)
    local successor = {id = string.sub(entry, 1, 16)}
    local slot, process, jid, holder, rest = string.match(entry, '^(%d+)\n([^\n]*)\n(%d+)\n(%d+)\n(.*)$', 17)
    if slot then
        successor.slot, successor.process, successor.jid = slot, process, string.sub(rest, 1, jid)
        successor.holder, successor.list = string.sub(rest, jid + 1, jid + holder), string.sub(rest, jid + holder + 1)
    end
    return successor
end

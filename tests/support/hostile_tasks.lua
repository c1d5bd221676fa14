-- Pushes texts that nobody should push, each also to the list `sent`, so that a test can look for it.
-- KEYS: the queue, sent. Answers how many are no tasks at all.
local bad = {
    '', ' ', 'null', '[]', '0', '"task"', '{}', '\0', '\255\254\253', '\r\n\r\n',
    string.rep('[', 100000),
    string.rep('{"a":', 100000),
    '{"class":"note","args":' .. string.rep('[', 5000) .. string.rep(']', 5000) .. '}',
    '{"class":"note","args":[{' .. string.rep('"a":1,', 99999) .. '"a":1}]}',
    '{"class":"note","args":["' .. string.rep('x', 100000),
    string.rep('y', 2000000),
    '{"class":"no\255te","args":[]}',
    '{"class":"note","args":["\237\160\128"]}',
    '{"class":"note","args":[],"jid":"a\0b"}',
    '{"class":"note","args":["\27[31m\n2026-01-01T00:00:00.000Z error forged=1"]}',
    '{"class":"note","args":[1e]}',
    '{"class":"note","args":[]}\n2026-01-01T00:00:00.000Z error forged=1',
    '{"class":"fail","args":[],"jid":"\\u001b[2J\\n2026-01-01T00:00:00.000Z error forged=1"}',
    '{"class":["note"],"args":[]}',
    '{"class":"note","args":"none"}',
}
-- Tasks, and what they say about themselves is for people to read.
local odd = {
    '{"class":"note","args":[1e999999999,-0.0e-999,' .. string.rep('9', 100000) .. '],"jid":"odd1"}',
    '{"class":"evil\\n2026-01-01T00:00:00.000Z error forged=1","args":[],"jid":"odd2"}',
    '{"class":"\\u001b[31mred\\u001b]0;title\\u0007\\u009b\\u202e","args":[],"jid":"odd3"}',
    '{"class":"fail","args":[0,"\\u001b[31m\\r\\n2026-01-01T00:00:00.000Z error forged=1"],"jid":"odd4"}',
    '{"class":"unknown","args":[],"jid":"odd6","queue":"a\\nforged=1"}',
}
for _, list in ipairs({bad, odd}) do
    for _, text in ipairs(list) do
        redis.call('LPUSH', KEYS[1], text)
        redis.call('LPUSH', KEYS[2], text)
    end
end
return #bad

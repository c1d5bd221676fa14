-- The first token that can be followed by none below 2^53, and how far a proposed one may be ahead of this node's
-- clock, in microseconds: a client whose clock is far ahead must not drive the fences there.
local TOKEN_END, AHEAD_MAX = 9007199254740990, 60000000

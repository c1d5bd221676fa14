# Lists the places where a mutant can be made, one a line, separated by the character 037:
#
#   FILE  LINE  FUNCTION  OPERATOR  OFFSET  LENGTH  OLD  NEW  LINES
#
# LENGTH bytes of the file from OFFSET (0 = its first) are OLD; NEW takes their place. LINES are those of the file which
# the change touches. A newline within a field is written as \n, a tab as \t, a backslash as \\.
#
#   awk -f sites.awk pass=1 HEADERS pass=2 FILES
#
# It knows the language as clang-format lays it out: one statement begins on a line of its own, a function begins in the
# first column, and binary operators have spaces on both sides. Logs, counters and invariants are left out.

BEGIN {
    # What is said to people or only counted, and what the program demands of itself.
    untouched = "(^|[^a-z_])(log_[a-z_]*|invariant[a-z_]*|abort|assert|_Static_assert|histogram_[a-z_]*|" \
        "node_counts_[a-z_]*|tally_[a-z_]*|slot_observe_[a-z_]*|[a-z_]*_tell|[a-z_]*_log|" \
        "error_set[a-z_]*|findings_(error|warn)[a-z_]*|[a-z_]*format|snprintf|trouble_log|fault_[a-z_]*)[(]" \
        "|(^|[^a-z_])counters?(->|[.])|HINCRBY|INCRBY"
    untouched_function = "(^|_)(tell|log|count|counters|format|print)(_|$)"
}

FNR == 1 { if (line_count > 0) { file_end() }; line_count = 0; name = FILENAME; file_pass = pass }
{ lines[++line_count] = $0 }
END { if (line_count > 0) { file_end() } }

function file_end() {
    mask_all(name ~ /[.]lua$/)
    if (file_pass == 1) {
        enums_read()
    } else {
        enums_read()
        if (name ~ /[.]lua$/) { lua_walk() } else { c_walk() }
    }
}

# ------------------------------------------------------------------------------------------------------------- masking

function blanks(count,    text) {
    text = sprintf("%" count "s", "")
    return text
}

# masks[i] is lines[i] with comments blanked and the insides of texts turned into `s`; starts[i] is where it begins.
function mask_all(is_lua,    i, offset) {
    in_comment = 0
    offset = 0
    for (i = 1; i <= line_count; i++) {
        starts[i] = offset
        offset += length(lines[i]) + 1
        masks[i] = is_lua ? lua_mask(lines[i]) : c_mask(lines[i])
    }
}

function c_mask(text,    out, i, size, two, quote, end) {
    out = ""
    size = length(text)
    for (i = 1; i <= size; i++) {
        if (in_comment) {
            end = index(substr(text, i), "*/")
            if (end == 0) { return out blanks(size - i + 1) }
            out = out blanks(end + 1)
            i += end
            in_comment = 0
            continue
        }
        two = substr(text, i, 2)
        if (two == "/*") { in_comment = 1; i--; continue }
        if (two == "//") { return out blanks(size - i + 1) }
        quote = substr(text, i, 1)
        if (quote != "\"" && quote != "'") { out = out quote; continue }
        end = text_end(text, i, size, quote)
        out = out quote repeat("s", end - i - 1) quote
        i = end
    }
    return out
}

function lua_mask(text,    out, i, size, quote, end) {
    out = ""
    size = length(text)
    for (i = 1; i <= size; i++) {
        if (substr(text, i, 2) == "--") { return out blanks(size - i + 1) }
        quote = substr(text, i, 1)
        if (quote != "\"" && quote != "'") { out = out quote; continue }
        end = text_end(text, i, size, quote)
        out = out quote repeat("s", end - i - 1) quote
        i = end
    }
    return out
}

function text_end(text, i, size, quote,    end) {
    for (end = i + 1; end < size && substr(text, end, 1) != quote; end++) {
        if (substr(text, end, 1) == "\\") { end++ }
    }
    return end
}

function repeat(letter, count,    out) {
    out = count > 0 ? blanks(count) : ""
    gsub(/ /, letter, out)
    return out
}

# --------------------------------------------------------------------------------------------------------------- enums

# family[NAME] is its enum, and kin[enum, i] the names in it.
function enums_read(    i, text, inside, parts, count, p) {
    inside = 0
    for (i = 1; i <= line_count; i++) {
        text = masks[i]
        if (!inside && text ~ /^(typedef )?enum [a-z_]+ [{]/) {
            inside = 1
            enum_number++
            sub(/^[^{]*[{]/, "", text)
        }
        if (!inside) { continue }
        if (index(text, "}")) { inside = 0; sub(/[}].*/, "", text) }
        count = split(text, parts, ",")
        for (p = 1; p <= count; p++) {
            sub(/=.*/, "", parts[p])
            gsub(/[^A-Za-z0-9_]/, "", parts[p])
            if (parts[p] ~ /^[A-Z][A-Z0-9_]+$/ && !(parts[p] in family)) {
                family[parts[p]] = enum_number
                kin[enum_number, kin_count[enum_number]++] = parts[p]
                place_in[parts[p]] = kin_count[enum_number] - 1
            }
        }
    }
}

# ------------------------------------------------------------------------------------------------------------ emitting

function escaped(text) {
    gsub(/\\/, "&&", text)
    gsub(/\n/, "\\n", text)
    gsub(/\t/, "\\t", text)
    return text
}

function newlines(text,    rest) {
    rest = text
    return gsub(/\n/, "", rest)
}

# The mutant that has `new` for `size` bytes at `at` (from 1) of the statement. It keeps the lines' numbers.
function emit(operator, at, size, new,    old, missing, first, last) {
    old = substr(raw, at, size)
    if (old == new) { return }
    for (missing = newlines(old) - newlines(new); missing > 0; missing--) { new = new "\n" }
    first = stated + newlines(substr(raw, 1, at - 1))
    last = first + newlines(old)
    printf "%s\037%d\037%s\037%s\037%d\037%d\037%s\037%s\037%d\n", name, first, function_name, operator,
        starts[stated] + at - 1, size, escaped(old), escaped(new), last - first + 1
}

# Where what begins at `at` ends: in front of the first of `stops` (a regular expression of one character) that is not
# within brackets, or of the bracket that closes around it. With a word of `words` (" && ") before that, there.
function span_end(at, stops, words,    i, size, letter, depth, rest) {
    size = length(code)
    depth = 0
    for (i = at; i <= size; i++) {
        letter = substr(code, i, 1)
        if (letter ~ /[([{]/) {
            depth++
        } else if (letter ~ /[])}]/) {
            if (depth-- == 0) { return i }
        } else if (depth == 0) {
            if (letter ~ stops) { return i }
            if (words != "" && letter ~ /[ \n]/) {
                rest = substr(code, i, 8)
                if (match(rest, words) == 1) { return i }
            }
        }
    }
    return i
}

# ------------------------------------------------------------------------------------------------------ both languages

# Each place of the statement where `pattern` matches becomes a call of its operator.
function tokens(pattern, operator,    rest, at, size, offset) {
    rest = code
    offset = 0
    while (match(rest, pattern)) {
        at = offset + RSTART
        size = RLENGTH
        offset = at + (size > 1 ? size - 2 : 0)
        token(operator, at, size, substr(code, at, size))
        rest = substr(code, offset + 1)
    }
}

function inner(operator, at, text, new,    lead) {
    match(text, /[^ \n(,!]/)
    lead = RSTART - 1
    sub(/^[ \n(,!]+/, "", text)
    sub(/[ \n]+$/, "", text)
    emit(operator, at + lead, length(text), new)
}

function token(operator, at, size, text,    word) {
    word = text
    gsub(/[ \n]/, "", word)
    if (operator == "compare") {
        inner(operator, at, text, other_comparison[is_lua, word])
    } else if (operator == "arithmetic") {
        inner(operator, at, text, other_arithmetic[word])
    } else if (operator == "connect") {
        inner(operator, at, text, other_connection[word])
        operand_drop(at, size)
    } else if (operator == "truth") {
        truth(at, text)
    } else if (operator == "number") {
        number(at, text)
    }
}

# a && b becomes a.
function operand_drop(at, size,    end) {
    end = is_lua ? span_end(at + size, "[,;]", "^[ \n](and|or|then|do|end|else)([ \n]|$)") \
                 : span_end(at + size, "[,;?:]", "^[ \n](&&|[|][|])[ \n]")
    if (is_lua && index(substr(code, at + size, end - at - size), "\n")) { return }
    if (end > at + size) { emit("operand", at, end - at, "") }
}

function truth(at, text,    word) {
    word = text
    gsub(/[^a-z]/, "", word)
    at += index(text, word) - 1
    emit("constant", at, length(word), word == "true" ? "false" : "true")
}

function number(at, text,    digits, before, after) {
    match(text, /[0-9]+/)
    digits = substr(text, RSTART, RLENGTH)
    at += RSTART - 1
    before = substr(code, at - 3 > 0 ? at - 3 : 1, at - 3 > 0 ? 3 : at - 1)
    after = substr(code, at + length(digits), 8)
    if (length(digits) > 9 || before ~ /[{]$/ || after ~ /^ [*] [NUM]S_P/) { return }
    if (digits + 0 > 2 && (before ~ /[*\/%] $/ || after ~ /^ [*\/%]/)) {
        emit("constant", at, length(digits), digits * 2)
        emit("constant", at, length(digits), int(digits / 2))
        return
    }
    emit("off-by-one", at, length(digits), digits + 1)
    if (digits + 0 > 0) { emit("off-by-one", at, length(digits), digits - 1) }
}

# f(a, b) becomes f(b, a), where both are plain.
function arguments_swap(    at, rest, open, first, second, end, a, b, lead) {
    open = 0
    while ((at = index(substr(code, open + 1), "(")) > 0) {
        open += at
        if (substr(code, open - 1, 1) !~ /[a-z_0-9]/) { continue }
        if (substr(code, 1, open - 1) ~ /(^|[^a-z_])(if|while|for|switch|return|sizeof|function|str[n]?cmp|memcmp|instant_earlier|json_text_equal|names_equal)$/) { continue }
        first = open + 1
        while (substr(code, end = span_end(first, ","), 1) == ",") {
            second = end + 2
            a = substr(code, first, end - first)
            b = substr(code, second, span_end(second, ",") - second)
            if (match(b, /^[ \n]+/)) { second += RLENGTH; b = substr(b, RLENGTH + 1) }
            if (is_plain(a) && is_plain(b) && a != b) {
                emit("arguments", first, second + length(b) - first, \
                     b substr(code, end, second - end) a)
            }
            first = second
        }
    }
}

function is_plain(text) { return text ~ /^[&*]?[a-z_][A-Za-z0-9_.>-]*(\[[a-z0-9 +-]*\])?$/ }

# ------------------------------------------------------------------------------------------------------------------- C

function tables_make() {
    other_comparison[0, "=="] = "!="; other_comparison[0, "!="] = "=="
    other_comparison[0, "<"] = "<="; other_comparison[0, "<="] = "<"
    other_comparison[0, ">"] = ">="; other_comparison[0, ">="] = ">"
    other_comparison[1, "=="] = "~="; other_comparison[1, "~="] = "=="
    other_comparison[1, "<"] = "<="; other_comparison[1, "<="] = "<"
    other_comparison[1, ">"] = ">="; other_comparison[1, ">="] = ">"
    other_arithmetic["+"] = "-"; other_arithmetic["-"] = "+"
    other_arithmetic["*"] = "/"; other_arithmetic["/"] = "*"
    other_arithmetic["%"] = "/"; other_arithmetic["&"] = "|"; other_arithmetic["|"] = "&"
    other_arithmetic["+="] = "-="; other_arithmetic["-="] = "+="; other_arithmetic["|="] = "&="
    other_arithmetic["&="] = "|="
    other_connection["&&"] = "||"; other_connection["||"] = "&&"
    other_connection["and"] = "or"; other_connection["or"] = "and"
}

# The functions of the file, statement by statement.
function c_walk(    i) {
    tables_make()
    is_lua = 0
    signature = ""
    for (i = 1; i <= line_count; i++) {
        if (masks[i] ~ /^[a-z_].*[(]/ && masks[i] !~ /;$/) { signature = ""; open_signature = 1 }
        if (open_signature) { signature = signature masks[i] }
        if (masks[i] ~ /^[{]/) {
            open_signature = 0
            i = c_function(i + 1)
        } else if (masks[i] ~ /;$|^}/) {
            open_signature = 0
        }
    }
}

function function_of(text) {
    sub(/[(].*/, "", text)
    sub(/.*[^a-z0-9_]/, "", text)
    return text
}

# Returns the line of its closing brace.
function c_function(i,    last, e, is_bool, is_void) {
    function_name = function_of(signature)
    is_bool = signature ~ /(^|[^a-z])bool [a-z_]+[(]/
    is_void = signature ~ /(^|[^a-z])void [a-z_]+[(]/
    for (last = i; last <= line_count && masks[last] !~ /^}/; last++) {}
    if (function_name ~ untouched_function) { return last }
    falls_off = !is_void && masks[last - 1] !~ /;$/
    for (; i < last; i = e + 1) {
        if (masks[i] ~ /^[ \t]*$/ || masks[i] ~ /^ *#/) { e = i; continue }
        e = statement_take(i, last)
        if (code ~ untouched || guards_untouched(e, last)) { continue }
        c_statement(is_bool)
    }
    return last
}

# A condition that only decides about what is left out.
function guards_untouched(e, last,    next_text) {
    if (code !~ /^ *(} )?(else )?(if|for|while) [(]/ || code ~ /[{]$/) { return 0 }
    next_text = masks[e + 1]
    return next_text ~ untouched
}

# Sets code (masked) and raw to the lines from i on which the statement there stands; returns the last of them.
function statement_take(i, last,    e, depth, rest, opened, closed) {
    stated = i
    code = raw = ""
    depth = 0
    for (e = i; e < last; e++) {
        code = code (e > i ? "\n" : "") masks[e]
        raw = raw (e > i ? "\n" : "") lines[e]
        rest = masks[e]
        opened = gsub(/[([]/, "", rest)
        closed = gsub(/[])]/, "", rest)
        depth += opened - closed
        if (depth > 0) { continue }
        if (masks[e] ~ /= [{]/ || in_initialiser) {
            rest = code
            opened = gsub(/[{]/, "", rest)
            closed = gsub(/[}]/, "", rest)
            in_initialiser = opened > closed
            if (in_initialiser) { continue }
        }
        if (masks[e] ~ /[;{}:] *$/) { break }
        if (code ~ /^ *(} )?(else )?(if|for|while|switch) [(]/ || code ~ /^ *(} )?else$/ || code ~ /^ *do$/) { break }
    }
    in_initialiser = 0
    return e
}

function c_statement(is_bool,    at, end, is_case, is_declaration) {
    match(code, /[^ ]/)
    at = RSTART
    is_case = code ~ /^ *(case |default:)/
    if (is_case || code ~ /(^|\n) *\[[A-Z_]+\] = "/) { return }
    if (match(code, /^ *(} )?(else )?(if|while) [(]/)) {
        at = RSTART + RLENGTH
        end = span_end(at, ";")
        emit("negate", at, end - at, "!(" substr(raw, at, end - at) ")")
        if (code ~ /[{]$/ && code ~ /if [(]/) { emit("branch", at, end - at, "false") }
    } else if (is_bool && match(code, /^ *return /)) {
        at = RLENGTH + 1
        end = span_end(at, ";")
        if (substr(code, at, end - at) !~ /^(true|false)$/) {
            emit("negate", at, end - at, "!(" substr(raw, at, end - at) ")")
        }
    }
    c_statement_drop()
    tokens("[ ](==|!=|<=|>=|<|>)[ \n]", "compare")
    tokens("[ ](&&|[|][|])[ \n]", "connect")
    if (code !~ /^ *(const |static )*(struct|enum|union|char|void) [a-z_]* ?[*][a-z_]+( =|;)/) {
        tokens("[ ]([+]|-|[*]|/|%|&|[|]|[+]=|-=|&=|[|]=)[ \n]", "arithmetic")
    }
    tokens("[^A-Za-z0-9_](true|false)[^A-Za-z0-9_]", "truth")
    c_numbers()
    c_constants()
    c_nots()
    members_drop()
    arguments_swap()
}

function c_statement_drop(    at, size) {
    match(code, /[^ ]/)
    at = RSTART
    size = length(code) - at + 1
    # What gives memory back and what keeps threads apart is judged by the sanitizers.
    if (code ~ /^ *(free|va_end|close|pthread_mutex_lock|[a-z_]+_(fini|destroy))[(]/) { return }
    if (code !~ /;$/ || code ~ /^ *(goto|for|while|do|else) ?/) { return }
    if (code ~ /^ *return/) {
        if (at > 5 && !falls_off) { emit("exit", at, size, ";") }
    } else if (code ~ /^ *(break|continue);$/) {
        emit("exit", at, size, ";")
    } else if (code !~ /^ *(const |static |struct |enum |union |bool |char |int |unsigned |long |size_t |u?int[0-9]+_t |double |float )/ &&
        code !~ /^ *[a-z_]+ [*]*[a-z_]+(\[.*\])*( =|;)/) {
        emit("drop", at, size, ";")
    }
}

function c_numbers() {
    if (code ~ /^[^=]*\[[0-9]+\];$/) { return }
    tokens("[^A-Za-z0-9_.\"'][0-9]+[^A-Za-z0-9_.]", "number")
}

# A constant becomes its neighbour in its enum, and a unit another one.
function c_constants(    rest, offset, word, at) {
    offset = 0
    rest = code
    while (match(rest, /[A-Z][A-Z0-9_]+/)) {
        word = substr(rest, RSTART, RLENGTH)
        at = offset + RSTART
        offset += RSTART + RLENGTH - 1
        rest = substr(code, offset + 1)
        if (substr(code, at - 1, 1) ~ /[a-z0-9_]/ || substr(rest, 1, 1) ~ /[a-z]/) { continue }
        if (word ~ /^[NUM]S_PER_(S|MS)$/) {
            emit("constant", at, length(word), word ~ /_MS$/ ? substr(word, 1, 7) "S" : substr(word, 1, 7) "MS")
        } else if (word in family && kin_count[family[word]] > 1) {
            emit("constant", at, length(word), relative(word, 1))
            emit("constant", at, length(word), relative(word, kin_count[family[word]] - 1))
        }
    }
}

function relative(word, distance) {
    return kin[family[word], (place_in[word] + distance) % kin_count[family[word]]]
}

# !x becomes x, ~x becomes x.
function c_nots(    i, size, letter) {
    size = length(code)
    for (i = 2; i < size; i++) {
        letter = substr(code, i, 1)
        if (letter != "!" && letter != "~") { continue }
        if (substr(code, i - 1, 1) ~ /[ (\n)]/ && substr(code, i + 1, 1) ~ /[a-z_(]/) { emit("not", i, 1, "") }
    }
}

# {.a = b, .c = d} becomes {.a = b}.
function members_drop(    offset, rest, at, end) {
    offset = 0
    rest = code
    while (match(rest, /[{ ][.][a-z_]+ = /)) {
        at = offset + RSTART + 1
        offset += RSTART + RLENGTH - 1
        rest = substr(code, offset + 1)
        end = span_end(offset + 1, ",")
        if (substr(code, end, 1) == ",") { emit("member", at, end - at + 1, "") }
        else if (match(substr(code, 1, at - 1), /,[ \n]+$/)) { emit("member", RSTART, end - RSTART, "") }
    }
}

# ----------------------------------------------------------------------------------------------------------------- Lua

function lua_walk(    i, e, word) {
    tables_make()
    is_lua = 1
    function_name = "-"
    for (i = 1; i <= line_count; i = e + 1) {
        e = i
        if (masks[i] ~ /^ *$/) { continue }
        if (match(masks[i], /function [A-Za-z_.]+/)) {
            function_name = substr(masks[i], RSTART + 9, RLENGTH - 9)
        } else if (masks[i] ~ /^[a-z]/) {
            function_name = "-"
        }
        e = lua_statement_take(i)
        if (raw !~ untouched && masks[i] !~ /^ *(local )?function /) { lua_statement() }
    }
}

function lua_statement_take(i,    e, depth, rest, opened, closed) {
    stated = i
    code = raw = ""
    depth = 0
    for (e = i; e <= line_count; e++) {
        code = code (e > i ? "\n" : "") masks[e]
        raw = raw (e > i ? "\n" : "") lines[e]
        rest = masks[e]
        opened = gsub(/[([{]/, "", rest)
        closed = gsub(/[])}]/, "", rest)
        depth += opened - closed
        if (depth > 0 || code ~ /(,|=|[.][.]|[ \n](and|or)) *$/) { continue }
        if (masks[e + 1] ~ /^ *(and|or|[.][.]) / || masks[e + 1] ~ /^ *then *$/) { continue }
        if (code ~ /^ *(if|elseif) / && code !~ /[ \n)]then *($|[a-z])/) { continue }
        break
    }
    return e
}

function lua_statement(    at, end) {
    if (match(code, /^ *(if|elseif|while) /)) {
        at = RLENGTH + 1
        end = match(code, /[ \n](then|do) *$/)
        if (end > 0) { emit("negate", at, end - at, "not (" substr(raw, at, end - at) ")") }
    }
    lua_statement_drop()
    tokens("[ ](==|~=|<=|>=|<|>)[ \n]", "compare")
    tokens("[ \n](and|or)[ \n]", "connect")
    tokens("[ ]([+]|-|[*]|/|%)[ \n]", "arithmetic")
    tokens("[^A-Za-z0-9_](true|false)([^A-Za-z0-9_]|$)", "truth")
    tokens("[^A-Za-z0-9_.][0-9]+([^A-Za-z0-9_.]|$)", "number")
    lua_texts()
    lua_nots()
    arguments_swap()
}

function lua_statement_drop(    at) {
    match(code, /[^ ]/)
    at = RSTART
    if (code ~ /^ *(local|if|elseif|else|for|while|end|until|repeat|function|then|do)([^a-z_]|$)/) { return }
    if (code ~ /^ *return/) {
        if (at > 1 && masks[stated + newlines(code) + 1] ~ /^ *end/) { emit("exit", at, length(code) - at + 1, "") }
    } else if (code ~ /^ *break *$/) {
        emit("exit", at, length(code) - at + 1, "")
    } else if (code ~ /^ *[a-z_]/ && code !~ /[^a-z_](function|end)([^a-z_]|$)/) {
        emit("drop", at, length(code) - at + 1, "")
    }
}

# What a short text means: a flag, or which end of a list.
function lua_texts(    offset, rest, at, word) {
    offset = 0
    rest = code
    while (match(rest, /'s*'/)) {
        at = offset + RSTART
        word = substr(raw, at, RLENGTH)
        offset += RSTART + RLENGTH - 1
        rest = substr(code, offset + 1)
        if (word == "'0'") { emit("constant", at, 3, "'1'") }
        if (word == "'1'") { emit("constant", at, 3, "'0'") }
        if (word ~ /^'[LR](PUSH|POP)'$/) { emit("constant", at + 1, 1, substr(word, 2, 1) == "L" ? "R" : "L") }
        if (word == "'LEFT'") { emit("constant", at, 6, "'RIGHT'") }
        if (word == "'RIGHT'") { emit("constant", at, 7, "'LEFT'") }
        if (word == "'NX'") { emit("constant", at, 4, "'XX'") }
        if (word == "'PX'") { emit("constant", at, 4, "'EX'") }
        if (word == "'EX'") { emit("constant", at, 4, "'PX'") }
    }
}

function lua_nots(    offset, rest, at) {
    offset = 0
    rest = code
    while (match(rest, /(^|[ (])not /)) {
        at = offset + RSTART + RLENGTH - 4
        offset += RSTART + RLENGTH - 1
        rest = substr(code, offset + 1)
        emit("not", at, 4, "")
    }
}

# The figures of scripts/size that need a look into the code. Reads all files twice: what there is, and who uses it. The
# code has the format of clang-format: a function begins with "{" and ends with "}" in the first column.

function figure(name, value) { print name "\t" value }

function module_of(path) { sub(/\.[ch]$/, "", path); return path }

# The name before the first parenthesis of a declaration or definition.
function name_in(line) {
    if (!match(line, /[a-z_0-9]+\(/)) return ""
    return substr(line, RSTART, RLENGTH - 1)
}

FNR == 1 { file++; module = module_of(FILENAME); is_header = FILENAME ~ /\.h$/; head = ""; start = 0 }
FNR == 1 && NR > FNR && FILENAME == first { is_second = 1 }
NR == 1 { first = FILENAME }

# --- what there is

!is_second && /^[a-z].*\(/ && !/^(static|typedef|#)/ { head = $0 }
!is_second && /^static .*\(/ { own[module, name_in($0)] = 1 } # by the same name as somebody else's
!is_second && is_header && head != "" && /;( *\/\*.*)?$/ { declared[name_in(head)] = 1; head = "" }
!is_second && !is_header && /^{$/ { start = FNR; if (head != "") defined_in[name_in(head)] = module; head = "" }
!is_second && !is_header && /^}$/ && start { lengths[FNR - start + 1]++; functions++; start = 0 }

# --- members of structs: the declarators of what ends with ";"

!is_second && /^(typedef )?(struct|union)[ a-z_0-9]*\{$/ { is_struct = 1; members = 0; declaration = ""; next }
!is_second && is_struct && /^\}/ { large += members > 40; is_struct = 0 }
!is_second && is_struct && !/^#/ {
    line = $0
    gsub(/\/\*.*\*\//, "", line)
    if (is_comment && !sub(/^.*\*\//, "", line)) next
    is_comment = sub(/\/\*.*/, "", line)
    declaration = declaration line
    if (declaration ~ /\{ *$/ || declaration ~ /^ *\}; *$/) declaration = "" # of a struct inside, whose members count
    if (declaration !~ /; *$/) next
    while (match(declaration, /\([^()]*\)|\{[^{}]*\}/))
        declaration = substr(declaration, 1, RSTART - 1) substr(declaration, RSTART + RLENGTH)
    members += gsub(/,/, "", declaration) + 1
    declaration = ""
}

# --- who uses it

is_second && /^#include "/ {
    split($0, parts, "\"")
    header = module_of(parts[2])
    if (!((header, module) in included)) { included[header, module] = 1; includers[header] = includers[header] " " module }
}
is_second && !is_header {
    rest = $0
    while (match(rest, /[a-z_][a-z_0-9]*/)) {
        name = substr(rest, RSTART, RLENGTH)
        rest = substr(rest, RSTART + RLENGTH)
        if (!(name in declared) || !(name in defined_in) || defined_in[name] == module || (name, module) in uses) continue
        if ((module, name) in own) continue
        uses[name, module] = 1
        users[name]++
        calls[module, defined_in[name]] = 1
        node[module] = node[defined_in[name]] = 1
    }
}
is_second && FNR == 1 && is_header { headers[module] = 1 }

# --- circles

# Files from which nothing leads back are in no circle.
function trim(    pair, ends, changed, has_out, has_in, n) {
    do {
        changed = 0
        split("", has_out); split("", has_in)
        for (pair in calls) {
            split(pair, ends, SUBSEP)
            has_out[ends[1]] = has_in[ends[2]] = 1
        }
        for (pair in calls) {
            split(pair, ends, SUBSEP)
            if (!(ends[1] in has_in) || !(ends[2] in has_out)) { delete calls[pair]; changed = 1 }
        }
    } while (changed)
}

function reach(from, seen,    todo, count, at, pair, ends, other) {
    todo[1] = from; count = 1
    for (at = 1; at <= count; at++)
        for (other in node)
            if ((todo[at], other) in calls && !(other in seen)) { seen[other] = 1; todo[++count] = other }
}

function circles_print(    from, there, back, other, members, found, text, seen) {
    for (from in node) {
        if (from in found) continue
        split("", there)
        reach(from, there)
        if (!(from in there)) continue
        members = 0; text = ""
        for (other in there) {
            split("", back)
            reach(other, back)
            if (from in back) { found[other] = 1; members++; text = text " " other }
        }
        if (members > 1) { circles++; circle[circles] = text }
    }
    figure("circles", circles + 0)
    for (from = 1; from <= circles; from++) print "   " circle[from]
}

END {
    for (length_at = 1; sum * 2 < functions; length_at++) sum += lengths[length_at]
    for (longest in lengths) if (longest + 0 > most) most = longest + 0
    figure("functions", functions)
    figure("lines of the median function", length_at - 1)
    figure("lines of the longest function", most)
    for (header in headers) {
        module = short = header
        sub(/^lib\//, "", short)
        others = 0
        count = split(includers[short] " " (short != module ? includers[module] : ""), list, " ")
        for (i = 1; i <= count; i++) others += list[i] != module
        single += others == 1
        header_count++
    }
    figure("headers", header_count)
    figure("headers with one user", single + 0)
    for (name in declared) {
        if (!(name in defined_in)) continue
        public++
        lonely += users[name] == 1
    }
    figure("public functions", public)
    figure("public functions that one file calls", lonely + 0)
    figure("structs with more than 40 members", large + 0)
    trim()
    circles_print()
}

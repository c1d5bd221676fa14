# The house rules that one pass over the C files can check. Run by scripts/tidy with all files as arguments; prints
# findings as file:line: text. Plain POSIX awk, because Debian's own is mawk: no intervals, no word boundaries.

BEGIN {
    longest_line = 120; longest_file = 1000; longest_function = 70; needs_essay = 60

    # What a directory's files may include.
    may["base"] = " base "
    may["redis"] = " redis base "
    may["redlock"] = " redlock redis base "
    may["queue"] = " queue redis base "
    may["worker"] = " worker redlock queue redis base jobs "
    may["jobs"] = " jobs "
    may["plugins"] = " plugins jobs "
    may["tests"] = " tests worker redlock queue redis base jobs "

    # The directories of the worker ("." is its top): a file may include its own and earlier ones, so that no two
    # include each other. What commands and dry runs share comes before both.
    ladder = "print http config plugin task locks isolation periodic nodes events monitor presence supervisor history . servers"
    ladder = ladder " dry_run/plan dry_run/report dry_run/load dry_run/count dry_run/nodes dry_run/run commands dry_run"
    count = split(ladder, steps, " ")
    for (i = 1; i <= count; i++) { step_of[steps[i]] = i }
    # The only files that may go up: the program itself, and the check of periodic entries, which makes them.
    upward["worker/main.c"] = "worker/commands/command.h"
    upward["worker/config/config_periodic.c"] = "worker/periodic/periodic_entry.h"
    # The rules of a task include nothing of ours, so all files may use its states and endings.
    common["worker/flow.h"] = 1
    # The only command that sees a dry run, and of it only what its options are.
    starts_dry_runs = "worker/commands/command_dry_run.c"

    # The only files that may include a dependency: a later change of library stays in one place.
    home["^uv\\.h$"] = "^lib/base/loop[a-z_]*\\.[ch]$"
    home["^hiredis/"] = "^lib/redis/"
    home["^libconfig\\.h$"] = "^worker/config/config_file\\.c$"
    home["^dlfcn\\.h$"] = "^(worker/plugin/plugin_load|tests/plugins/(restless|hostile))\\.c$"
    home["^zlib\\.h$"] = "^(worker/task/deflate\\.c|tests/unit/test_(backtrace|deflate_stored)\\.c)$"
    home["^jansson\\.h$"] = "^(worker/|jobs/)"
    home["^curl/"] = "^(jobs/webhook/|tests/unit/test_webhook\\.c$)"
    home["^openssl/"] = "^(jobs/webhook/|lib/(redis/tls|queue/(digest|base64))\\.c$|tests/unit/test_(webhook_tls|tls_ends)\\.c$|tests/support/http_server\\.c$|tests/support/authority\\.c$|tests/sim/scene/tls_front\\.c$)"
    home["^sqlite3\\.h$"] = "^(jobs/|tests/unit/(test_transfer|transfer_fixture|test_fence_sqlite|test_sql)\\.[ch]$)"
    home["^lua5\\.1/"] = "^tests/sim/server/script_(host|json)\\.c$"
    home["^cmocka\\.h$"] = "^tests/support/test\\.h$"

    split("strcpy strcat sprintf vsprintf gets strtok atoi atol rand srand system popen alloca", banned, " ")
}

function finding(line, text) { print FILENAME ":" line ": " text }

function area_of(path) {
    if (path ~ /^lib\//) { sub(/^lib\//, "", path) }
    if (path ~ /^tests\/plugins\//) { return "plugins" }
    sub(/\/.*/, "", path)
    return path
}

# The line without comments, texts and characters; they are replaced by nothing, "" and ''.
function code_of(line,    code, mark, end) {
    code = ""
    while (line != "") {
        if (in_comment) {
            end = index(line, "*/")
            if (!end) { return code }
            line = substr(line, end + 2); in_comment = 0
            continue
        }
        if (!match(line, /"([^"\\]|\\.)*"|'([^'\\]|\\.)*'|\/\*|\/\//)) { return code line }
        mark = substr(line, RSTART, 2)
        code = code substr(line, 1, RSTART - 1)
        line = substr(line, RSTART + RLENGTH)
        if (mark == "//") { return code }
        if (mark == "/*") { in_comment = 1 }
        else { code = code (substr(mark, 1, 1) == "\"" ? "\"\"" : "''") }
    }
    return code
}

function directory_in_worker(path) {
    if (path !~ /^worker\//) { return "" }
    sub(/^worker\//, "", path)
    return sub(/\/[^\/]*$/, "", path) ? path : "."
}

function check_ladder(name,    from, to) {
    from = directory_in_worker(FILENAME); to = directory_in_worker(name)
    if (from == "" || to == "" || from == to || name in common) { return }
    if (!(from in step_of)) { finding(FNR, "worker/" from " has no place among the directories of the worker (scripts/tidy.awk)") }
    else if (step_of[to] + 0 == 0) { finding(FNR, name " is in no directory of the worker (scripts/tidy.awk)") }
    else if (step_of[to] > step_of[from] && upward[FILENAME] != name) {
        finding(FNR, "worker/" from " must not include " name ", which stands above it")
    }
    else if (from == "commands" && to ~ /^dry_run/ && !(FILENAME == starts_dry_runs && name ~ /plan_options\.h$/)) {
        finding(FNR, "only " starts_dry_runs " may include something of dry runs, and only their options: " name)
    }
}

function check_include(line,    quoted, name, target, pattern) {
    quoted = line ~ /"/
    name = line
    sub(/^#[ \t]*include[ \t]*[<"]/, "", name); sub(/[>"].*/, "", name)
    if (quoted) {
        target = area_of(name)
        if (name !~ /\//) { finding(FNR, "write the include with its directory: \"" name "\"") }
        else if (name ~ /^tests\/plugins\/abi_/ && area == "tests") { } # to compare it with today's
        else if (index(may[area], " " target " ") == 0) { finding(FNR, area " must not include " name) }
        check_ladder(name)
    }
    for (pattern in home) {
        if (name ~ pattern && FILENAME !~ home[pattern]) { finding(FNR, name " has its one home elsewhere (" home[pattern] ")") }
    }
    if (quoted && (FILENAME == "lib/redlock/redlock.h" || FILENAME == "jobs/job.h" || FILENAME == "jobs/fence/fence.h")) {
        finding(FNR, "this header is installed alone: it may include libc only")
    }
}

function calls(code, name) { return code ~ ("(^|[^A-Za-z0-9_.>])" name "[ ]*\\(") }

function check_code(code,    i) {
    if (code !~ /\(/) { return }
    for (i in banned) { if (calls(code, banned[i])) { finding(FNR, banned[i] "() is banned") } }
    if (area == "tests" && FILENAME !~ /private_directory/ && (calls(code, "mkdtemp") || calls(code, "mkstemp"))) {
        finding(FNR, "temporary files are made by tests/support/private_directory.h, so that they go when a test is killed")
    }
    if (area == "tests" && (calls(code, "sleep") || calls(code, "usleep"))) {
        finding(FNR, "a test waits for a condition with a deadline, it does not sleep")
    }
}

# Columns are characters: continuation bytes of UTF-8 do not count.
function check_columns(line) {
    gsub(/[\200-\277]/, "", line)
    if (length(line) > longest_line) { finding(FNR, length(line) " columns, at most " longest_line) }
}

function end_of_file() {
    if (lines > longest_file) { print file ":" lines ": " lines " lines, at most " longest_file }
    stem = file; sub(/\.[ch]$/, "", stem)
    if (essay) { explained[stem] = 1 }
    if (lines > needs_essay && file ~ /\.c$/ && file !~ /^tests\//) { long_source[stem] = 1 }
}

FNR == 1 {
    if (file != "") { end_of_file() }
    file = FILENAME; area = area_of(FILENAME); in_comment = 0; function_start = 0; essay = ($0 ~ /^\/\*/)
}
{ lines = FNR; check_columns($0) }
/^#[ \t]*include/ { check_include($0); next }
{
    code = code_of($0)
    check_code(code)
    if (code ~ /\t/) { finding(FNR, "tabulator") }
    if (code ~ /^[ ]*typedef (struct|enum|union)/ && FILENAME !~ /(^|\/)job\.h$/) { finding(FNR, "a struct goes by its own name") }
    if (code ~ /^[A-Za-z].*\(/) { heading = code; sub(/\(.*/, "", heading); sub(/.*[ *]/, "", heading) }
    # The formatter puts the braces of functions, and only these, into the first column.
    if (code ~ /^\{/) { function_start = FNR }
    if (code ~ /^\}/ && function_start) {
        if (FNR - function_start + 1 > longest_function) {
            finding(function_start, heading "() has " (FNR - function_start + 1) " lines, at most " longest_function)
        }
        function_start = 0
    }
}
END {
    if (file != "") { end_of_file() }
    # The header may have the explanation.
    for (stem in long_source) { if (!(stem in explained)) { print stem ".c:1: neither it nor its header says what it is for" } }
}

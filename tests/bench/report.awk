# Turns the results of tests/bench/run into a table or JSON. Input lines:
#   case-name NAME|ARGUMENTS|FLOOR|REACH     in the order of their indexes
#   limit ROUND CYCLES                       the yardstick; several of a round are averaged
#   case ROUND INDEX {"cycles": ..., ...}
#   hot-name NAME|ARGUMENTS|SHARE|FLOOR|REACH and hot ROUND INDEX {"cycles": ...} likewise
#   task-name NAME|TASKS|LOCKED|THREADS|YARDSTICK|FLOOR|REACH, task-limit ROUND YARDSTICK RATE and
#   task ROUND INDEX {"tasks": ...} likewise
#   latency ROUND open|locked {"rate": ...}
#   use ROUND WHICH and, a cycle or task: us of the lock nodes and of the queue node, commands, bytes, calls of all nodes
#   plain ROUND locks|tasks {...} and fan-out ROUND {...}: without the library
#   grown nodes|processes|waiting|parked COUNT {...}, with a line of use under grown-KIND-COUNT
#   parked {...} BYTES BYTES                 the memory of the queue node before and behind
#   memory BYTES BYTES                       the same of a lock node through which ten million resources have gone
#   counted NAME INSTRUCTIONS                of tests/bench/results
#   hand-over ROUND {...}, spawn ROUND {...} and away ROUND thread|process {"tasks": ...}
#   bare ROUND {...} and program ROUND {"tasks": ...}; several of a round are averaged
# A task is kept under the index of its case with a "t" before it, a hot case with an "h".

function field(text, name,    at) {
    at = index(text, "\"" name "\":")
    return at == 0 ? 0 : substr(text, at + length(name) + 3) + 0
}

function sort(values, count,    i, j, value) {
    for (i = 2; i <= count; i++) {
        value = values[i]
        for (j = i - 1; j >= 1 && values[j] > value; j--) values[j + 1] = values[j]
        values[j + 1] = value
    }
}

# The median, lowest and highest over the rounds of one figure of one case go to middle, low, high.
function spread(figure, which,    values, count, round) {
    for (round = 1; round <= rounds; round++)
        if ((figure, which, round) in data) values[++count] = data[figure, which, round]
    sort(values, count)
    middle = count % 2 ? values[(count + 1) / 2] : (values[count / 2] + values[count / 2 + 1]) / 2
    low = values[1]
    high = values[count]
}

BEGIN { cases = hots = tasks = 0; kinds["p32"]; kinds["c10"] }

$1 == "case-name" {
    split(substr($0, length($1) + 2), part, "|")
    names[cases] = part[1]; floors[cases] = part[3]; reaches[cases] = part[4]
    cases++
}

$1 == "limit" { limit_sum[$2] += $3; limit_count[$2]++ }

$1 == "case" {
    secs = field($0, "secs")
    data["cycles", $3, $2] = secs > 0 ? field($0, "cycles") / secs : 0
    data["acquire", $3, $2] = field($0, "acq_p50_us")
    data["acquire99", $3, $2] = field($0, "acq_p99_us")
    data["cpu", $3, $2] = field($0, "client_cpu_us")
    data["fails", $3, $2] = field($0, "fails")
}

$1 == "hot-name" {
    split(substr($0, length($1) + 2), part, "|")
    names["h" hots] = part[1]; shares[hots] = part[3]; floors["h" hots] = part[4]; reaches["h" hots] = part[5]
    hots++
}

$1 == "hot" {
    rate = field($0, "cycles") / field($0, "secs")
    data["cycles", "h" $3, $2] = rate
    data["ratio", "h" $3, $2] = rate * shares[$3] * field($0, "held_us") / 1e6
    data["passes", "h" $3, $2] = rate > 0 ? 1 + field($0, "fails") / field($0, "cycles") : 0
    data["held", "h" $3, $2] = field($0, "held_us")
    data["acquire", "h" $3, $2] = field($0, "acq_p50_us")
    data["acquire99", "h" $3, $2] = field($0, "acq_p99_us")
    data["cpu", "h" $3, $2] = field($0, "client_cpu_us")
}

$1 == "task-name" {
    split(substr($0, length($1) + 2), part, "|")
    names["t" tasks] = part[1]; yardsticks[tasks] = part[5]; floors["t" tasks] = part[6]; reaches["t" tasks] = part[7]
    tasks++
}

$1 == "task-limit" {
    task_limit_sum[$2, $3] += $4; task_limit_count[$2, $3]++
    if (NF > 4) data["all", "p32", $2] = $5
}

$1 == "use" {
    data["locks", $3, $2] = $4; data["queue", $3, $2] = $5
    data["commands", $3, $2] = $6; data["bytes", $3, $2] = $7; data["calls", $3, $2] = $8
}

$1 == "plain" {
    data["cycles", "plain-" $3, $2] = field($0, "per_s")
    data["cpu", "plain-" $3, $2] = field($0, "client_cpu_us")
}

$1 == "fan-out" { data["acquire", "fan-out", $2] = field($0, "acq_p50_us"); data["acquire99", "fan-out", $2] = field($0, "acq_p99_us") }

$1 == "grown" {
    grown[++growths] = "grown-" $2 "-" $3
    data["cycles", grown[growths], 1] = field($0, "tasks_per_s") + field($0, "cycles") / (field($0, "secs") + !field($0, "secs"))
    data["cpu", grown[growths], 1] = field($0, "client_cpu_us") + field($0, "cpu_us_per_task")
    node_count[grown[growths]] = $2 == "nodes" ? $3 : 5
}

$1 == "memory" { memory = ($3 - $2) / 1048576 }

$1 == "parked" { parked_bytes = ($NF - $(NF - 1)) / field($0, "parked") }

$1 == "counted" { counted[$2] = $3 }

$1 == "latency" {
    data["start", $3, $2] = field($0, "start_p50_us")
    data["bare", $3, $2] = field($0, "bare_fetch_p50_us")
    data["ratio", $3, $2] = field($0, "p50_to_bare_fetch")
}

$1 == "hand-over" {
    data["one", "hand-over", $2] = field($0, "cpu_us_one_at_a_time")
    data["all", "hand-over", $2] = field($0, "cpu_us_all_at_once")
}

$1 == "spawn" {
    data["spawn", "program", $2] = field($0, "posix_spawn_us")
    data["spawn-ratio", "program", $2] = field($0, "ratio")
    data["run-ratio", "program", $2] = field($0, "exec_ratio")
}

$1 == "bare" { bare_sum[$2] += field($0, "bare_task_us"); bare_count[$2]++ }

$1 == "program" { task_sum[$2] += 1e6 / field($0, "tasks_per_s"); task_count[$2]++ }

$1 == "away" { data["cycles", $3, $2] = field($0, "tasks_per_s") }

$1 == "task" {
    data["cycles", "t" $3, $2] = field($0, "tasks_per_s")
    data["acquire", "t" $3, $2] = field($0, "lock_p50_us")
    data["acquire99", "t" $3, $2] = field($0, "lock_p99_us")
    data["cpu", "t" $3, $2] = field($0, "cpu_us_per_task")
}

function verdict(which) {
    if (floors[which] == "") return ""
    spread("ratio", which)
    return middle >= reaches[which] ? "reached" : middle >= floors[which] ? "between" : "TOO LOW"
}

function row(which) {
    spread("cycles", which)
    printf "%-38s %7.0f (%6.0f-%6.0f)  ", names[which], middle, low, high
    spread("ratio", which)
    printf "%6.3f (%.3f-%.3f)  %5s %5s  %-8s ", middle, low, high, floors[which], reaches[which], verdict(which)
    spread("acquire", which)
    printf "%5.0f ", middle
    spread("acquire99", which)
    printf "%7.0f  ", middle
    spread("cpu", which)
    printf "%6.1f ", middle
}

function latency_line(which, text) {
    spread("start", which)
    printf "%-38s %7.0f us (%.0f-%.0f)", text, middle, low, high
    spread("bare", which)
    printf ", a bare fetch %.0f us (%.0f-%.0f)", middle, low, high
    spread("ratio", which)
    printf ": %.1f times (%.1f-%.1f)\n", middle, low, high
}

function task_table(    which) {
    spread("cycles", "limit-p32")
    printf "\nredis-benchmark on the queue node, fetch and acknowledge: 32 in flight (p32) %.0f/s (%.0f to %.0f)", middle, low, high
    spread("cycles", "limit-c10")
    printf ",\n10 clients that wait (c10) %.0f/s (%.0f to %.0f)\n\n", middle, low, high
    printf "%-38s %23s  %20s  %5s %5s  %-8s %13s  %6s\n", "whole tasks", "tasks/s (low to high)",
        "share of p32 or c10", "floor", "reach", "", "lock us", "CPU us"
    for (which = 0; which < tasks; which++) {
        row("t" which)
        print " " yardsticks[which]
    }
    print "\nfrom a push to the start of its handler at 200 tasks/s, p50"
    latency_line("open", "without a lock")
    latency_line("locked", "under a lock on 5 nodes")
}

function away_ratios(    round) {
    for (round = 1; round <= rounds; round++) {
        data["ratio", "process", round] = data["cycles", "process", round] / data["cycles", "thread", round]
        data["bare", "program", round] = bare_sum[round] / bare_count[round]
        data["task", "program", round] = task_sum[round] / task_count[round]
        data["task-ratio", "program", round] = data["task", "program", round] / data["bare", "program", round]
    }
}

function print_figure(name, which, format) {
    spread(name, which)
    printf format, middle, low, high
}

function handler_table() {
    print "\nwhere handlers run, tasks that do nothing"
    print_figure("one", "hand-over", "hand-over to a thread and back          %.1f us of CPU (%.1f-%.1f) one at a time,")
    print_figure("all", "hand-over", " %.1f (%.1f-%.1f) four at once; wanted 10\n")
    print_figure("cycles", "thread", "4 threads                          %7.0f tasks/s (%.0f-%.0f)\n")
    print_figure("cycles", "process", "4 processes                        %7.0f tasks/s (%.0f-%.0f); wanted 15000;")
    print_figure("ratio", "process", " %.2f of threads (%.2f-%.2f)\n")
    print_figure("spawn-ratio", "program", "start and end of a program         %7.2f times (%.2f-%.2f) posix_spawn and wait,")
    print_figure("spawn", "program", " %.0f us (%.0f-%.0f), in turns;\n")
    print_figure("run-ratio", "program", "the same as a handler, per spawn   %7.2f times (%.2f-%.2f); wanted 1.3\n")
    print_figure("task-ratio", "program", "the whole task                     %7.2f times (%.2f-%.2f) LMOVE, posix_spawn, wait, RPOP,")
    print_figure("bare", "program", " %.0f us (%.0f-%.0f);")
    print_figure("task", "program", " %.0f us (%.0f-%.0f); wanted 1.3\n")
}

function hot_table(    which) {
    printf "\n%-38s %23s  %20s  %5s %5s  %-8s %13s  %6s %6s %7s\n", "held for 1 ms",
        "holds/s (low to high)", "share of 1 / hold", "floor", "reach", "", "wait us", "CPU us", "passes", "held us"
    for (which = 0; which < hots; which++) {
        row("h" which)
        spread("passes", "h" which)
        printf "%6.2f ", high
        spread("held", "h" which)
        printf "%7.0f\n", middle
    }
}

# The ratio of one figure of two cases, in each round.
function share(name, figure, which, other_figure, other,    round) {
    for (round = 1; round <= rounds; round++)
        if (data[other_figure, other, round] > 0)
            data["share", name, round] = data[figure, which, round] / data[other_figure, other, round]
    spread("share", name)
}

function use_row(text, which,    i, figure, count) {
    printf "%-38s", text
    count = split("cpu queue locks all calls commands bytes", figure, " ")
    for (i = 1; i <= count; i++) {
        spread(figure[i], which)
        printf " %9.1f", middle
    }
    print ""
}

# `wanted` is the least when it begins with ">", else the most.
function goal_row(text, wanted,    is_reached) {
    is_reached = substr(wanted, 1, 1) == ">" ? middle >= substr(wanted, 2) + 0 : middle <= substr(wanted, 2) + 0
    missed += !is_reached
    printf "%-74s %6.2f (%.2f-%.2f)  %6s  %s\n", text, middle, low, high, wanted, is_reached ? "reached" : "missed"
}

function goal(text, wanted, figure, which, other_figure, other) {
    share(text, figure, which, other_figure, other)
    goal_row(text, wanted)
}

function goal_counted(text, wanted, ours, plain) {
    if (counted[plain] == 0) return
    middle = low = high = counted[ours] / counted[plain]
    goal_row(text, wanted)
}

function goals_table(    round, which, kinds, i) {
    split("2 6 plain-locks t0 t1 plain-tasks", kinds, " ")
    for (round = 1; round <= rounds; round++)
        for (i = 1; i in kinds; i++) {
            which = kinds[i]
            data["all", which, round] = data["cpu", which, round] + data["queue", which, round] + data["locks", which, round]
        }
    printf "\n%-38s %9s %9s %9s %9s %9s %9s %9s\n", "a cycle or task: us of processor time", "client", "queue", "locks", "all",
        "calls", "commands", "bytes"
    use_row("lock cycle, 64 users", "2")
    use_row("the same, no tokens", "6")
    use_row("the same, plain lock", "plain-locks")
    use_row("locked task, 50 threads", "t0")
    use_row("the same, plain lock", "plain-tasks")
    use_row("task without a lock, 50 threads", "t1")
    print "calls: reads and writes of the nodes; commands include those of scripts; tasks are pushed in the same measure"

    printf "\n%-74s %21s  %6s\n", "goals", "median (low-high)", "goal"
    goal_counted("instructions of a lock node as recorded, 32 a call, times plain", "<1.15", "lock_node_32", "lock_node_32_plain")
    goal_counted("the same, alone in its call", "<2", "lock_node_alone", "lock_node_alone_plain")
    goal("processor time of a locked task, all processes, times the plain lock", "<1.25", "all", "t0", "all", "plain-tasks")
    goal("queue node: a locked task, times one without a lock", "<1.3", "queue", "t0", "queue", "t1")
    spread("cpu", "t0")
    goal_row("worker: us of processor time of a locked task", "<20")
    goal("task without a lock, all processes, times LMOVE and RPOP (p32): time", "<1.15", "all", "t1", "all", "p32")
    goal("the same: rate", ">1.1", "cycles", "t1", "cycles", "limit-p32")
    goal("locked tasks, 50 threads, share of the rate of the plain lock", ">0.8", "cycles", "t0", "cycles", "plain-tasks")
    spread("ratio", 5); goal_row("64 threads, release awaited, share of P32c1", ">0.5")
    spread("ratio", 4); goal_row("64 threads, in the background, share of P32c1", ">0.65")
    spread("ratio", 2); goal_row("lock cycles of 64 users, share of P32c1", ">0.95")
    spread("ratio", 6); goal_row("the same without tokens", ">1.1")
    goal("one resource, 64 users, share of what bare SETs reach", ">0.98", "ratio", "h2", "ratio", "h0")
    goal("the same, tasks of two worker processes", ">0.95", "ratio", "h5", "ratio", "h0")
    goal("one user: p50 of acquire, times SETs to all nodes at once", "<1.2", "acquire", 0, "acquire", "fan-out")
    goal("the same: p99", "<1.2", "acquire99", 0, "acquire99", "fan-out")
    if (memory > 0) {
        middle = low = high = memory
        goal_row("MiB of a lock node through which ten million resources have gone", "<64")
    }
    goal("push to start at 200/s: p50 under a lock, times without", "<1.3", "start", "locked", "start", "open")
    if (missed > 0) print "what limits a goal that is missed: docs/decisions.md, What was measured"
}

function growth_table(    i, which, part) {
    if (growths == 0) return
    printf "\n%-38s %9s %9s %9s %9s\n", "growth, measured once", "a second", "client us", "queue us", "lock us"
    for (i = 1; i <= growths; i++) {
        which = grown[i]
        split(which, part, "-")
        printf "%-38s %9.0f %9.1f %9.1f %9.1f\n", sprintf("%s: %d", part[2], part[3]), data["cycles", which, 1],
            data["cpu", which, 1], data["queue", which, 1], data["locks", which, 1] / node_count[which]
    }
    print "nodes: lock cycles of 64 users; processes, parked: locked tasks; waiting: tasks without a lock, with their push;"
    printf "lock us: of one lock node; a parked task takes %.0f bytes of the queue node, 233 of which are its text\n", parked_bytes
}

function table(    which) {
    spread("cycles", "limit")
    printf "redis-benchmark on 5 nodes, 32 in flight on one connection each (P32c1): %.0f cycles/s (%.0f to %.0f)\n\n",
        middle, low, high
    printf "%-38s %23s  %20s  %5s %5s  %-8s %13s  %6s %5s\n", "lock cycles over 5 nodes", "cycles/s (low to high)",
        "share of P32c1", "floor", "reach", "", "acquire us", "CPU us", "fails"
    for (which = 0; which < cases; which++) {
        row(which)
        spread("fails", which)
        printf "%5.0f\n", high
    }
    hot_table()
    task_table()
    handler_table()
    goals_table()
    growth_table()
    printf "\nMedians of %d round%s with the lowest and highest; acquire: p50 and p99; CPU: of the client, a cycle or task.\n",
        rounds, rounds == 1 ? "" : "s"
}

function json_spread(figure, which) {
    spread(figure, which)
    return sprintf("{\"median\": %.4f, \"low\": %.4f, \"high\": %.4f}", middle, low, high)
}

function json_case(which, rate) {
    return sprintf("  {\"name\": \"%s\", \"%s\": %s, \"share\": %s, \"floor\": %s, \"reach\": %s, " \
                   "\"acq_p50_us\": %s, \"acq_p99_us\": %s, \"client_cpu_us\": %s}",
        names[which], rate, json_spread("cycles", which), json_spread("ratio", which),
        floors[which] == "" ? "null" : floors[which], reaches[which] == "" ? "null" : reaches[which],
        json_spread("acquire", which), json_spread("acquire99", which), json_spread("cpu", which))
}

function print_json(    which) {
    printf "{\"rounds\": %d,\n \"p32c1\": %s,\n \"cases\": [", rounds, json_spread("cycles", "limit")
    for (which = 0; which < cases; which++)
        printf "%s\n%s", which ? "," : "", json_case(which, "cycles_per_s")
    printf "\n ],\n \"hot\": ["
    for (which = 0; which < hots; which++)
        printf "%s\n%s", which ? "," : "", json_case("h" which, "holds_per_s")
    printf "\n ],\n \"fetch_and_acknowledge\": {\"p32\": %s, \"c10\": %s},\n \"tasks\": [",
        json_spread("cycles", "limit-p32"), json_spread("cycles", "limit-c10")
    for (which = 0; which < tasks; which++)
        printf "%s\n%s", which ? "," : "", json_case("t" which, "tasks_per_s")
    printf "\n ],\n \"push_to_start_p50_us\": {\"open\": %s, \"locked\": %s},\n", json_spread("start", "open"),
        json_spread("start", "locked")
    printf " \"times_a_bare_fetch\": {\"open\": %s, \"locked\": %s},\n", json_spread("ratio", "open"),
        json_spread("ratio", "locked")
    printf " \"hand_over_cpu_us\": {\"one_at_a_time\": %s, \"four_at_once\": %s},\n", json_spread("one", "hand-over"),
        json_spread("all", "hand-over")
    printf " \"tasks_per_s_at_4\": {\"threads\": %s, \"processes\": %s},\n", json_spread("cycles", "thread"),
        json_spread("cycles", "process")
    printf " \"program\": {\"posix_spawn_us\": %s, \"spawn_times\": %s, \"run_times\": %s,\n", json_spread("spawn", "program"),
        json_spread("spawn-ratio", "program"), json_spread("run-ratio", "program")
    printf "  \"task_us\": %s, \"bare_task_us\": %s, \"task_times\": %s}}\n", json_spread("task", "program"),
        json_spread("bare", "program"), json_spread("task-ratio", "program")
}

END {
    for (round = 1; round <= rounds; round++) {
        limit = limit_sum[round] / limit_count[round]
        data["cycles", "limit", round] = limit
        for (which = 0; which < cases; which++) data["ratio", which, round] = data["cycles", which, round] / limit
        for (kind in kinds) data["cycles", "limit-" kind, round] = task_limit_sum[round, kind] / task_limit_count[round, kind]
        for (which = 0; which < tasks; which++)
            data["ratio", "t" which, round] = data["cycles", "t" which, round] / data["cycles", "limit-" yardsticks[which], round]
    }
    away_ratios()
    if (json == "yes") print_json()
    else table()
}

# usage: count.sh HOLDFAST FILE TIMES: adds 1 to the number in FILE, each time under the lock "counter". Needs bash.
set -eu
for ((i = 0; i < $3; i++)); do
    coproc lock { "$1" lock counter --hold; }
    process=$lock_PID
    read -r told <&"${lock[0]}"
    [[ $told == '{"event":"held"'* ]]
    number=$(<"$2")
    echo $((number + 1)) >"$2"
    eval "exec ${lock[1]}>&-"
    wait "$process"
done

# Compares a ledger with its input, by another way than the handlers': adds the transfers up, one after the other.
#
# Reads the ledger ("account NAME BALANCE" and "done JID" lines) from the first file and the tasks, as JSON lines, from
# the second. opening: the balance that every account began with. Prints one line:
#   ACCOUNTS WRONG_ACCOUNTS MONEY_ASTRAY TRANSFERS APPLIED FOREIGN EXPECTED_TOTAL TOTAL
# MONEY_ASTRAY is the sum of what the accounts are off, FOREIGN counts jids that are not in the input.
FILENAME == ARGV[1] && $1 == "account" { balance[$2] = $3; total += $3; next }
FILENAME == ARGV[1] { done[$2] = 1; next }
{
    split($0, quoted, "\"")
    split(quoted[11], after, /[],]/) # ,AMOUNT] or ,AMOUNT,THINK_US]
    wanted[quoted[8]] -= after[2]
    wanted[quoted[10]] += after[2]
    transfers++
    jid = quoted[14]
    if (jid in done) { applied++; delete done[jid] }
}
END {
    for (name in wanted) {
        accounts++
        expected += opening + wanted[name]
        off = balance[name] - (opening + wanted[name])
        if (!(name in balance) || off != 0) wrong++
        astray += off < 0 ? -off : off
    }
    for (name in balance) if (!(name in wanted)) wrong++
    for (jid in done) foreign++
    print accounts + 0, wrong + 0, astray + 0, transfers + 0, applied + 0, foreign + 0, expected + 0, total + 0
}

# usage: count.py HOLDFAST FILE TIMES: adds 1 to the number in FILE, each time under the lock "counter".
import json, subprocess, sys

holdfast, path, times = sys.argv[1], sys.argv[2], int(sys.argv[3])
for _ in range(times):
    lock = subprocess.Popen([holdfast, "lock", "counter", "--hold"], stdin=subprocess.PIPE, stdout=subprocess.PIPE)
    if json.loads(lock.stdout.readline())["event"] != "held":
        sys.exit("not held")
    with open(path) as file:
        number = int(file.read())
    with open(path, "w") as file:
        file.write(str(number + 1))
    lock.stdin.close()
    if lock.wait() != 0:
        sys.exit("not released")

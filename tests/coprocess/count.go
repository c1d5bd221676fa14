// usage: count HOLDFAST FILE TIMES: adds 1 to the number in FILE, each time under the lock "counter".
package main

import (
	"bufio"
	"encoding/json"
	"log"
	"os"
	"os/exec"
	"strconv"
	"strings"
)

func must(err error) {
	if err != nil {
		log.Fatal(err)
	}
}

func add(holdfast, path string) {
	lock := exec.Command(holdfast, "lock", "counter", "--hold")
	input, err := lock.StdinPipe()
	must(err)
	output, err := lock.StdoutPipe()
	must(err)
	must(lock.Start())
	line, err := bufio.NewReader(output).ReadString('\n')
	must(err)
	var told struct{ Event string }
	must(json.Unmarshal([]byte(line), &told))
	if told.Event != "held" {
		log.Fatal("not held")
	}
	text, err := os.ReadFile(path)
	must(err)
	number, err := strconv.Atoi(strings.TrimSpace(string(text)))
	must(err)
	must(os.WriteFile(path, []byte(strconv.Itoa(number+1)), 0o644))
	input.Close()
	must(lock.Wait())
}

func main() {
	times, err := strconv.Atoi(os.Args[3])
	must(err)
	for i := 0; i < times; i++ {
		add(os.Args[1], os.Args[2])
	}
}

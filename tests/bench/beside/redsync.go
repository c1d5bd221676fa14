// Users of redsync, with its delays by default. Arguments as of beside-bench.
package main

import (
	"fmt"
	"math/rand"
	"os"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/go-redsync/redsync/v4"
	redsyncredis "github.com/go-redsync/redsync/v4/redis"
	"github.com/go-redsync/redsync/v4/redis/redigo"
	"github.com/gomodule/redigo/redis"
)

func number(text string) int {
	value, _ := strconv.Atoi(strings.TrimSpace(text))
	return value
}

func main() {
	var pools []redsyncredis.Pool
	for _, port := range strings.Split(os.Args[1], ",") {
		address := "127.0.0.1:" + port
		pools = append(pools, redigo.NewPool(&redis.Pool{MaxIdle: 16, Dial: func() (redis.Conn, error) {
			return redis.Dial("tcp", address)
		}}))
	}
	file, users, hold, rest := os.Args[2], number(os.Args[4]), number(os.Args[5]), number(os.Args[6])
	end := time.Now().Add(time.Duration(number(os.Args[3])) * time.Second)
	locks, holds, longest := redsync.New(pools...), 0, time.Duration(0)
	var all sync.WaitGroup
	for i := 0; i < users; i++ {
		all.Add(1)
		go func() {
			defer all.Done()
			for time.Now().Before(end) {
				mutex, asked := locks.NewMutex("lock:beside", redsync.WithTries(100000)), time.Now()
				if mutex.Lock() != nil {
					os.Exit(1)
				}
				if waited := time.Since(asked); waited > longest { // under the lock, as all below
					longest = waited
				}
				text, _ := os.ReadFile(file)
				time.Sleep(time.Duration(hold) * time.Millisecond)
				os.WriteFile(file, []byte(fmt.Sprintln(number(string(text))+1)), 0o644)
				holds++
				mutex.Unlock()
				time.Sleep(time.Duration(rand.Intn(rest*1000+1)) * time.Microsecond)
			}
		}()
	}
	all.Wait()
	fmt.Println(holds, longest.Milliseconds())
}

# usage: count.rb HOLDFAST FILE TIMES: adds 1 to the number in FILE, each time under the lock "counter".
require "json"

holdfast, path, times = ARGV
Integer(times).times do
  lock = IO.popen([holdfast, "lock", "counter", "--hold"], "r+")
  abort "not held" unless JSON.parse(lock.gets)["event"] == "held"
  File.write(path, (Integer(File.read(path)) + 1).to_s)
  lock.close_write
  lock.read
  lock.close
  abort "not released" unless $?.success?
end

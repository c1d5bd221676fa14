// usage: count.js HOLDFAST FILE TIMES: adds 1 to the number in FILE, each time under the lock "counter".
const { spawn } = require("child_process");
const fs = require("fs");
const readline = require("readline");

const [holdfast, path, times] = process.argv.slice(2);

function add() {
  return new Promise((resolve, reject) => {
    const lock = spawn(holdfast, ["lock", "counter", "--hold"], { stdio: ["pipe", "pipe", "inherit"] });
    readline.createInterface({ input: lock.stdout }).once("line", (line) => {
      if (JSON.parse(line).event !== "held") reject(new Error("not held"));
      fs.writeFileSync(path, String(Number(fs.readFileSync(path)) + 1));
      lock.stdin.end();
    });
    lock.on("exit", (code) => (code === 0 ? resolve() : reject(new Error("not released"))));
  });
}

(async () => {
  for (let i = 0; i < Number(times); i++) await add();
})();

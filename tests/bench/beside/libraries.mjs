// Users of redlock (node-redlock) or redlock-universal, with its delays by default. Arguments: the library, then as of
// beside-bench. NODE_MODULES names the directory with both and ioredis.
import fs from "node:fs";
import { createRequire } from "node:module";
import { setTimeout as sleep } from "node:timers/promises";

const require = createRequire(process.env.NODE_MODULES + "/");
const Redis = require("ioredis").default ?? require("ioredis");
const [library, ports, file, seconds, users, hold, rest] = process.argv.slice(2);
const end = performance.now() + Number(seconds) * 1000, TTL = 8000, key = "lock:beside";
const nodes = ports.split(",").map((port) => new Redis({ port: Number(port) }));

async function takerOf() {
    if (library === "redlock") {
        const redlock = new (require("redlock").default)(nodes, { retryCount: -1 });
        return async () => {
            const lock = await redlock.acquire([key], TTL);
            return () => lock.release();
        };
    }
    const { createRedlock, IoredisAdapter } = require("redlock-universal");
    const lock = createRedlock({ adapters: nodes.map((node) => new IoredisAdapter(node)), key, ttl: TTL,
        retryAttempts: 100000 });
    return async () => {
        const handle = await lock.acquire();
        return () => lock.release(handle);
    };
}

async function use(take) {
    let holds = 0, longest = 0;
    while (performance.now() < end) {
        const asked = performance.now(), release = await take();
        longest = Math.max(longest, performance.now() - asked);
        const number = Number(fs.readFileSync(file, "utf8"));
        await sleep(Number(hold));
        fs.writeFileSync(file, `${number + 1}\n`);
        holds++;
        await release();
        await sleep(Math.random() * Number(rest));
    }
    return { holds, longest };
}

const take = await takerOf();
const results = await Promise.all(Array.from({ length: Number(users) }, () => use(take)));
console.log(results.reduce((sum, r) => sum + r.holds, 0), Math.round(Math.max(...results.map((r) => r.longest))));
process.exit(0);

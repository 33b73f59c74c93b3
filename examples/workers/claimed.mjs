// A worker of one queue, written from docs/worker-protocol.md: runs commands, in Node 20 or newer.
//   node claimed.mjs SERVER QUEUE [TASKS_AT_ONCE] [DRAIN_SECONDS]
import { fork, spawn } from "node:child_process";
import { randomUUID } from "node:crypto";
import { once } from "node:events";
import fs from "node:fs";
import os from "node:os";
import { setTimeout as sleep } from "node:timers/promises";

const [server, queue, room = "4", drainSeconds = "30"] = process.argv.slice(2);
const worker_id = `node-${randomUUID()}`;
const held = new Map(); // attempts, until their completion is answered
const guard = fork(new URL("guard.mjs", import.meta.url), { detached: true });
let stopsAt = Infinity; // when a drain is over

// Seconds, by a clock that also runs while the machine sleeps.
const now = () => Number(fs.readFileSync("/proc/uptime", "latin1").split(" ")[0]);
const keyOf = ({ task_id, attempt }) => `${task_id} ${attempt}`;
const complain = (error) => console.error(error.message);
const isDraining = () => stopsAt < Infinity;
const drain = () => (stopsAt = now() + (isDraining() ? 0 : Number(drainSeconds))); // twice: at once
// Has the guard signal a command, and kill it when its lease or the time to stop is over.
const tellGuard = ({ pid, killAt, endsAt }, name) =>
  pid && guard.send([pid, Math.min(killAt, endsAt), name]);

// Sends a request, and the same again while the server may answer later and it is wanted.
async function call(route, body, isWanted = () => true, secondsMax = 15) {
  for (let pause = 50; ; pause = Math.min(pause * 2, 2000)) {
    const sentAt = now();
    try {
      const headers = { "Content-Type": "application/json" };
      const [text, signal] = [JSON.stringify(body), AbortSignal.timeout(secondsMax * 1000)];
      const response = await fetch(server + route, { method: "POST", headers, body: text, signal });
      const answer = await response.json();
      if (response.ok) return { ...answer, sentAt };
      const { code, message } = answer.error;
      throw Object.assign(new Error(message), { code, status: response.status });
    } catch (error) {
      if ((error.status < 500 && error.status !== 429) || !isWanted()) throw error;
    }
    await sleep(pause);
  }
}

function renew(mine, sentAt, remainingMs) {
  const margin = Math.min(5, mine.job.lease / 6); // its command must be gone before its lease
  mine.endsAt = Math.max(mine.endsAt, sentAt + remainingMs / 1000 - margin);
  mine.renewAt = sentAt + remainingMs / 2000;
  tellGuard(mine);
}

// Soft: it has so many seconds. Hard, leaving, lost: it has none.
function stop(mine, why, seconds = 0) {
  if (mine.stop && (mine.stop !== "soft" || why === "soft")) return;
  Object.assign(mine, { stop: why, killAt: now() + seconds });
  tellGuard(mine, why === "soft" ? "SIGTERM" : "SIGKILL");
}

async function run({ task_id, attempt, lease_token, lease_remaining_ms, job, input }, from) {
  const lease = { task_id, attempt, lease_token };
  const mine = { lease, job, input, endsAt: 0, killAt: 1e12, size: 0 };
  held.set(keyOf(lease), mine);
  renew(mine, from, lease_remaining_ms);
  const broken = (error) => ({ status: "worker_failed", error: String(error) });
  const end = isDraining() ? { status: "handed_back" } : await execute(mine).catch(broken);
  if (mine.folder) fs.rmSync(mine.folder, { recursive: true, force: true });
  // What is refused here is a lease_conflict: nobody waits for this end any more.
  const isMine = mine.stop !== "lost";
  if (isMine) await call("/internal/task-complete", { ...lease, ...end }).catch(complain);
  held.delete(keyOf(lease));
}

async function execute(mine) {
  const { command, shell } = mine.job.entrypoint;
  const unfit = { status: "failed", error_class: "PermanentError", stage: "fetch" };
  if (!command && !shell) return { ...unfit, error: "this worker runs commands, no Python" };
  const [program, ...args] = command ?? ["/bin/sh", "-c", shell];
  mine.folder = fs.mkdtempSync(`${os.tmpdir()}/holdfast-`);
  const options = { env: variables(mine), cwd: `${mine.folder}/work`, detached: true };
  fs.mkdirSync(options.cwd);
  const child = spawn(program, args, { ...options, stdio: ["ignore", "pipe", "pipe"] });
  const ended = once(child, "exit");
  if (!child.pid) return { ...unfit, error: await ended.catch(String) };
  mine.pid = child.pid;
  tellGuard(mine);
  mine.renewAt = 0; // for the server: it runs
  const output = Promise.all([ship(mine, child.stdout), ship(mine, child.stderr)]).catch(complain);
  const [code, signal] = await ended;
  if (now() >= mine.endsAt) stop(mine, "lost"); // the guard may have killed it
  const why = mine.stop;
  guard.send([mine.pid, 0, "SIGKILL"]); // what it has left behind
  mine.pid = undefined;
  await Promise.race([output, sleep(5000)]); // a daemon may keep its output open
  const exit_code = code ?? 128 + os.constants.signals[signal];
  const error = signal ? `ended by ${signal}` : `exit code ${code}`;
  if (why === "leaving") return { status: "handed_back" };
  if (exit_code === 0 && why !== "hard") return { status: "succeeded", exit_code };
  return { status: why ? "killed" : "failed", exit_code, error };
}

function variables({ lease, job, input, folder }) {
  const { job_id, num_tasks, correlation_id } = job;
  const [task_index, input_file] = [lease.task_id.split(".")[1], `${folder}/input.json`];
  const text = JSON.stringify(input ?? null);
  fs.writeFileSync(input_file, text);
  const ours = { server, job_id, ...lease, task_index, num_tasks, correlation_id, input_file };
  if (job.fan_out && Buffer.byteLength(text) <= 100_000) ours.input = text;
  const env = { ...process.env, ...job.environment };
  for (const name of Object.keys(ours)) env[`HOLDFAST_${name.toUpperCase()}`] = ours[name];
  return env;
}

async function ship(mine, stream) {
  for await (const text of stream.setEncoding("utf8")) {
    const [bytes, offset] = [Buffer.from(text), mine.size];
    mine.size += bytes.length;
    const piece = { ...mine.lease, offset, content: bytes.toString("base64") };
    await call("/internal/task-log", piece, () => mine.stop !== "lost").catch((error) => {
      if (error.code === "lease_conflict") stop(mine, "lost");
    });
  }
}

async function renewDue() {
  const due = [...held.values()].filter((mine) => mine.stop !== "lost" && now() >= mine.renewAt);
  if (!due.length) return;
  const leases = due.map((mine) => ({ ...mine.lease, state: mine.pid ? "RUNNING" : null }));
  const answer = await call("/internal/heartbeat", { worker_id, leases }, () => false, 5);
  answer.leases.forEach(({ error, lease_remaining_ms }, index) => {
    if (!error) renew(due[index], answer.sentAt, lease_remaining_ms);
    else if (error.code === "lease_conflict") stop(due[index], "lost");
  });
  obey(answer);
}

function obey(answer) {
  for (const { mode, remaining_ms = 0, ...attempt } of answer.cancel) {
    const mine = held.get(keyOf(attempt));
    if (mine) stop(mine, mode, remaining_ms / 1000);
  }
  if (answer.drain && !isDraining()) drain();
}

async function forever(step) {
  for (;;) {
    const isWell = await step().then(() => true, complain);
    await sleep(isWell && !isDraining() ? 50 : 500); // who drains is answered without a wait
  }
}

process.on("SIGTERM", drain).on("SIGINT", drain);
guard.on("error", complain).on("exit", () => {
  for (const { pid } of held.values()) if (pid) process.kill(-pid, "SIGKILL");
  process.exit(1); // without it, nothing may run
});
const worker = { worker_id, name: "node", host: os.hostname(), queues: [queue] };
await call("/internal/worker-register", worker);
forever(renewDue);
const waiting = { worker_id, leases: [], wait_ms: 20_000 };
forever(() => call("/internal/heartbeat", waiting, () => false, 30).then(obey));
while (!isDraining()) {
  await sleep(held.size < Number(room) ? 0 : 50);
  const max_tasks = Number(room) - held.size;
  if (max_tasks < 1) continue;
  const wanted = { queues: [queue], max_tasks, wait_ms: 2000, idempotency_key: randomUUID() };
  const answer = await call("/internal/task-claim", { worker_id, ...wanted });
  for (const task of answer.claims) run(task, answer.sentAt + answer.waited_ms / 1000);
}
while (held.size && now() < stopsAt + 20) {
  await sleep(50);
  if (now() >= stopsAt) for (const mine of held.values()) stop(mine, "leaving");
}
process.exit();

// A worker of placed work, from docs/worker-protocol.md: runs commands, in Node 20 or newer.
//   node placed.mjs SERVER [CORES] [DRAIN_SECONDS]
import { fork, spawn } from "node:child_process";
import { createHash, randomBytes, randomUUID } from "node:crypto";
import { once } from "node:events";
import fs from "node:fs";
import http from "node:http";
import os from "node:os";
import { json } from "node:stream/consumers";
import { setTimeout as sleep } from "node:timers/promises";

const [server, cores = "1", drainSeconds = "30"] = process.argv.slice(2);
const [worker_id, secret] = [`node-${randomUUID()}`, randomBytes(24).toString("hex")];
const credential = `${worker_id} ${secret}`; // by which servers know it
const callSecret = createHash("sha256").update(secret).digest("hex"); // servers show the hash
const held = new Map(); // attempts, until their completion is acknowledged and no call names them
const answers = new Map(); // when each of the last ones was sent
const guard = fork(new URL("guard.mjs", import.meta.url), { detached: true });
const last = { epoch: 0, number: 0, at: Infinity }; // the last call, and when it came
let stopsAt = Infinity; // when a drain is over

// Seconds, by a clock that also runs while the machine sleeps.
const now = () => Number(fs.readFileSync("/proc/uptime", "latin1").split(" ")[0]);
const keyOf = ({ task_id, attempt }) => `${task_id} ${attempt}`;
const find = (attempt) => held.get(keyOf(attempt));
const complain = (error) => console.error(error.message);
const isDraining = () => stopsAt < Infinity;
const drain = () => (stopsAt = now() + (isDraining() ? 0 : Number(drainSeconds))); // twice: at once
const running = () => [...held.values()].filter((mine) => !mine.end);
const completed = () =>
  [...held.values()].flatMap(({ end, isHeard }) => (isHeard ? [] : (end ?? [])));
const askForCall = () => call("/internal/worker-news", { worker_id }).catch(complain);
// Has the guard signal a command, and kill it when its lease or the time to stop is over.
const tellGuard = ({ pid, killAt, endsAt }, name) =>
  pid && guard.send([pid, Math.min(killAt, endsAt), name]);

// Sends a request, and the same again while the server may answer later and it is wanted.
async function call(route, body, isWanted = () => false) {
  for (let pause = 50; ; pause = Math.min(pause * 2, 2000)) {
    try {
      const headers = { "Content-Type": "application/json", "Holdfast-Worker": credential };
      const [text, signal] = [JSON.stringify(body), AbortSignal.timeout(15_000)];
      const response = await fetch(server + route, { method: "POST", headers, body: text, signal });
      const answer = await response.json();
      if (response.ok) return answer;
      throw Object.assign(new Error(answer.error.message), { status: response.status });
    } catch (error) {
      if ((error.status < 500 && error.status !== 429) || !isWanted()) throw error;
    }
    await sleep(pause);
  }
}

function renew(mine, expiresAt) {
  const margin = Math.min(5, mine.job.lease / 6); // its command must be gone before its lease
  mine.endsAt = Math.max(mine.endsAt, expiresAt - margin);
  tellGuard(mine);
}

// Soft: it has so many seconds. Hard, leaving, lost: it has none.
function stop(mine, why, seconds = 0) {
  if (mine.stop && (mine.stop !== "soft" || why === "soft")) return;
  Object.assign(mine, { stop: why, killAt: now() + seconds });
  tellGuard(mine, why === "soft" ? "SIGTERM" : "SIGKILL");
}

async function run({ task_id, attempt, lease_token, cancel_ms, ...task }, expiresAt) {
  const lease = { task_id, attempt, lease_token };
  const mine = { lease, ...task, endsAt: 0, killAt: 1e12, size: 0 };
  renew(mine, expiresAt);
  held.set(keyOf(lease), mine);
  const broken = (error) => ({ status: "worker_failed", error: String(error) });
  let end = { status: isDraining() ? "handed_back" : "killed" };
  if (!isDraining() && !Number.isInteger(cancel_ms)) end = await execute(mine).catch(broken);
  if (mine.folder) fs.rmSync(mine.folder, { recursive: true, force: true });
  mine.end = { ...lease, ...end, start_reported: false };
  askForCall();
}

async function execute(mine) {
  const { command, shell } = mine.job.entrypoint;
  const unfit = { status: "failed", error_class: "PermanentError", stage: "fetch" };
  const isPlain = (command ?? shell) && !mine.job.bundle && !mine.job.requirements?.length;
  if (!isPlain) return { ...unfit, error: "this worker runs commands, and builds nothing" };
  const [program, ...args] = command ?? ["/bin/sh", "-c", shell];
  mine.folder = fs.mkdtempSync(`${os.tmpdir()}/holdfast-`);
  const options = { env: variables(mine), cwd: `${mine.folder}/work`, detached: true };
  fs.mkdirSync(options.cwd);
  const child = spawn(program, args, { ...options, stdio: ["ignore", "pipe", "pipe"] });
  const ended = once(child, "exit");
  if (!child.pid) return { ...unfit, error: await ended.catch(String) };
  mine.pid = child.pid;
  tellGuard(mine);
  askForCall(); // for the server: it runs
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
  if (why === "lost") return { status: "worker_failed", error: "its lease ran out" };
  if (exit_code === 0 && why !== "hard") return { status: "succeeded", exit_code };
  return { status: why ? "killed" : "failed", exit_code, error };
}

function variables({ lease, job, input, ports, devices, gang, folder }) {
  const [{ job_id, num_tasks, correlation_id }, task_index] = [job, lease.task_id.split(".")[1]];
  const [text, input_file] = [JSON.stringify(input ?? null), `${folder}/input.json`];
  fs.writeFileSync(input_file, text);
  const ours = { server, job_id, ...lease, task_index, num_tasks, correlation_id, input_file };
  if (job.fan_out && Buffer.byteLength(text) <= 100_000) ours.input = text;
  for (const [name, port] of Object.entries(ports ?? {})) ours[`port_${name}`] = port;
  if (gang) Object.assign(ours, { gang_address: gang.peers[0], gang_peers: gang.peers.join(",") });
  if (gang) Object.assign(ours, { gang_rank: gang.rank, gang_size: gang.peers.length });
  const env = { ...process.env, ...job.environment };
  if (devices) ours.devices = env.CUDA_VISIBLE_DEVICES = env.ROCR_VISIBLE_DEVICES = devices.join();
  for (const name of Object.keys(ours)) env[`HOLDFAST_${name.toUpperCase()}`] = ours[name];
  return env;
}

async function ship(mine, stream) {
  for await (const text of stream.setEncoding("utf8")) {
    const [bytes, offset] = [Buffer.from(text), mine.size];
    mine.size += bytes.length;
    const piece = { ...mine.lease, offset, content: bytes.toString("base64") };
    await call("/internal/task-log", piece, () => mine.stop !== "lost").catch(complain);
  }
}

// Does what a call says, and answers it; undefined if it is not to be obeyed.
function obey({ epoch, number, ...asked }) {
  const isNewer = epoch > last.epoch || (epoch === last.epoch && number > last.number);
  if (asked.worker_id !== worker_id || !isNewer) return undefined;
  Object.assign(last, { epoch, number, at: now() });
  const sentAt = answers.get(`${asked.answered_epoch} ${asked.answered_number}`);
  for (const each of asked.acknowledged) if (find(each)?.end) find(each).isHeard = true;
  for (const task of asked.tasks_to_run) {
    const [mine, expiresAt] = [find(task), sentAt + task.lease_ms / 1000]; // not a number: no lease
    if (mine && expiresAt) renew(mine, expiresAt);
    if (mine && Number.isInteger(task.cancel_ms)) stop(mine, "soft", task.cancel_ms / 1000);
    if (!mine && task.job && expiresAt > now()) run(task, expiresAt);
  }
  for (const each of asked.tasks_to_kill) if (find(each)) stop(find(each), "hard");
  const named = new Set([...asked.tasks_to_run, ...asked.tasks_to_kill].map(keyOf));
  for (const [key, mine] of held) if (mine.isHeard && !named.has(key)) held.delete(key);
  if (asked.drain && !isDraining()) drain();
  const report = ({ lease, pid }) => ({ ...lease, state: pid ? "RUNNING" : "ASSIGNED" });
  answers.set(`${epoch} ${number}`, now());
  if (answers.size > 64) answers.delete(answers.keys().next().value);
  const all = { running_tasks: running().map(report), completed_tasks: completed() };
  return { worker_id, epoch, number, ...all };
}

process.on("SIGTERM", drain).on("SIGINT", drain);
guard.on("error", complain).on("exit", () => {
  for (const { pid } of running()) if (pid) process.kill(-pid, "SIGKILL");
  process.exit(1); // without it, nothing may run
});
const listener = http.createServer(async (request, response) => {
  const isTrusted = request.headers["holdfast-worker-secret"] === callSecret;
  const answer = isTrusted ? obey(await json(request)) : undefined;
  response.writeHead(answer ? 200 : isTrusted ? 409 : 403, { "Content-Type": "application/json" });
  response.end(JSON.stringify(answer ?? {}));
});
await once(listener.listen(0, "127.0.0.1"), "listening");
const address = `http://127.0.0.1:${listener.address().port}`;
const resources = { cpu: Number(cores), memory: os.totalmem() };
const about = { worker_id, secret, address, name: "node", host: os.hostname(), resources };
await call("/internal/worker-register", about, () => true);
last.at = now();
while (!isDraining()) {
  await sleep(50);
  if (now() - last.at > 60) throw new Error("nobody calls: start this worker anew");
}
await call("/internal/worker-drain", { worker_id }).catch(complain);
while (running().length) {
  await sleep(50);
  if (now() >= stopsAt) for (const mine of running()) stop(mine, "leaving");
}
await call("/internal/task-complete", { worker_id, completions: completed() }).catch(complain);
await call("/internal/worker-leave", { worker_id, secret }).catch(complain);
process.exit();

// Stands beside a worker and signals groups of processes for it: at once, or with SIGKILL when their
// deadline is over, also while the worker is stopped; all of them once the worker is gone.
import fs from "node:fs";

const deadlines = new Map();

function signalGroup(pid, name) {
  try {
    process.kill(-pid, name);
  } catch (error) {
    if (error.code !== "ESRCH") throw error; // it is gone by itself
  }
}

function killDue(time) {
  for (const [pid, deadline] of deadlines) {
    if (deadline <= time && deadlines.delete(pid)) signalGroup(pid, "SIGKILL");
  }
}

// A message is a group's id, its deadline unless it has ended, and a signal to send now.
process.on("message", ([pid, deadline, name]) => {
  if (deadline) deadlines.set(pid, deadline);
  else deadlines.delete(pid);
  if (name) signalGroup(pid, name);
});
process.on("disconnect", () => killDue(Infinity)); // and ends: nothing else keeps it
const uptime = () => Number(fs.readFileSync("/proc/uptime", "latin1").split(" ")[0]);
setInterval(() => killDue(uptime()), 50).unref();

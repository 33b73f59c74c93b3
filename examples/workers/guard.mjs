// Stands beside a worker and kills commands whose lease runs out, also while the worker is stopped;
// all of them once the worker is gone. A message is a group's id and its deadline, 0 for none.
import fs from "node:fs";

const deadlines = new Map();

function killDue(time) {
  for (const [pid, deadline] of deadlines) {
    if (deadline > time) continue;
    deadlines.delete(pid);
    try {
      process.kill(-pid, "SIGKILL");
    } catch (error) {
      if (error.code !== "ESRCH") throw error; // it is gone by itself
    }
  }
}

process.on("message", ([pid, deadline]) => {
  if (deadline) deadlines.set(pid, deadline);
  else deadlines.delete(pid);
});
process.on("disconnect", () => {
  killDue(Infinity);
  process.exit();
});
setInterval(() => killDue(Number(fs.readFileSync("/proc/uptime", "latin1").split(" ")[0])), 50);

/** Ask a worker to leave, once it is clear what that means. */
import { useQueryClient } from "@tanstack/react-query";
import { api, unwrap } from "../../api/client";
import type { Worker } from "../../api/types";
import { Button } from "../../parts/button";
import { useConfirm } from "../../parts/confirm";
import { plural } from "../../parts/format";
import { Said } from "../../parts/show";
import { inert } from "../../parts/text";

export function Drain({ worker }: { worker: Worker }) {
  const ask = useConfirm();
  const client = useQueryClient();
  const id = worker.worker_id;
  if (worker.draining || worker.health === "lost") return null;
  async function run(): Promise<string> {
    await unwrap(
      api.POST("/api/workers/{worker_id}:drain", { params: { path: { worker_id: id } } }),
    );
    await client.invalidateQueries({ queryKey: ["workers"] });
    return `${inert(id)} drains`;
  }
  return (
    <Button
      needs="admin"
      aria-label={`Drain ${inert(id)}`}
      onClick={() =>
        ask({
          title: "Drain this worker?",
          body: <Meaning worker={worker} />,
          action: "Drain",
          run,
        })
      }
    >
      Drain
    </Button>
  );
}

function Meaning({ worker }: { worker: Worker }) {
  return (
    <>
      <p>
        <strong>
          <Said text={worker.worker_id} />
        </strong>{" "}
        takes nothing new.{" "}
        {worker.running === 0
          ? "It runs nothing, so it leaves at once."
          : `It finishes its ${plural(worker.running, "task")}, then it leaves.`}
      </p>
      {worker.running > 0 && (
        <p className="text-dim">
          What runs longer than the worker's drain time (30 s unless it was started with another) is
          stopped and handed back. That costs the task nothing: another worker starts it again.
        </p>
      )}
      {worker.health !== "healthy" && (
        <p className="text-dim">It is {worker.health} now, and drains once it can be reached.</p>
      )}
    </>
  );
}

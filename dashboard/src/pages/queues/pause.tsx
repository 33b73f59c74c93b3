/** Stop and start what a queue hands out, once it is clear what that means. */
import { useQueryClient } from "@tanstack/react-query";
import { api, unwrap } from "../../api/client";
import type { Queue } from "../../api/types";
import { Button } from "../../parts/button";
import { useConfirm } from "../../parts/confirm";
import { plural } from "../../parts/format";
import { Said } from "../../parts/show";
import { inert, shorten } from "../../parts/text";

export function PauseOrResume({ queue }: { queue: Queue }) {
  const ask = useConfirm();
  const client = useQueryClient();
  const name = shorten(inert(queue.queue), 60);
  const path = { params: { path: { queue: queue.queue } } };
  async function pause(): Promise<string> {
    await unwrap(api.POST("/api/queues/{queue}:pause", path));
    await client.invalidateQueries({ queryKey: ["queues"] });
    return `${name} is paused`;
  }
  async function resume(): Promise<string> {
    await unwrap(api.POST("/api/queues/{queue}:resume", path));
    await client.invalidateQueries({ queryKey: ["queues"] });
    return `${name} goes on`;
  }
  function click() {
    if (queue.paused) {
      ask({
        title: "Resume this queue?",
        body: <Resumed queue={queue} />,
        action: "Resume",
        run: resume,
      });
    } else {
      ask({
        title: "Pause this queue?",
        body: <Paused queue={queue} />,
        action: "Pause",
        run: pause,
      });
    }
  }
  const action = queue.paused ? "Resume" : "Pause";
  return (
    <Button needs="admin" aria-label={`${action} ${name}`} onClick={click}>
      {action}
    </Button>
  );
}

function Paused({ queue }: { queue: Queue }) {
  const held = queue.depth + queue.waiting;
  return (
    <>
      <p>
        Nothing more is handed out from{" "}
        <strong>
          <Said text={queue.queue} />
        </strong>
        {held > 0 && `: ${plural(held, "waiting task")} ${held === 1 ? "stays" : "stay"}`}. New ones
        are taken in and wait too.
      </p>
      <p>
        {queue.running > 0
          ? `${plural(queue.running, "running task")} ${queue.running === 1 ? "goes" : "go"} on to the end.`
          : "Nothing of it runs now."}{" "}
        Retries wait until the queue is resumed.
      </p>
    </>
  );
}

function Resumed({ queue }: { queue: Queue }) {
  return (
    <p>
      Workers claim from{" "}
      <strong>
        <Said text={queue.queue} />
      </strong>{" "}
      again
      {queue.depth > 0 && `, beginning with the ${plural(queue.depth, "task")} in line`}.
      {queue.paused_by !== null && (
        <>
          {" "}
          It was paused by <Said text={queue.paused_by} lengthMax={120} />.
        </>
      )}
    </p>
  );
}

/** The first visit: how to begin, in place of charts of nothing. */
import type { ReactNode } from "react";
import { root } from "../../api/client";
import { plural } from "../../parts/format";
import { Panel } from "../../parts/page";
import { Block } from "../../parts/show";

const TASK = `import holdfast as hf

@hf.task(queue="emails")
async def send(to: str) -> str:
    return f"sent to {to}"`;

export function Start({ workers }: { workers: number }) {
  const server = root.href.replace(/\/$/, "");
  return (
    <Panel title="How to begin">
      <ol className="flex flex-col gap-6">
        <Step title="1. Start a worker" isDone={workers > 0}>
          {workers > 0 ? (
            <p className="text-dim">{plural(workers, "worker")} on duty.</p>
          ) : (
            <>
              <p className="text-dim">It runs what waits in its queues.</p>
              <Block
                label="How to start a worker"
                text={`holdfast worker --server ${server} --queue default --allow-commands`}
              />
            </>
          )}
        </Step>
        <Step title="2. Submit a first job">
          <p className="text-dim">Any command can be a task. This page shows it at once.</p>
          <Block
            label="How to submit a job"
            text={`HOLDFAST_SERVER=${server} holdfast run -- echo hello`}
          />
        </Step>
        <Step title="3. Write a task of your own">
          <p className="text-dim">
            A function in a module <code className="font-mono">tasks.py</code>. A worker that is
            started with{" "}
            <code className="font-mono whitespace-nowrap">--queue emails --import tasks</code> runs
            it.
          </p>
          <Block label="A task" text={TASK} />
        </Step>
      </ol>
    </Panel>
  );
}

function Step({
  title,
  isDone = false,
  children,
}: {
  title: string;
  isDone?: boolean;
  children: ReactNode;
}) {
  return (
    <li className="flex flex-col gap-2">
      <h3 className="font-medium">
        {title} {isDone && <span className="text-good text-xs">✓ done</span>}
      </h3>
      {children}
    </li>
  );
}

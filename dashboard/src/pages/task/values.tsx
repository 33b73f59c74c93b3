/** What a task was given and what it returned. */
import { Link } from "wouter";
import type { Job, Task } from "../../api/types";
import { bytes } from "../../parts/format";
import { Panel, Read } from "../../parts/page";
import { Block, Said } from "../../parts/show";
import { codecOf, pretty, readable } from "../../parts/text";
import { readJson } from "./json";
import { useInput, useResult } from "./reads";

type Result = { result: unknown; error: string | null; is_finished: boolean; pickled: boolean };

export function Values({ task, job }: { task: Task; job: Job }) {
  const input = useInput(task.task_id);
  const result = useResult(task);
  const entrypoint = job.spec?.["entrypoint"] as { pickle?: unknown } | undefined;
  return (
    <div className="grid gap-3 lg:grid-cols-2">
      <Panel title="Input">
        <Read query={input} what="the input">
          {(text) => (
            <Input
              value={(readJson(text) as { input: unknown }).input}
              isPickled={entrypoint?.pickle != null}
              jobId={job.job_id}
            />
          )}
        </Read>
      </Panel>
      <Panel title="Result">
        <Read query={result} what="the result">
          {(text) => <Returned told={readJson(text) as Result} />}
        </Read>
      </Panel>
    </div>
  );
}

function Input({ value, isPickled, jobId }: { value: unknown; isPickled: boolean; jobId: string }) {
  if (value === null) {
    return (
      <p className="text-dim">
        It has no input of its own: what all tasks are given stands in the{" "}
        <Link href={`/jobs/${jobId}?tab=spec`} className="underline">
          spec of the job
        </Link>
        .
      </p>
    );
  }
  const isShown = !isPickled || codecOf(value) !== null;
  return isShown ? <Block text={readable(value)} label="Input" /> : <Pickled value={value} />;
}

function Returned({ told }: { told: Result }) {
  if (!told.is_finished) return <p className="text-dim">It has not finished yet.</p>;
  if (told.error !== null) {
    return (
      <div className="flex flex-col gap-2">
        <p className="text-dim">It returned nothing:</p>
        <Block text={told.error} label="Error" />
      </div>
    );
  }
  if (told.pickled && told.result !== null && codecOf(told.result) === null) {
    return <Pickled value={told.result} />;
  }
  return <Block text={readable(told.result)} label="Result" />;
}

/** Bytes that only Python can read; a browser does well not to try. */
function Pickled({ value }: { value: unknown }) {
  const text = typeof value === "string" ? value : pretty(value);
  return (
    <div className="flex flex-col gap-2">
      <p>
        Pickled, <Said text={bytes(Math.floor((text.length * 3) / 4))} />: only Python can read it.
        Unpickle it only if you trust who wrote it.
      </p>
      <Block text={text} label="Pickled value, in base64" />
    </div>
  );
}

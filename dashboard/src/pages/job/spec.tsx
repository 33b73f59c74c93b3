/** The spec as it was completed at submission; it never changes. */
import type { Job } from "../../api/types";
import { Empty, Panel } from "../../parts/page";
import { Block, Said } from "../../parts/show";
import { readable } from "../../parts/text";
import { plainLines } from "./plain";

export function Spec({ job }: { job: Job }) {
  if (job.spec == null) return <Empty title="The server does not tell the spec of this job." />;
  return (
    <div className="flex flex-col gap-4">
      <Panel title="In words">
        <dl className="grid gap-x-6 gap-y-1.5 sm:grid-cols-[auto_1fr]">
          {plainLines(job.spec).map(([name, text]) => (
            <div key={name} className="contents">
              <dt className="text-dim mt-1 text-xs sm:mt-0 sm:text-sm">{name}</dt>
              <dd className="min-w-0 break-words">
                <Said text={text} />
              </dd>
            </div>
          ))}
        </dl>
      </Panel>
      <Panel title="As stored">
        <Block text={readable(job.spec)} label="spec" />
      </Panel>
    </div>
  );
}

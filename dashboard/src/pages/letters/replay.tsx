/** A replay in one dialog: what would be made, then the same made, then links to it. */
import { keepPreviousData, useMutation, useQuery } from "@tanstack/react-query";
import { useEffect, useRef, useState } from "react";
import { Link } from "wouter";
import { api, Refusal, unwrap } from "../../api/client";
import type { components } from "../../api/schema";
import { Button } from "../../parts/button";
import { plural } from "../../parts/format";
import { Failure, Loading } from "../../parts/page";
import { newRequestKey } from "../../parts/request_key";
import { Said } from "../../parts/show";
import type { Chosen } from "./actions";
import { asked } from "./filter";
import { Canary, EditedInput, findProblem, Rate, readCanary, readRate, tellStart } from "./manner";

const IDS_SHOWN = 8;
const LINKS_MAX = 10;

export type Answer = components["schemas"]["ReplayAnswer"];
type Replays = Answer["replays"];

/** What a filter may match of them at once. */
const REPLAY_MAX = 10_000;

export function ReplayDialog({
  chosen,
  isDry,
  onDone,
  onClose,
}: {
  chosen: Chosen;
  isDry: boolean;
  onDone: (answer: Answer) => void;
  onClose: () => void;
}) {
  const dialog = useRef<HTMLDialogElement>(null);
  useEffect(() => dialog.current?.showModal(), []);
  const [key] = useState(newRequestKey);
  const [isRebinding, setIsRebinding] = useState(false);
  const [canaryText, setCanaryText] = useState("");
  const [input, setInput] = useState<string | null>(null);
  const [rateText, setRateText] = useState("");
  const [isResuming, setIsResuming] = useState(true);
  const canary = readCanary(canaryText);
  const rate = readRate(rateText);
  const manner = { rebind_outputs: isRebinding, canary, rate };
  const deed = useMutation({
    // Exactly what was shown, whatever else the filter matches by now.
    mutationFn: ([shown, isReleasing]: [Replays, boolean]) =>
      replay(
        {
          task_ids: shown.flatMap((each) => each.task_ids),
          ...manner,
          resume: isReleasing,
          idempotency_key: `${key}-${isRebinding ? "rebind" : ""}-${canary ?? ""}-${rate ?? ""}-${isReleasing}`,
        },
        input,
      ),
    onSuccess: onDone,
  });
  const plan = useQuery({
    queryKey: ["letter-plan", key, isRebinding, canary, rate],
    placeholderData: keepPreviousData,
    queryFn: () =>
      replay({
        ...(chosen.taskIds === undefined
          ? { filter: asked(chosen.filter) }
          : { task_ids: chosen.taskIds }),
        ...manner,
        dry_run: true,
      }),
    staleTime: Infinity,
    gcTime: 0,
    // Once it is being done, to plan it again would only tell that it was done.
    enabled: deed.isIdle,
  });
  const shown = plan.data?.replays ?? [];
  const inVain = plan.data?.killed_in_vain ?? 0;
  const isReleasing = isResuming && inVain > 0;
  const tasks = shown.reduce((sum, each) => sum + each.task_ids.length, 0);
  const amount = `${plural(tasks, "task")} as ${plural(shown.length, "new job")}`;
  const needsRebinding =
    isRebinding || (plan.error instanceof Refusal && plan.error.field === "rebind_outputs");
  return (
    <dialog
      ref={dialog}
      aria-labelledby="replay"
      onClose={onClose}
      className="border-line bg-panel text-ink m-auto w-[min(40rem,calc(100vw-2rem))] rounded-lg border p-0 shadow-xl"
    >
      <div className="flex flex-col gap-4 p-5">
        <h2 id="replay" className="text-lg font-semibold">
          {deed.isSuccess ? "Replayed" : isDry ? "Dry run of a replay" : "Replay dead letters"}
        </h2>
        <p className="break-words">
          <Said text={chosen.words} lengthMax={300} />
        </p>
        {plan.isPending && <Loading what="what would be made" />}
        {plan.error && <Failure error={plan.error} retry={() => void plan.refetch()} />}
        {needsRebinding && (
          <label className="flex items-baseline gap-2">
            <input
              type="checkbox"
              checked={isRebinding}
              onChange={(event) => setIsRebinding(event.target.checked)}
            />
            Let them write the newest open version of their datasets.
          </label>
        )}
        {!deed.isSuccess && (tasks > 1 || canaryText + rateText !== "") && (
          <div className="flex flex-col gap-2">
            <Canary text={canaryText} onChange={setCanaryText} />
            <Rate text={rateText} onChange={setRateText} />
          </div>
        )}
        {!deed.isSuccess && !isDry && chosen.taskIds?.length === 1 && (
          <EditedInput taskId={chosen.taskIds[0] ?? ""} text={input} onChange={setInput} />
        )}
        {inVain > 0 && !deed.isSuccess && (
          <label className="flex items-baseline gap-2">
            <input
              type="checkbox"
              checked={isResuming}
              onChange={(event) => setIsResuming(event.target.checked)}
            />
            <span>
              Resume what waited: {plural(inVain, "job")} {inVain === 1 ? "was" : "were"} killed
              because of these, and {inVain === 1 ? "goes" : "go"} on once the replay has succeeded.
            </span>
          </label>
        )}
        {plan.data && !deed.isSuccess && (
          <p>
            {shown.length === 0
              ? "Nothing waits for a replay here."
              : isDry
                ? `A replay would submit ${amount}. Nothing has been changed.`
                : `Submits ${amount}. A dead letter is replayed once; if a task dies again, that is a dead letter of the new job.`}
          </p>
        )}
        {!deed.isSuccess && chosen.filter !== undefined && tasks >= REPLAY_MAX && (
          <p>There may be more that match. Replay again for the rest.</p>
        )}
        {deed.isSuccess && <p role="status">{`Submitted ${amount}.`}</p>}
        {shown.length > 0 && <Plan replays={deed.data?.replays ?? shown} />}
        {deed.data && <Waited answer={deed.data} />}
        {deed.error && <Failure error={deed.error} />}
        <form method="dialog" className="flex justify-end gap-2">
          <Button type="submit" autoFocus={isDry}>
            {isDry || deed.isSuccess ? "Close" : "Keep as it is"}
          </Button>
          {!isDry && !deed.isSuccess && shown.length > 0 && (
            <Button
              look="main"
              disabled={deed.isPending || plan.error !== null || findProblem(input) !== null}
              onClick={() => deed.mutate([shown, isReleasing])}
            >
              {deed.isPending ? "Working …" : `Replay ${plural(tasks, "task")}`}
            </Button>
          )}
        </form>
      </div>
    </dialog>
  );
}

type ReplayBody = components["schemas"]["ReplayRequest"];

const WHOLE: ReplayBody = {
  task_ids: null,
  filter: null,
  dry_run: false,
  rebind_outputs: false,
  canary: null,
  rate: null,
  resume: false,
  idempotency_key: null,
};

/** An edited input goes as it was written: a number of twenty digits keeps them all. */
async function replay(body: Partial<ReplayBody>, input: string | null = null): Promise<Answer> {
  const asked = { ...WHOLE, ...body };
  const text = JSON.stringify(asked);
  const bodySerializer = () => (input === null ? text : `${text.slice(0, -1)},"input":${input}}`);
  const answer = api.POST("/api/dead-letters:replay", { body: asked, bodySerializer });
  return unwrap(answer);
}

/** What becomes of jobs that waited for the replayed ones. */
export function Waited({ answer }: { answer: Answer }) {
  const { resumed, not_resumed: not } = answer;
  return (
    <>
      {resumed.length > 0 && (
        <p>
          What waited goes on as <JobLinks ids={resumed.flatMap((each) => each.job_id ?? [])} />.
        </p>
      )}
      {Object.entries(not).map(([id, why]) => (
        <p key={id} className="text-warn">
          <Said text={why} />. Afterwards: <Link href={`/jobs/${id}`}>job {id}</Link>, Resume.
        </p>
      ))}
    </>
  );
}

export function JobLinks({ ids }: { ids: string[] }) {
  const rest = ids.length - LINKS_MAX;
  return (
    <>
      {ids.slice(0, LINKS_MAX).map((id, place) => (
        <span key={id}>
          {place > 0 && ", "}
          <Link href={`/jobs/${id}`} className="underline">
            job {id}
          </Link>
        </span>
      ))}
      {rest > 0 && ` and ${plural(rest, "other job")}`}
    </>
  );
}

function Plan({ replays }: { replays: Replays }) {
  const hasCanary = replays.some((each) => each.is_canary);
  return (
    <div
      className="border-line max-h-72 overflow-auto rounded border"
      tabIndex={0}
      role="region"
      aria-label="Jobs of the replay"
    >
      <table className="w-full text-left" aria-label="Jobs of the replay">
        <thead className="text-dim bg-panel sticky top-0 text-xs">
          <tr className="border-line border-b">
            <th scope="col" className="px-3 py-2 font-medium whitespace-nowrap">
              New job
            </th>
            <th scope="col" className="px-3 py-2 font-medium">
              Of job
            </th>
            <th scope="col" className="px-3 py-2 font-medium">
              Tasks
            </th>
            <th scope="col" className="px-3 py-2 font-medium">
              Starts
            </th>
          </tr>
        </thead>
        <tbody>
          {replays.map((each, place) => (
            <tr key={place} className="border-line border-b last:border-b-0">
              <td className="px-3 py-2 align-top">
                {each.job_id === null ? (
                  "to be made"
                ) : (
                  <Link href={`/jobs/${each.job_id}`}>job {each.job_id}</Link>
                )}
              </td>
              <td className="px-3 py-2 align-top">
                <Link href={`/jobs/${each.replay_of}`}>{each.replay_of}</Link>
              </td>
              <td className="px-3 py-2">
                {plural(each.task_ids.length, "task")}
                <span className="text-dim block font-mono text-xs break-words">
                  {few(each.task_ids)}
                </span>
              </td>
              <td className="px-3 py-2 align-top">{tellStart(each, hasCanary)}</td>
            </tr>
          ))}
        </tbody>
      </table>
    </div>
  );
}

function few(ids: string[]): string {
  const rest = ids.length - IDS_SHOWN;
  return ids.slice(0, IDS_SHOWN).join(", ") + (rest > 0 ? ` and ${rest} more` : "");
}

/** All that is known about one dead letter, and what can be done about it. */
import { Link } from "wouter";
import type { DeadLetter } from "../../api/types";
import { Failure, Loading } from "../../parts/page";
import { Ago, Block, Fact, Facts, Id, Nothing, Said } from "../../parts/show";
import { readable } from "../../parts/text";
import { Actions } from "./actions";
import { useLetter } from "./reads";

export const moment = (text: string | null) => (text === null ? null : Date.parse(text));
export const jobOf = (taskId: string) => taskId.split(".")[0] ?? "";
export const isSettled = (letter: DeadLetter) =>
  letter.replayed_as !== null || letter.discarded_at !== null;

export function Inspect({ letter }: { letter: DeadLetter }) {
  const job = jobOf(letter.task_id);
  return (
    <div className="flex min-w-0 flex-col gap-4">
      <Facts>
        <Fact name="Task">
          <Id id={letter.task_id} to={`/tasks/${letter.task_id}`} />
        </Fact>
        <Fact name="Job">
          <Id id={job} to={`/jobs/${job}`} />
        </Fact>
        <Fact name="Reason">
          {letter.reason_code}
          {letter.stage !== null && ` at stage ${letter.stage}`}
        </Fact>
        <Fact name="Attempts">{letter.attempts}</Fact>
        <Fact name="Last owner">
          {letter.last_owner === null ? <Nothing /> : <Id id={letter.last_owner} what="worker" />}
        </Fact>
        <Fact name="Its lease ran until">
          <Ago ms={moment(letter.last_lease_expires_at)} />
        </Fact>
        <Fact name="Dead since">
          <Ago ms={moment(letter.dead_lettered_at)} />
        </Fact>
        <Fact name="Correlation id">
          <span className="break-all">
            <Said text={letter.correlation_id} />
          </span>
        </Fact>
        <Fact name="What became of it">
          <Fate letter={letter} />
        </Fact>
      </Facts>
      <div className="flex min-w-0 flex-col gap-1">
        <h3 className="text-dim text-xs">Last error</h3>
        {letter.last_error === null ? (
          <p className="text-dim">No error was told.</p>
        ) : (
          <Block text={letter.last_error} label={`last error of ${letter.task_id}`} />
        )}
      </div>
      <div className="flex min-w-0 flex-col gap-1">
        <h3 className="text-dim text-xs">Input</h3>
        {letter.input == null ? (
          <p className="text-dim">
            None of its own: its arguments stand in the{" "}
            <Link href={`/jobs/${job}?tab=spec`} className="underline">
              spec of job {job}
            </Link>
            .
          </p>
        ) : (
          <Block text={readable(letter.input)} label={`input of ${letter.task_id}`} />
        )}
      </div>
      {!isSettled(letter) && (
        <div className="flex flex-wrap gap-2">
          <Actions chosen={{ words: `dead letter ${letter.task_id}`, taskIds: [letter.task_id] }} />
        </div>
      )}
    </div>
  );
}

/** One that the address names and the list does not show: on another page, or settled. */
export function InspectOne({ taskId }: { taskId: string }) {
  const query = useLetter(taskId);
  if (query.data !== undefined) return <Inspect letter={query.data} />;
  if (query.error !== null) {
    return <Failure error={query.error} retry={() => void query.refetch()} />;
  }
  return <Loading what={`dead letter ${taskId}`} />;
}

/** Replayed, discarded, or still waiting for somebody. */
export function Fate({ letter }: { letter: DeadLetter }) {
  if (letter.replayed_as !== null) {
    return (
      <span>
        replayed as <Link href={`/jobs/${letter.replayed_as}`}>job {letter.replayed_as}</Link>
        {letter.input_edited && ", with an edited input,"} <Ago ms={moment(letter.replayed_at)} />
      </span>
    );
  }
  if (letter.discarded_at !== null) {
    return (
      <span>
        discarded by <Said text={letter.discarded_by ?? "somebody"} />{" "}
        <Ago ms={moment(letter.discarded_at)} />
      </span>
    );
  }
  return <span className="text-dim">waits for a decision</span>;
}

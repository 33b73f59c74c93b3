/** Dead letters at a glance: how many for which reason at which stage, and errors that are alike. */
import { Link } from "wouter";
import type { DeadLetterSummary } from "../../api/types";
import { count, plural } from "../../parts/format";
import { Panel } from "../../parts/page";
import { Ago, Said } from "../../parts/show";
import { Actions } from "./actions";
import { lettersAddress, STAGES, type useLettersPlace } from "./filter";

type Place = ReturnType<typeof useLettersPlace>[0];
type Group = DeadLetterSummary["groups"][number];

const NO_STAGE = "none";
const IDS_SHOWN = 60;
const GROUPS_SHOWN = 50;

export function Matrix({ summary, place }: { summary: DeadLetterSummary; place: Place }) {
  const { cells } = summary;
  const stages = [...STAGES, NO_STAGE].filter((stage) =>
    cells.some((cell) => (cell.stage ?? NO_STAGE) === stage),
  );
  const reasons = [...new Set(cells.map((cell) => cell.reason_code))];
  const sum = (reason: string, stage?: string) =>
    cells
      .filter((cell) => cell.reason_code === reason)
      .filter((cell) => stage === undefined || (cell.stage ?? NO_STAGE) === stage)
      .reduce((total, cell) => total + cell.count, 0);
  return (
    <Panel title="By reason and stage" flush>
      <div className="overflow-x-auto">
        <table className="w-full text-right" aria-label="Dead letters by reason and stage">
          <thead className="text-dim text-xs">
            <tr className="border-line border-b">
              <th scope="col" className="px-3 py-2 text-left font-medium">
                Reason
              </th>
              {stages.map((stage) => (
                <th key={stage} scope="col" className="px-3 py-2 font-medium">
                  {stage === NO_STAGE ? "no stage" : stage}
                </th>
              ))}
              <th scope="col" className="px-3 py-2 font-medium">
                all
              </th>
            </tr>
          </thead>
          <tbody>
            {reasons.map((reason) => (
              <tr key={reason} className="border-line border-b last:border-b-0">
                <th scope="row" className="px-3 py-1.5 text-left font-normal">
                  <Said text={reason} />
                </th>
                {stages.map((stage) => (
                  <Cell
                    key={stage}
                    place={place}
                    reason={reason}
                    stage={stage}
                    amount={sum(reason, stage)}
                  />
                ))}
                <Cell place={place} reason={reason} stage="" amount={sum(reason)} />
              </tr>
            ))}
          </tbody>
        </table>
      </div>
      {summary.is_truncated && (
        <p className="text-dim px-3 py-2 text-xs">
          There are more than are gathered below: those are the newest{" "}
          {count(summary.groups.reduce((sum, group) => sum + group.count, 0))}.
        </p>
      )}
    </Panel>
  );
}

function Cell(props: { place: Place; reason: string; stage: string; amount: number }) {
  const { place, reason, stage, amount } = props;
  if (amount === 0) return <td className="text-dim px-3 py-1.5">·</td>;
  const shown = count(amount);
  // No filter asks for letters without a stage, so that number leads nowhere.
  if (stage === NO_STAGE) return <td className="px-3 py-1.5 tabular-nums">{shown}</td>;
  const isChosen = place.reason === reason && place.stage === stage;
  const changes = isChosen ? { reason: "", stage: "" } : { reason, stage };
  return (
    <td className="px-1 py-1">
      <Link
        href={lettersAddress(place, changes)}
        aria-current={isChosen ? "true" : undefined}
        aria-label={`${plural(amount, "dead letter")}: ${reason}${stage && `, ${stage}`}`}
        className={`inline-block min-w-10 rounded px-2 py-0.5 tabular-nums ${isChosen ? "bg-accent-soft font-semibold" : "hover:bg-hover"}`}
      >
        {shown}
      </Link>
    </td>
  );
}

export function Groups({
  groups,
  isCut,
  place,
  onOpen,
}: {
  groups: Group[];
  isCut: boolean;
  place: Place;
  onOpen: (fingerprint: string) => void;
}) {
  const rest = groups.length - GROUPS_SHOWN;
  return (
    <Panel title="Errors that are alike" flush>
      <ul className="divide-line max-h-[28rem] divide-y overflow-y-auto">
        {groups.slice(0, GROUPS_SHOWN).map((group) => (
          <Alike
            key={group.fingerprint}
            group={group}
            isCut={isCut}
            place={place}
            isOpen={place.group === group.fingerprint}
            onToggle={() => onOpen(place.group === group.fingerprint ? "" : group.fingerprint)}
          />
        ))}
      </ul>
      {groups.length === 0 && <p className="text-dim p-4">None match the filter.</p>}
      {rest > 0 && (
        <p className="text-dim border-line border-t px-3 py-2 text-xs">
          {plural(rest, "smaller group")} not shown. A filter by type or queue brings them up.
        </p>
      )}
    </Panel>
  );
}

type AlikeProps = {
  group: Group;
  isCut: boolean;
  place: Place;
  isOpen: boolean;
  onToggle: () => void;
};

function Alike({ group, isCut, place, isOpen, onToggle }: AlikeProps) {
  return (
    <li>
      <button
        type="button"
        aria-expanded={isOpen}
        onClick={onToggle}
        className="hover:bg-hover flex w-full items-baseline gap-3 px-3 py-2 text-left"
      >
        <span aria-hidden="true" className="text-dim w-3 shrink-0">
          {isOpen ? "▾" : "▸"}
        </span>
        <span className="min-w-8 text-right font-semibold tabular-nums">
          {isCut && "≥ "}
          {count(group.count)}
        </span>
        <span className="min-w-0 flex-1">
          <span className="line-clamp-2 break-words">
            <Said text={group.example ?? group.error_class ?? "without an error"} lengthMax={400} />
          </span>
          <span className="text-dim block text-xs">
            <Said text={group.types.join(", ")} lengthMax={120} />, newest{" "}
            <Ago ms={Date.parse(group.newest_at)} />
          </span>
        </span>
      </button>
      {isOpen && <Letters group={group} isCut={isCut} place={place} />}
    </li>
  );
}

/** What is done is done to all of its kind, also to those that are too many to be gathered here. */
function Letters({ group, isCut, place }: { group: Group; isCut: boolean; place: Place }) {
  const rest = group.count - Math.min(group.task_ids.length, IDS_SHOWN);
  const filter = { ...place, group: group.fingerprint };
  const words = `all dead letters${place.job && ` of job ${place.job}`} like: ${group.example ?? group.error_class ?? "without an error"}`;
  return (
    <div className="bg-page flex flex-col gap-3 px-3 py-3 sm:pl-9">
      <ul
        className="flex flex-wrap gap-x-3 gap-y-1 font-mono text-xs"
        aria-label="Its dead letters"
      >
        {group.task_ids.slice(0, IDS_SHOWN).map((id) => (
          <li key={id}>
            <Link href={lettersAddress(place, { task: id, page: place.page, group: place.group })}>
              {id}
            </Link>
          </li>
        ))}
        {(rest > 0 || isCut) && (
          <li className="text-dim">
            {isCut ? "and others that are not gathered here" : `and ${count(rest)} more`}
          </li>
        )}
      </ul>
      <div className="flex flex-wrap gap-2">
        <Actions chosen={{ words, filter }} />
      </div>
    </div>
  );
}

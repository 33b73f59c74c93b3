/** What can be done about dead letters: look at a replay, replay, discard. */
import { useState } from "react";
import { api, unwrap } from "../../api/client";
import { Button } from "../../parts/button";
import { useConfirm } from "../../parts/confirm";
import { plural } from "../../parts/format";
import { Failure } from "../../parts/page";
import { newRequestKey } from "../../parts/request_key";
import { Said } from "../../parts/show";
import { shorten } from "../../parts/text";
import type { Filter } from "./filter";
import { useReplay } from "./replaying";
import { readSummary, useReadAgain } from "./reads";

/** Dead letters by exact ids, or all that a filter matches. */
export type Chosen =
  | { words: string; taskIds: string[]; filter?: undefined }
  | { words: string; filter: Filter; taskIds?: undefined };

/** `isAll`: there are no others that match. */
type Found = { ids: string[]; isAll: boolean };

const IDS_SHOWN = 20;

export function Actions({ chosen, onDone }: { chosen: Chosen; onDone?: () => void }) {
  const replay = useReplay();
  const [isFinding, setIsFinding] = useState(false);
  const [problem, setProblem] = useState<Error | null>(null);
  const confirm = useConfirm();
  const readAgain = useReadAgain();
  const done = () => {
    readAgain();
    onDone?.();
  };
  async function discard() {
    setIsFinding(true);
    setProblem(null);
    let found: Found;
    try {
      found = await find(chosen);
    } catch (error) {
      setProblem(error instanceof Error ? error : new Error(String(error)));
      return;
    } finally {
      setIsFinding(false);
    }
    const { ids } = found;
    const idempotency_key = newRequestKey();
    confirm({
      title: `Discard ${plural(ids.length, "dead letter")}`,
      body: <Discarded ids={ids} isAll={found.isAll} words={chosen.words} />,
      action: "Discard",
      danger: true,
      run: async () => {
        if (ids.length === 0) return "There was nothing to discard.";
        await unwrap(
          api.POST("/api/dead-letters:discard", { body: { task_ids: ids, idempotency_key } }),
        );
        done();
        return `Discarded ${plural(ids.length, "dead letter")}.`;
      },
    });
  }
  return (
    <>
      <Button needs="submit" onClick={() => replay({ chosen, isDry: true })}>
        Dry-run replay
      </Button>
      <Button needs="submit" onClick={() => replay({ chosen, isDry: false, onDone })}>
        Replay …
      </Button>
      <Button needs="admin" disabled={isFinding} onClick={() => void discard()}>
        Discard …
      </Button>
      {problem && <Failure error={problem} retry={() => void discard()} />}
    </>
  );
}

/** Only exact ids are discarded; those of a filter are found by summing it up. */
async function find(chosen: Chosen): Promise<Found> {
  if (chosen.taskIds !== undefined) return { ids: chosen.taskIds, isAll: true };
  const { groups, is_truncated: isCut } = await readSummary(chosen.filter);
  const { group: kind } = chosen.filter;
  const wanted = groups.filter(({ fingerprint }) => kind === "" || fingerprint === kind);
  const ids = wanted.flatMap((group) => group.task_ids);
  const isAll = !isCut && wanted.every((group) => group.task_ids.length === group.count);
  return { ids, isAll };
}

function Discarded({ ids, isAll, words }: Found & { words: string }) {
  const rest = ids.length - IDS_SHOWN;
  return (
    <>
      <p>
        <Said text={shorten(words, 300)} />:{" "}
        <span className="font-mono text-xs">{ids.slice(0, IDS_SHOWN).join(", ")}</span>
        {rest > 0 && ` and ${plural(rest, "other")}`}
      </p>
      {!isAll && (
        <p>There are more that match: these are the newest. Discard again for the rest.</p>
      )}
      <p>
        They stay readable until retention takes them, but need nothing more: they are not run
        again, and they are not counted any more.
      </p>
    </>
  );
}

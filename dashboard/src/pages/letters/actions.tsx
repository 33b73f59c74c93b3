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
import { ReplayDialog } from "./replay";
import { readSummary, useReadAgain } from "./reads";

/** Dead letters by exact ids, or all that a filter matches. */
export type Chosen =
  | { words: string; taskIds: string[]; filter?: undefined }
  | { words: string; filter: Filter; taskIds?: undefined };

const IDS_SHOWN = 20;

export function Actions({ chosen, onDone }: { chosen: Chosen; onDone?: () => void }) {
  // Kept as it was when it was asked for: what is chosen changes as letters come and go.
  const [asking, setAsking] = useState<{ chosen: Chosen; isDry: boolean } | null>(null);
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
    let found: string[];
    try {
      found = await idsOf(chosen);
    } catch (error) {
      setProblem(error instanceof Error ? error : new Error(String(error)));
      return;
    } finally {
      setIsFinding(false);
    }
    const idempotency_key = newRequestKey();
    confirm({
      title: `Discard ${plural(found.length, "dead letter")}`,
      body: <Discarded ids={found} words={chosen.words} />,
      action: "Discard",
      danger: true,
      run: async () => {
        if (found.length === 0) return "There was nothing to discard.";
        await unwrap(
          api.POST("/api/dead-letters:discard", { body: { task_ids: found, idempotency_key } }),
        );
        done();
        return `Discarded ${plural(found.length, "dead letter")}.`;
      },
    });
  }
  return (
    <>
      <Button onClick={() => setAsking({ chosen, isDry: true })}>Dry-run replay</Button>
      <Button onClick={() => setAsking({ chosen, isDry: false })}>Replay …</Button>
      <Button disabled={isFinding} onClick={() => void discard()}>
        Discard …
      </Button>
      {problem && <Failure error={problem} retry={() => void discard()} />}
      {asking !== null && (
        <ReplayDialog
          {...asking}
          onDone={readAgain}
          onClose={(isReplayed) => {
            setAsking(null);
            if (isReplayed) onDone?.();
          }}
        />
      )}
    </>
  );
}

/** Only exact ids are discarded; those of a filter are found by summing it up. */
async function idsOf(chosen: Chosen): Promise<string[]> {
  if (chosen.taskIds !== undefined) return chosen.taskIds;
  const { groups } = await readSummary(chosen.filter);
  const { job } = chosen.filter;
  return groups
    .flatMap((group) => group.task_ids)
    .filter((id) => job === "" || id.startsWith(`${job}.`));
}

function Discarded({ ids, words }: { ids: string[]; words: string }) {
  const rest = ids.length - IDS_SHOWN;
  return (
    <>
      <p>
        <Said text={shorten(words, 300)} />:{" "}
        <span className="font-mono text-xs">{ids.slice(0, IDS_SHOWN).join(", ")}</span>
        {rest > 0 && ` and ${plural(rest, "other")}`}
      </p>
      <p>
        They stay readable until retention takes them, but need nothing more: they are not run
        again, and they are not counted any more.
      </p>
    </>
  );
}

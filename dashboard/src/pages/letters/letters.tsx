/** Tasks that will not be tried again by themselves: why, which, and what to do about them. */
import { Empty, Page, Read } from "../../parts/page";
import { useLettersPlace } from "./filter";
import { LetterList } from "./list";
import { useSummary } from "./reads";
import { Groups, Matrix, ofJob } from "./summary";

export function LettersPage() {
  const [place, change] = useLettersPlace();
  // The matrix stays whole while one of its cells is looked at.
  const all = useSummary({ ...place, reason: "", stage: "" });
  const shown = useSummary(place);
  const isUnfiltered = place.type === "" && place.queue === "" && place.job === "";
  const isShowingAnything = place.settled !== "" || place.task !== "";
  return (
    <Page title="Dead letters">
      <Read query={all} what="dead letters">
        {(summary) =>
          summary.total === 0 ? (
            isUnfiltered &&
            !isShowingAnything && <None onSettled={() => change({ settled: "1" })} />
          ) : (
            <div
              className={`grid items-start gap-4 ${place.job === "" ? "lg:grid-cols-[minmax(0,2fr)_minmax(0,3fr)]" : ""}`}
            >
              {/* The sums know no job; of one job, the list itself is short enough. */}
              {place.job === "" && <Matrix summary={summary} place={place} />}
              <Groups
                groups={ofJob(shown.data?.groups ?? [], place.job)}
                place={place}
                onOpen={(group) => change({ group })}
              />
            </div>
          )
        }
      </Read>
      {(all.data?.total !== 0 || !isUnfiltered || isShowingAnything) && (
        <LetterList place={place} change={change} />
      )}
    </Page>
  );
}

function None({ onSettled }: { onSettled: () => void }) {
  return (
    <Empty title="No dead letters.">
      <p className="max-w-prose">
        A task lands here when its retries are spent, its input cannot be used, or its workers were
        lost too often: with its input, its last error and the reason, to be replayed or discarded.
      </p>
      <button type="button" className="text-accent" onClick={onSettled}>
        Show those that were settled
      </button>
    </Empty>
  );
}

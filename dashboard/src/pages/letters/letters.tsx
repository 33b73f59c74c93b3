/** Tasks that will not be tried again by themselves: why, which, and what to do about them. */
import { Empty, Page, Read } from "../../parts/page";
import { Needs } from "../../session/limits";
import { useLettersPlace } from "./filter";
import { LetterList } from "./list";
import { ReplayProvider } from "./replaying";
import { useSummary } from "./reads";
import { Groups, Matrix } from "./summary";

export function LettersPage() {
  const [place, change] = useLettersPlace();
  // The matrix stays whole while one of its cells is looked at.
  const all = useSummary({ ...place, reason: "", stage: "" });
  const shown = useSummary(place);
  const isUnfiltered = place.type === "" && place.queue === "" && place.job === "";
  const isShowingAnything = place.settled !== "" || place.task !== "";
  return (
    <Page title="Dead letters">
      <ReplayProvider>
        <Read query={all} what="dead letters">
          {(summary) =>
            summary.total === 0 ? (
              isUnfiltered &&
              !isShowingAnything && <None onSettled={() => change({ settled: "1" })} />
            ) : (
              <div className="grid items-start gap-4 lg:grid-cols-[minmax(0,2fr)_minmax(0,3fr)]">
                <Matrix summary={summary} place={place} />
                <Groups
                  groups={shown.data?.groups ?? []}
                  isCut={shown.data?.is_truncated ?? false}
                  place={place}
                  onOpen={(group) => change({ group, page: "", task: "" })}
                />
              </div>
            )
          }
        </Read>
        {(all.data?.total !== 0 || !isUnfiltered || isShowingAnything) && (
          <Needs role="data" what="Inputs and errors are">
            <LetterList place={place} change={change} groups={shown.data?.groups ?? []} />
          </Needs>
        )}
      </ReplayProvider>
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

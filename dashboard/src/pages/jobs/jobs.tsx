/** All jobs, the newest first: filtered, a page at a time, live. */
import { useMemo } from "react";
import { useSearchParams } from "wouter";
import { Button } from "../../parts/button";
import { clock, count } from "../../parts/format";
import { Empty, Page, Read } from "../../parts/page";
import { Copy } from "../../parts/show";
import { inert } from "../../parts/text";
import { useCaller } from "../../session/may";
import { FilterBar } from "./filter_bar";
import { type Filters, problemOf, readFilters, withFilters, withoutFilters } from "./filters";
import { JobList } from "./list";
import { Pager, usePage } from "./pager";
import { isLong, refusalOf, useJobs } from "./reading";
import { type Found, isGivenUp, lookedAt } from "./search";

const FIRST = "holdfast run --queue default -- echo hello";

export function JobsPage() {
  const [params] = useSearchParams();
  const { owners, queues } = useCaller();
  if (owners.length > 1 && !params.get("owner")) return <Choice field="owner" names={owners} />;
  if (queues.length > 1 && !params.get("queue")) return <Choice field="queue" names={queues} />;
  return <Listed />;
}

/** Whoever may see the jobs of several sees those of one at a time. */
function Choice({ field, names }: { field: "owner" | "queue"; names: string[] }) {
  const [params, setParams] = useSearchParams();
  return (
    <Page title="Jobs">
      <Empty title={`You may see the jobs of ${count(names.length)} ${field}s: choose one.`}>
        <div className="flex flex-wrap justify-center gap-2">
          {names.map((name) => (
            <Button key={name} onClick={() => setParams(withFilters(params, { [field]: name }))}>
              <bdi>{inert(name)}</bdi>
            </Button>
          ))}
        </div>
      </Empty>
    </Page>
  );
}

function Listed() {
  const [params, setParams] = useSearchParams();
  const address = params.toString();
  const filters = useMemo(() => readFilters(new URLSearchParams(address)), [address]);
  const page = usePage();
  const query = useJobs(filters, page.token);
  const problem = problemOf(filters) ?? refusalOf(query.error);
  const clear = () => setParams(withoutFilters(params));
  return (
    <Page title="Jobs">
      <FilterBar
        filters={filters}
        jobs={query.data?.jobs ?? []}
        problem={problem}
        onChange={(changes) => setParams(withFilters(params, changes))}
        onClear={clear}
      />
      {problem === null && (
        <Read query={query} what="jobs">
          {(found) => (
            <JobList
              key={JSON.stringify(filters)}
              jobs={found.jobs}
              filters={filters}
              isNewest={page.token === null}
              aside={
                isLong(found) && (
                  <LongSearch at={query.dataUpdatedAt} onAgain={() => void query.refetch()} />
                )
              }
              empty={<None found={found} filters={filters} page={page} onClear={clear} />}
              isOld={query.isPlaceholderData}
              pager={<Pager page={page} found={found} />}
            />
          )}
        </Read>
      )}
      {problem?.field === "page_token" && (
        <div>
          <Button onClick={page.goNewest}>Show the newest</Button>
        </div>
      )}
    </Page>
  );
}

function LongSearch({ at, onAgain }: { at: number; onAgain: () => void }) {
  return (
    <span className="text-dim text-xs">
      A long search, as of {clock(at)}.{" "}
      <button type="button" className="text-accent" onClick={onAgain}>
        Search again
      </button>
    </span>
  );
}

function None({
  found,
  filters,
  page,
  onClear,
}: {
  found: Found;
  filters: Filters;
  page: ReturnType<typeof usePage>;
  onClear: () => void;
}) {
  const { older } = found;
  if (older !== null && isGivenUp(found)) {
    return (
      <Empty title={`Nothing among the up to ${count(lookedAt(found))} jobs looked at.`}>
        <Button onClick={() => page.goOlder(older)}>Search on</Button>
      </Empty>
    );
  }
  if (Object.keys(filters).length > 0) {
    return (
      <Empty title={page.token === null ? "No job matches." : "No older job matches."}>
        <Button onClick={onClear}>Clear filters</Button>
      </Empty>
    );
  }
  if (page.token !== null) return <Empty title="There are no older jobs." />;
  return (
    <Empty title="There are no jobs yet.">
      <p>Submit the first one:</p>
      <p className="border-line bg-page rounded border px-3 py-2">
        <code className="text-ink text-xs">{FIRST}</code>
        <Copy text={FIRST} what="command" />
      </p>
    </Empty>
  );
}

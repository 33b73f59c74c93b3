/** Older and newer pages. A token leads on and never back, so the way here is kept in the history. */
import { useSearchParams } from "wouter";
import { useHistoryState } from "wouter/use-browser-location";
import { Button } from "../../parts/button";
import { count, plural } from "../../parts/format";
import { type Found, isGivenUp, lookedAt } from "./search";

/** The newest page has no token. */
type Way = { newer?: (string | null)[] };

/** The page in the address, and how to get to those before and after it. */
export function usePage() {
  const [params, setParams] = useSearchParams();
  const way = useHistoryState<Way | null>();
  const newer = way?.newer ?? [];
  const token = params.get("page");
  function go(to: string | null, pages: (string | null)[]) {
    const after = new URLSearchParams(params);
    if (to === null) after.delete("page");
    else after.set("page", to);
    setParams(after, { state: { newer: pages } satisfies Way });
    window.scrollTo({ top: 0 });
  }
  return {
    token,
    goOlder: (older: string) => go(older, [...newer, token]),
    /** Not known to those who came by a link. */
    goNewer: newer.length > 0 ? () => go(newer.at(-1) ?? null, newer.slice(0, -1)) : null,
    goNewest: () => go(null, []),
  };
}

export function Pager({ page, found }: { page: ReturnType<typeof usePage>; found: Found }) {
  const { token, goOlder, goNewer, goNewest } = page;
  const { older } = found;
  if (token === null && older === null) return null;
  return (
    <nav aria-label="Pages of the list" className="flex flex-wrap items-center gap-2">
      {token !== null && <Button onClick={goNewest}>Newest</Button>}
      {token !== null && goNewer !== null && <Button onClick={goNewer}>← Newer</Button>}
      {older !== null && (
        <Button onClick={() => goOlder(older)}>
          {isGivenUp(found) ? "Search on →" : "Older →"}
        </Button>
      )}
      {isGivenUp(found) && found.jobs.length > 0 && (
        <span className="text-dim">
          {plural(found.jobs.length, "match", "matches")} among up to {count(lookedAt(found))} jobs.
        </span>
      )}
    </nav>
  );
}

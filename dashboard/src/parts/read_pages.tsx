/** Lists that are read page by page: their rows, and a way to read on. */
import type { InfiniteData, UseInfiniteQueryResult } from "@tanstack/react-query";
import type { ReactNode } from "react";
import { Button } from "./button";
import { Failure, Loading } from "./page";

type Pages<Answer> = UseInfiniteQueryResult<InfiniteData<Answer>, Error>;

export function ReadPages<Answer>({
  query,
  what,
  children,
}: {
  query: Pages<Answer>;
  what: string;
  children: (pages: Answer[]) => ReactNode;
}) {
  const retry = () => void query.refetch();
  if (query.data === undefined) {
    return query.error ? (
      <div className="p-3">
        <Failure error={query.error} retry={retry} />
      </div>
    ) : (
      <Loading what={what} />
    );
  }
  return (
    <>
      {query.error && <Failure error={query.error} retry={retry} />}
      {children(query.data.pages)}
      {query.hasNextPage && (
        <div className="border-line border-t px-3 py-2">
          <Button disabled={query.isFetchingNextPage} onClick={() => void query.fetchNextPage()}>
            {query.isFetchingNextPage ? "Reading …" : "Read on"}
          </Button>
        </div>
      )}
    </>
  );
}

/** The frame of a page: heading, panels, and what is shown while there is nothing to show. */
import type { UseQueryResult } from "@tanstack/react-query";
import { type ReactNode, useEffect } from "react";
import { Refusal } from "../api/client";
import { inert } from "./text";

export function Page({
  title,
  heading = title,
  actions,
  children,
}: {
  title: string;
  heading?: ReactNode;
  actions?: ReactNode;
  children: ReactNode;
}) {
  useEffect(() => {
    document.title = `${inert(title)} · Holdfast`;
  }, [title]);
  return (
    <main
      className="mx-auto flex w-full max-w-[100rem] min-w-0 flex-col gap-4 p-3 sm:p-6"
      id="main"
    >
      <div className="flex flex-wrap items-center justify-between gap-2">
        <h1 className="min-w-0 text-xl font-semibold break-words">{heading}</h1>
        {actions !== undefined && <div className="flex flex-wrap gap-2">{actions}</div>}
      </div>
      {children}
    </main>
  );
}

export function Panel({
  title,
  aside,
  children,
  flush = false,
}: {
  title?: string;
  aside?: ReactNode;
  children: ReactNode;
  /** Without a margin inside: for tables. */
  flush?: boolean;
}) {
  return (
    <section
      className="border-line bg-panel min-w-0 overflow-hidden rounded-lg border"
      aria-label={title}
    >
      {title !== undefined && (
        <div className="border-line flex flex-wrap items-center justify-between gap-2 border-b px-4 py-2">
          <h2 className="font-semibold">{title}</h2>
          {aside}
        </div>
      )}
      <div className={flush ? "" : "p-4"}>{children}</div>
    </section>
  );
}

/** There is nothing yet; say what to do about it. */
export function Empty({ title, children }: { title: string; children?: ReactNode }) {
  return (
    <div className="text-dim flex flex-col items-center gap-2 px-4 py-10 text-center">
      <p className="text-ink font-medium">{title}</p>
      {children}
    </div>
  );
}

/** What failed, in the server's words, and a way to try again. */
export function Failure({ error, retry }: { error: Error; retry?: () => void }) {
  if (error instanceof Refusal && error.code === "not_allowed") return <NotAllowed error={error} />;
  return (
    <div
      role="alert"
      className="bg-bad-soft text-bad flex flex-wrap items-center justify-between gap-2 rounded border border-current px-3 py-2"
    >
      <bdi className="break-words">{inert(error.message)}</bdi>
      {retry !== undefined && (
        <button type="button" onClick={retry} className="font-medium underline">
          Try again
        </button>
      )}
    </div>
  );
}

/** Nothing is broken, and to try again is of no use: it is not for whoever is logged in. */
function NotAllowed({ error }: { error: Refusal }) {
  return (
    <p role="status" className="border-line bg-panel rounded border px-3 py-2 break-words">
      Not for you: <bdi>{inert(error.message)}</bdi>
    </p>
  );
}

export function Loading({ what }: { what: string }) {
  return (
    <p role="status" className="text-dim px-4 py-10 text-center">
      Reading {what} …
    </p>
  );
}

/** Show what was read; until then that it is being read, and what failed if it did. */
export function Read<Data>({
  query,
  what,
  children,
}: {
  query: UseQueryResult<Data, Error>;
  what: string;
  children: (data: Data) => ReactNode;
}) {
  const retry = () => void query.refetch();
  if (query.data === undefined) {
    return query.error ? <Failure error={query.error} retry={retry} /> : <Loading what={what} />;
  }
  return (
    <>
      {/* What was read before stays on the screen, but it is not passed off as new. */}
      {query.error && <Failure error={query.error} retry={retry} />}
      {children(query.data)}
    </>
  );
}

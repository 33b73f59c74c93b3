/** Finds out who looks before anything is shown, and lets him log in and out. */
import { type QueryClient, useQuery, useQueryClient } from "@tanstack/react-query";
import { type ReactNode, useEffect, useReducer, useRef, useState } from "react";
import { api, root, strangers, unwrap } from "../api/client";
import { keepCsrf, onOtherTab, readCsrf } from "../api/csrf";
import type { OpenedSession, SessionStatus } from "../api/types";
import { Loading } from "../parts/page";
import { inert } from "../parts/text";
import { LoginPage } from "./login";
import { ANYBODY, CurrentCaller, identityOf, useCaller, useScope } from "./may";
import { finishOidc, hasReturned, isReturnPage } from "./oidc";

const KEY = ["session"];
const ASK_AGAIN_MS = 2000;

function useSession() {
  const client = useQueryClient();
  const query = useQuery({
    queryKey: KEY,
    queryFn: async ({ signal }) => {
      const found = await unwrap(api.GET("/api/session", { signal }));
      const before = client.getQueryData<SessionStatus>(KEY);
      // Another tab may have logged in as somebody else.
      if (identityOf(before?.caller) !== identityOf(found.caller)) forget(client);
      return found;
    },
    staleTime: Infinity,
    refetchInterval: ({ state }) => (state.data === undefined ? ASK_AGAIN_MS : false),
  });
  // The secret beside the cookie may be gone while the answer stays the same.
  const [, look] = useReducer((looks: number) => looks + 1, 0);
  useEffect(() => {
    const ask = () => {
      look();
      void client.invalidateQueries({ queryKey: KEY });
    };
    strangers.addEventListener("seen", ask);
    const stop = onOtherTab(ask);
    return () => {
      strangers.removeEventListener("seen", ask);
      stop();
    };
  }, [client]);
  return query;
}

/** Nothing that somebody else has read is shown to the next one. */
function forget(client: QueryClient): void {
  client.removeQueries({ predicate: ({ queryKey }) => queryKey[0] !== KEY[0] });
}

/** Shows the pages to whoever may see them, and the login to everybody else. */
export function SessionGate({ children }: { children: ReactNode }) {
  const client = useQueryClient();
  const { data, error } = useSession();
  const hadSession = useRef(false);
  const [isReturning, problem] = useReturn(opened);
  function opened({ csrf, caller }: OpenedSession) {
    keepCsrf(csrf);
    forget(client);
    client.setQueryData<SessionStatus>(KEY, (before) => ({
      requires_tokens: true,
      has_oidc: before?.has_oidc ?? false,
      caller,
    }));
  }
  if (isReturning) return <Loading what="who you are" />;
  if (data === undefined) {
    // A server that is away is told by the pages themselves, each in its place.
    return error === null ? <Loading what="the dashboard" /> : children;
  }
  // A cookie without what goes with it can change nothing: one logs in again.
  const isKnown = data.caller != null && (!data.requires_tokens || readCsrf() !== null);
  if (!isKnown || data.caller == null) {
    return (
      <LoginPage
        hasOidc={data.has_oidc}
        hadSession={hadSession.current}
        problem={problem}
        onOpened={(session) => {
          opened(session);
          if (isReturnPage()) goTo(root.pathname);
        }}
      />
    );
  }
  hadSession.current = data.requires_tokens;
  const caller = data.requires_tokens ? data.caller : ANYBODY;
  return (
    <CurrentCaller key={identityOf(caller)} value={caller}>
      {children}
    </CurrentCaller>
  );
}

/** Finish a login that the identity provider has led back from, once. */
function useReturn(
  onOpened: (opened: OpenedSession) => void,
): [isReturning: boolean, problem: Error | null] {
  const [isReturning, setIsReturning] = useState(hasReturned);
  const [problem, setProblem] = useState<Error | null>(null);
  const hasBegun = useRef(false);
  useEffect(() => {
    if (hasBegun.current || !hasReturned()) return;
    hasBegun.current = true;
    finishOidc().then(
      ({ place, ...opened }) => {
        onOpened(opened);
        goTo(place);
        setIsReturning(false);
      },
      (error: unknown) => {
        setProblem(error instanceof Error ? error : new Error(String(error)));
        setIsReturning(false);
      },
    );
  });
  return [isReturning, problem];
}

/** Go to an address without a trace of this one, which holds the code of a login. */
function goTo(place: string): void {
  window.history.replaceState(null, "", place);
}

/** Who is logged in, and the way out; nothing where nobody is asked who he is. */
export function Who({ className = "" }: { className?: string }) {
  const client = useQueryClient();
  const caller = useCaller();
  const scope = useScope();
  const [isBusy, setIsBusy] = useState(false);
  const [problem, setProblem] = useState<string | null>(null);
  if (caller.name === "") return null;
  async function leave() {
    setIsBusy(true);
    setProblem(null);
    try {
      const query = { path: root.pathname };
      await unwrap(api.DELETE("/api/session", { params: { query } }));
      keepCsrf(null);
      forget(client);
      // Not the end of a session that somebody misses: begin as if nobody had been here.
      window.location.reload();
    } catch (error) {
      setIsBusy(false);
      setProblem(error instanceof Error ? error.message : String(error));
    }
  }
  const may = caller.roles.join(", ");
  const told = `${caller.name}: ${may}${scope === null ? "" : `; only ${scope}`}`;
  return (
    <div className={`flex min-w-0 items-center gap-3 ${className}`}>
      <span className="text-ink min-w-0 truncate" title={inert(told)}>
        <span className="sr-only">Logged in as </span>
        <bdi>{inert(caller.name)}</bdi>
      </span>
      <button
        type="button"
        disabled={isBusy}
        onClick={() => void leave()}
        className="hover:text-ink whitespace-nowrap"
      >
        Log out
      </button>
      {problem !== null && (
        <span role="alert" className="text-bad min-w-0 wrap-anywhere">
          Still logged in: {inert(problem)}
        </span>
      )}
    </div>
  );
}

/** The frame around all pages: where one is, where one can go, whether what one sees is live. */
import { QueryClient, QueryClientProvider } from "@tanstack/react-query";
import { lazy, type ReactNode, type RefObject, Suspense, useRef, useState } from "react";
import { Link, Redirect, Route, Router, Switch, useLocation } from "wouter";
import { Refusal, root } from "./api/client";
import { LiveProvider, useIsLive } from "./live/live";
import { ConfirmProvider } from "./parts/confirm";
import { useInSight } from "./parts/in_sight";
import { GOES, KeyHelp, useGoKeys, useKeys } from "./parts/keyboard";
import { Mishap } from "./parts/mishap";
import { Empty, Loading, Page } from "./parts/page";
import { useTheme } from "./parts/theme";
import { JobPage } from "./pages/job/job";
import { JobsPage } from "./pages/jobs/jobs";
import { LettersPage } from "./pages/letters/letters";
import { QueuesPage } from "./pages/queues/queues";
import { TaskPage } from "./pages/task/task";
import { WorkersPage } from "./pages/workers/workers";
import { ForAll } from "./session/limits";
import { useScope } from "./session/may";
import { SessionGate, Who } from "./session/session";

const OverviewPage = lazy(() => import("./pages/overview/overview"));
const ActionsPage = lazy(() => import("./pages/actions/actions"));
const DatasetsPage = lazy(() => import("./pages/datasets/datasets"));
const FunctionsPage = lazy(() => import("./pages/functions/functions"));
const DatasetPage = lazy(() => import("./pages/datasets/dataset"));
const SchedulesPage = lazy(() => import("./pages/schedules/schedules"));
const SchedulePage = lazy(() => import("./pages/schedules/schedule"));
const LimitsPage = lazy(() => import("./pages/limits/limits"));
const LimitPage = lazy(() => import("./pages/limits/limit"));

const READ_AGAIN_MAX = 2;

const client = new QueryClient({
  defaultOptions: {
    queries: {
      // What the server refuses it refuses again; what did not reach it may reach it now.
      retry: (count, error) =>
        count < READ_AGAIN_MAX &&
        (!(error instanceof Refusal) || error.status === 0 || error.status >= 500),
      retryDelay: 500,
      // The server may well be on this machine: a browser that believes itself offline asks, too.
      networkMode: "always",
      staleTime: 1000,
    },
  },
});

export function App() {
  return (
    <QueryClientProvider client={client}>
      <SessionGate>
        <LiveProvider>
          <Router base={root.pathname.replace(/\/$/, "")}>
            <ConfirmProvider>
              <Frame>
                <Pages />
              </Frame>
            </ConfirmProvider>
          </Router>
        </LiveProvider>
      </SessionGate>
    </QueryClientProvider>
  );
}

function Pages() {
  const [location] = useLocation();
  return (
    <Mishap place={location}>
      <Suspense fallback={<Loading what="the page" />}>
        <Places />
      </Suspense>
    </Mishap>
  );
}

function Places() {
  return (
    <Switch>
      <Route path="/">
        <ForAll title="Overview">
          <OverviewPage />
        </ForAll>
      </Route>
      <Route path="/jobs">
        <JobsPage />
      </Route>
      <Route path="/jobs/:id">{({ id }) => <JobPage key={id} jobId={id} />}</Route>
      <Route path="/tasks/:id">{({ id }) => <TaskPage key={id} taskId={id} />}</Route>
      <Route path="/workers">
        <ForAll title="Workers">
          <WorkersPage />
        </ForAll>
      </Route>
      <Route path="/queues">
        <ForAll title="Queues">
          <QueuesPage />
        </ForAll>
      </Route>
      <Route path="/dead-letters">
        <ForAll title="Dead letters" orQueues>
          <LettersPage />
        </ForAll>
      </Route>
      <Route path="/actions">
        <ForAll title="Actions">
          <ActionsPage />
        </ForAll>
      </Route>
      <Route path="/datasets">
        <ForAll title="Datasets">
          <DatasetsPage />
        </ForAll>
      </Route>
      <Route path="/datasets/*">
        {({ "*": name }) => (
          <ForAll title="Datasets">
            <DatasetPage key={name} name={decodeURIComponent(name)} />
          </ForAll>
        )}
      </Route>
      <Route path="/schedules">
        <ForAll title="Schedules">
          <SchedulesPage />
        </ForAll>
      </Route>
      <Route path="/schedules/:name">
        {({ name }) => (
          <ForAll title="Schedules">
            <SchedulePage key={name} name={decodeURIComponent(name)} />
          </ForAll>
        )}
      </Route>
      <Route path="/limits">
        <ForAll title="Limits">
          <LimitsPage />
        </ForAll>
      </Route>
      <Route path="/limits/:name">
        {({ name }) => (
          <ForAll title="Limits">
            <LimitPage key={name} name={decodeURIComponent(name)} />
          </ForAll>
        )}
      </Route>
      <Route path="/functions">
        <FunctionsPage />
      </Route>
      <Route path="/login">
        <Redirect to="/" replace />
      </Route>
      <Route>
        <Page title="Not found">
          <Empty title="There is no such page.">
            <Link href="/">Go to the overview</Link>
          </Empty>
        </Page>
      </Route>
    </Switch>
  );
}

function Frame({ children }: { children: ReactNode }) {
  const [isHelping, setIsHelping] = useState(false);
  const search = useRef<HTMLInputElement>(null);
  const [isDark, switchTheme] = useTheme();
  const [location] = useLocation();
  const nav = useInSight<HTMLElement>(location);
  useGoKeys();
  useKeys({
    "/": () => search.current?.focus(),
    "?": () => setIsHelping(true),
    t: switchTheme,
  });
  const themeButton = (
    <button type="button" onClick={switchTheme} className="hover:text-ink">
      {isDark ? "Light" : "Dark"}
    </button>
  );
  return (
    <div className="flex min-h-dvh flex-col md:flex-row">
      <a href="#main" className="bg-panel sr-only z-30 p-2 focus:not-sr-only focus:absolute">
        Skip to the content
      </a>
      <header className="border-line bg-panel flex shrink-0 flex-col gap-3 border-b p-3 md:sticky md:top-0 md:h-dvh md:w-52 md:border-r md:border-b-0 md:p-4">
        <div className="flex items-center justify-between">
          <Link href="/" className="text-ink text-base font-semibold hover:no-underline">
            Holdfast
          </Link>
          <div className="text-dim flex items-center gap-4 text-xs">
            <Who className="max-w-40 md:hidden" />
            <div className="md:hidden">{themeButton}</div>
            <LiveSign />
          </div>
        </div>
        <Search input={search} />
        <nav
          ref={nav}
          aria-label="Pages"
          className="-m-1 flex gap-1 overflow-x-auto p-1 md:flex-col"
        >
          {Object.values(GOES).map(([path, name]) => (
            <Place key={path} path={path} name={name} />
          ))}
        </nav>
        <div className="text-dim hidden flex-col gap-3 text-xs md:mt-auto md:flex">
          <Who className="justify-between" />
          <div className="flex gap-3">
            {themeButton}
            <button type="button" onClick={() => setIsHelping(true)} className="hover:text-ink">
              Keys
            </button>
          </div>
        </div>
      </header>
      <div className="min-w-0 flex-1">{children}</div>
      {isHelping && <KeyHelp onClose={() => setIsHelping(false)} />}
    </div>
  );
}

function Place({ path, name }: { path: string; name: string }) {
  const [location] = useLocation();
  const isHere =
    path === "/"
      ? location === "/"
      : location.startsWith(path) || (path === "/jobs" && location.startsWith("/tasks/"));
  return (
    <Link
      href={path}
      aria-current={isHere ? "page" : undefined}
      className={`rounded-md px-3 py-1.5 whitespace-nowrap hover:no-underline ${isHere ? "bg-accent-soft text-ink font-semibold" : "text-dim hover:bg-hover hover:text-ink"}`}
    >
      {name}
    </Link>
  );
}

function LiveSign() {
  const isLive = useIsLive();
  const isByTheClock = useScope() !== null;
  return (
    <span role="status" className="flex items-center gap-1.5">
      <span
        aria-hidden="true"
        className={`size-2 rounded-full ${isLive ? "bg-good" : "bg-warn animate-pulse"}`}
      />
      {isByTheClock ? "every 5 s" : isLive ? "live" : "connecting …"}
    </span>
  );
}

/** An id leads to its page; anything else is the beginning of a job's name. */
function Search({ input }: { input: RefObject<HTMLInputElement | null> }) {
  const [, go] = useLocation();
  const [text, setText] = useState("");
  return (
    <form
      role="search"
      onSubmit={(event) => {
        event.preventDefault();
        go(placeOf(text.trim()));
        setText("");
        input.current?.blur();
      }}
    >
      <input
        ref={input}
        type="search"
        value={text}
        onChange={(event) => setText(event.target.value)}
        onKeyDown={(event) => event.key === "Escape" && event.currentTarget.blur()}
        aria-label="Search: a job's id or the beginning of its name"
        placeholder="Id or name  ( / )"
        className="border-line bg-page placeholder:text-dim w-full rounded-md border px-2 py-1"
      />
    </form>
  );
}

export function placeOf(text: string): string {
  const id = /^(\d+)(?:\.(\d+)(?:\.(\d+))?)?$/.exec(text);
  if (id === null) return text === "" ? "/jobs" : `/jobs?name=${encodeURIComponent(text)}`;
  const [, job, task, attempt] = id;
  if (task === undefined) return `/jobs/${job}`;
  return `/tasks/${job}.${task}${attempt === undefined ? "" : `?attempt=${attempt}`}`;
}

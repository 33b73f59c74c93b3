/** The page in the place of all others while it is not known who looks. */
import { type FormEvent, type ReactNode, useEffect, useRef, useState } from "react";
import { api, root, unwrap } from "../api/client";
import type { OpenedSession } from "../api/types";
import { Button } from "../parts/button";
import { Failure } from "../parts/page";
import { Block } from "../parts/show";
import { useTheme } from "../parts/theme";
import { beginOidc } from "./oidc";

const CREATE = "holdfast tokens create --name ann --role submit";

export function LoginPage({
  hasOidc,
  hadSession,
  problem,
  onOpened,
}: {
  hasOidc: boolean;
  /** Whether somebody was logged in here until a moment ago. */
  hadSession: boolean;
  /** What became of a login at the identity provider. */
  problem: Error | null;
  onOpened: (opened: OpenedSession) => void;
}) {
  useTheme();
  useEffect(() => {
    document.title = "Log in · Holdfast";
  }, []);
  return (
    <main id="main" className="flex min-h-dvh items-center justify-center p-4">
      <div className="border-line bg-panel flex w-full max-w-md flex-col gap-5 rounded-lg border p-6 sm:p-8">
        <div>
          <p className="text-dim text-sm">Holdfast</p>
          <h1 className="text-xl font-semibold">Log in</h1>
        </div>
        {hadSession && (
          <p
            role="status"
            className="bg-warn-soft text-warn rounded border border-current px-3 py-2"
          >
            Your session has ended. Log in to go on where you were.
          </p>
        )}
        {problem && <Failure error={problem} />}
        {hasOidc && (
          <>
            <ProviderButton />
            <p className="text-dim flex items-center gap-3 text-xs before:h-px before:flex-1 before:bg-(--line) after:h-px after:flex-1 after:bg-(--line)">
              or
            </p>
          </>
        )}
        <TokenForm look={hasOidc ? "plain" : "main"} onOpened={onOpened} />
        <Explanation />
      </div>
    </main>
  );
}

function ProviderButton() {
  const [isBusy, run, error] = useTry();
  return (
    <>
      <Button look="main" className="py-2" disabled={isBusy} onClick={() => run(beginOidc)}>
        {isBusy ? "Going there …" : "Log in with your identity provider"}
      </Button>
      {error && <Failure error={error} />}
    </>
  );
}

function TokenForm({
  look,
  onOpened,
}: {
  look: "plain" | "main";
  onOpened: (opened: OpenedSession) => void;
}) {
  const [token, setToken] = useState("");
  const [isBusy, run, error] = useTry();
  const field = useRef<HTMLInputElement>(null);
  useEffect(() => field.current?.focus(), []);
  function submit(event: FormEvent) {
    event.preventDefault();
    run(async () => {
      const body = { token: token.trim(), path: root.pathname };
      onOpened(await unwrap(api.POST("/api/session", { body })));
    });
  }
  return (
    <form onSubmit={submit} className="flex flex-col gap-3">
      <label className="flex flex-col gap-1">
        <span className="font-medium">Token</span>
        <input
          ref={field}
          type="password"
          name="token"
          autoComplete="current-password"
          spellCheck={false}
          required
          placeholder="hf_…"
          value={token}
          onChange={(event) => setToken(event.target.value)}
          className="border-line bg-page placeholder:text-dim rounded-md border px-3 py-2 font-mono leading-6"
        />
      </label>
      {error && <Failure error={error} />}
      <Button type="submit" look={look} className="py-2" disabled={isBusy}>
        {isBusy ? "Logging in …" : "Log in"}
      </Button>
    </form>
  );
}

function Explanation(): ReactNode {
  return (
    <div className="border-line text-dim flex flex-col gap-2 border-t pt-4">
      <p>
        A token says who you are and what you may do here. Whoever runs this server makes one for
        you:
      </p>
      <Block text={CREATE} label="How to make a token" />
      <p>
        It is shown once, begins with <code>hf_</code>, and is the same that the command line and
        the client use. This browser stays logged in for up to 12 hours.
      </p>
    </div>
  );
}

/** Try something, once at a time, and keep what went wrong. */
function useTry(): [isBusy: boolean, run: (act: () => Promise<void>) => void, error: Error | null] {
  const [isBusy, setIsBusy] = useState(false);
  const [error, setError] = useState<Error | null>(null);
  async function run(act: () => Promise<void>) {
    setIsBusy(true);
    setError(null);
    try {
      await act();
    } catch (problem) {
      setError(problem instanceof Error ? problem : new Error(String(problem)));
      setIsBusy(false);
    }
  }
  return [isBusy, (act) => void run(act), error];
}

/** Ask before something is changed: the question names what will happen, and shows what failed. */
import { createContext, type ReactNode, use, useCallback, useRef, useState } from "react";
import { Button } from "./button";
import { Failure } from "./page";

export type Question = {
  title: string;
  /** What will happen, in a sentence or two. */
  body: ReactNode;
  /** The name of the button that does it. */
  action: string;
  danger?: boolean;
  /** Does it; what it returns is announced. An error stays in the dialog, to be tried again. */
  run: () => Promise<string>;
};

const Ask = createContext<(question: Question) => void>(() => {});

export function useConfirm() {
  return use(Ask);
}

export function ConfirmProvider({ children }: { children: ReactNode }) {
  const dialog = useRef<HTMLDialogElement>(null);
  const [question, setQuestion] = useState<Question | null>(null);
  const [isBusy, setIsBusy] = useState(false);
  const [error, setError] = useState<Error | null>(null);
  const [notice, setNotice] = useState("");

  const ask = useCallback((asked: Question) => {
    setQuestion(asked);
    setError(null);
    setNotice("");
    dialog.current?.showModal();
  }, []);

  async function run() {
    if (question === null) return;
    setIsBusy(true);
    setError(null);
    try {
      setNotice(await question.run());
      dialog.current?.close();
    } catch (problem) {
      setError(problem instanceof Error ? problem : new Error(String(problem)));
    } finally {
      setIsBusy(false);
    }
  }

  return (
    <Ask value={ask}>
      {children}
      <dialog
        ref={dialog}
        aria-labelledby="question"
        className="border-line bg-panel text-ink m-auto w-[min(32rem,calc(100vw-2rem))] rounded-lg border p-0 shadow-xl"
      >
        {question !== null && (
          <form
            method="dialog"
            className="flex flex-col gap-4 p-5"
            onSubmit={(event) => {
              event.preventDefault();
              void run();
            }}
          >
            <h2 id="question" className="text-lg font-semibold">
              {question.title}
            </h2>
            <div className="flex flex-col gap-2 break-words">{question.body}</div>
            {error && <Failure error={error} />}
            <div className="flex justify-end gap-2">
              <Button onClick={() => dialog.current?.close()}>Keep as it is</Button>
              <Button
                type="submit"
                look={question.danger ? "danger" : "main"}
                disabled={isBusy}
                autoFocus
              >
                {isBusy ? "Working …" : question.action}
              </Button>
            </div>
          </form>
        )}
      </dialog>
      <p
        role="status"
        className={
          notice === ""
            ? "sr-only"
            : "border-line bg-panel fixed right-4 bottom-4 z-20 rounded-md border px-4 py-2 shadow-lg"
        }
      >
        {notice}
        {notice !== "" && (
          <button
            type="button"
            aria-label="Dismiss"
            className="text-dim ml-3"
            onClick={() => setNotice("")}
          >
            ✕
          </button>
        )}
      </p>
    </Ask>
  );
}

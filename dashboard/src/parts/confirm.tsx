/** Ask before something is changed: the question names what will happen, and shows what failed. */
import {
  createContext,
  type ReactNode,
  use,
  useCallback,
  useEffect,
  useRef,
  useState,
} from "react";
import { Button } from "./button";
import { Failure } from "./page";
import { inert } from "./text";

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

const NOTICE_MS = 15_000;

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

  const current = useRef<Question | null>(null);
  const put = useCallback((asked: Question | null) => {
    current.current = asked;
    setQuestion(asked);
    setError(null);
    setIsBusy(false);
  }, []);
  const ask = useCallback(
    (asked: Question) => {
      put(asked);
      setNotice("");
      dialog.current?.showModal();
    },
    [put],
  );
  useEffect(() => {
    const fading = setTimeout(() => setNotice(""), NOTICE_MS);
    return () => clearTimeout(fading);
  }, [notice]);

  async function run() {
    if (question === null) return;
    // It may have been closed while the server was at it, or the next one been asked: then what
    // became of it is told, and the dialog is not touched.
    const isHere = () => current.current === question;
    setIsBusy(true);
    setError(null);
    try {
      setNotice(await question.run());
      if (isHere()) dialog.current?.close();
    } catch (problem) {
      const told = problem instanceof Error ? problem : new Error(String(problem));
      if (isHere()) setError(told);
      else setNotice(inert(`${question.title} It failed: ${told.message}`));
    } finally {
      if (isHere()) setIsBusy(false);
    }
  }

  return (
    <Ask value={ask}>
      {children}
      <dialog
        ref={dialog}
        // What stands in a question is read from the server, which ends with it.
        onClose={() => put(null)}
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
              {/* A key that is held too long does nothing that cannot be undone. */}
              <Button autoFocus={question.danger} onClick={() => dialog.current?.close()}>
                {isBusy ? "Close" : "Keep as it is"}
              </Button>
              <Button
                type="submit"
                look={question.danger ? "danger" : "main"}
                disabled={isBusy}
                autoFocus={!question.danger}
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
            : "border-line bg-panel fixed right-4 bottom-4 left-4 z-20 rounded-md sm:left-auto sm:max-w-lg border px-4 py-2 shadow-lg"
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

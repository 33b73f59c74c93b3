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
  /** Ask why, too; what it is for is said beside the field. */
  reasonFor?: string;
  /**
   * Does it, for a reason, which is empty where none was given or asked for; what it returns is
   * announced, and stays until it is dismissed if it is more than a text: it has links. An error
   * stays in the dialog, to be tried again.
   */
  run: (reason: string) => Promise<ReactNode>;
};

const NOTICE_MS = 15_000;

const Ask = createContext<(question: Question) => void>(() => {});

const Doing = createContext(false);

export function useConfirm() {
  return use(Ask);
}

/**
 * Whether what is asked is being done, or has been. Within a question: to plan it again would only
 * tell that it was done.
 */
export function useIsDoing() {
  return use(Doing);
}

export function ConfirmProvider({ children }: { children: ReactNode }) {
  const dialog = useRef<HTMLDialogElement>(null);
  const [question, setQuestion] = useState<Question | null>(null);
  const [isBusy, setIsBusy] = useState(false);
  const [error, setError] = useState<Error | null>(null);
  const [notice, setNotice] = useState<ReactNode>("");
  const [reason, setReason] = useState("");

  const current = useRef<Question | null>(null);
  const put = useCallback((asked: Question | null) => {
    current.current = asked;
    setQuestion(asked);
    setReason("");
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
    if (typeof notice !== "string") return;
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
      setNotice(await question.run(reason.trim()));
      if (isHere()) dialog.current?.close();
    } catch (problem) {
      const told = problem instanceof Error ? problem : new Error(String(problem));
      if (isHere()) {
        setError(told);
        setIsBusy(false);
      } else setNotice(inert(`${question.title} It failed: ${told.message}`));
    }
  }

  return (
    <Ask value={ask}>
      {children}
      <dialog
        ref={dialog}
        // What stands in a question is read from the server, which ends with it. The browser tells of
        // the end a moment later: the next one may have been asked.
        onClose={() => dialog.current?.open || put(null)}
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
            <Doing value={isBusy}>
              <div className="flex flex-col gap-2 break-words">{question.body}</div>
            </Doing>
            {question.reasonFor !== undefined && (
              <Reason text={reason} onChange={setReason} meaning={question.reasonFor} />
            )}
            {error && <Failure error={error} />}
            <div className="flex justify-end gap-2">
              {/* A key that is held too long does nothing that cannot be undone. */}
              <Button
                autoFocus={question.danger && question.reasonFor === undefined}
                onClick={() => dialog.current?.close()}
              >
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
      <div
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
      </div>
    </Ask>
  );
}

const REASON_LENGTH_MAX = 1000;

/** Enter does not send it: a key that is held too long does nothing that cannot be undone. */
function Reason(props: { text: string; onChange: (text: string) => void; meaning: string }) {
  return (
    <label className="flex flex-col gap-1">
      <span>
        Reason <span className="text-dim">({props.meaning})</span>
      </span>
      <input
        type="text"
        autoFocus
        maxLength={REASON_LENGTH_MAX}
        value={props.text}
        onChange={(event) => props.onChange(event.target.value)}
        onKeyDown={(event) => event.key === "Enter" && event.preventDefault()}
        className="border-line bg-page rounded-md border px-2 py-1"
      />
    </label>
  );
}

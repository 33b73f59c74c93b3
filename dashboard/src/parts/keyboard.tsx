/** Keys: one list of what they do, shown by `?`; none of them works while somebody types. */
import { useEffect, useRef } from "react";
import { useLocation } from "wouter";

const SEQUENCE_MS = 1000;

export const GOES: Record<string, [path: string, name: string]> = {
  "g o": ["/", "Overview"],
  "g j": ["/jobs", "Jobs"],
  "g w": ["/workers", "Workers"],
  "g q": ["/queues", "Queues"],
  "g d": ["/dead-letters", "Dead letters"],
  "g v": ["/datasets", "Datasets"],
};

const OTHERS: [keys: string, meaning: string][] = [
  ["/", "Search"],
  ["j, k", "Next row, row before"],
  ["Enter or o", "Open the row"],
  ["x", "Select the row"],
  ["[, ]", "Task before, next task of the job"],
  ["t", "Light or dark"],
  ["?", "This list"],
  ["Esc", "Close, or leave the search"],
];

function isTyping(event: KeyboardEvent): boolean {
  const target = event.target as HTMLElement;
  return (
    target.isContentEditable ||
    target.matches?.("input:not([type=checkbox], [type=radio]), textarea, select") ||
    document.querySelector("dialog[open]") !== null
  );
}

/** Call a function for a key, or for two in a row written "g j", as long as the page is shown. */
export function useKeys(keys: Record<string, (event: KeyboardEvent) => void>): void {
  const latest = useRef(keys);
  latest.current = keys;
  useEffect(() => {
    let first = "";
    let firstAt = 0;
    function press(event: KeyboardEvent) {
      if (event.ctrlKey || event.metaKey || event.altKey || isTyping(event)) return;
      const isSecond = first !== "" && performance.now() - firstAt < SEQUENCE_MS;
      const pressed = isSecond ? `${first} ${event.key}` : event.key;
      first = "";
      const act = latest.current[pressed];
      if (act !== undefined) {
        event.preventDefault();
        act(event);
      } else if (Object.keys(latest.current).some((name) => name.startsWith(`${event.key} `))) {
        first = event.key;
        firstAt = performance.now();
      }
    }
    window.addEventListener("keydown", press);
    return () => window.removeEventListener("keydown", press);
  }, []);
}

export function KeyHelp({ onClose }: { onClose: () => void }) {
  const dialog = useRef<HTMLDialogElement>(null);
  useEffect(() => dialog.current?.showModal(), []);
  const rows: [string, string][] = [
    ...Object.entries(GOES).map(([keys, [, name]]): [string, string] => [keys, `Go to ${name}`]),
    ...OTHERS,
  ];
  return (
    <dialog
      ref={dialog}
      onClose={onClose}
      aria-label="Keys"
      className="border-line bg-panel text-ink m-auto rounded-lg border p-5 shadow-xl"
    >
      <h2 className="mb-3 text-lg font-semibold">Keys</h2>
      <table>
        <tbody>
          {rows.map(([keys, meaning]) => (
            <tr key={keys}>
              <th scope="row" className="pr-6 text-left font-normal">
                <kbd className="border-line bg-page rounded border px-1.5 font-mono text-xs">
                  {keys}
                </kbd>
              </th>
              <td className="py-1">{meaning}</td>
            </tr>
          ))}
        </tbody>
      </table>
      <form method="dialog" className="mt-4 text-right">
        <button className="text-accent" autoFocus>
          Close
        </button>
      </form>
    </dialog>
  );
}

/** Where the keys that begin with g lead. */
export function useGoKeys(): void {
  const [, go] = useLocation();
  useKeys(Object.fromEntries(Object.entries(GOES).map(([keys, [path]]) => [keys, () => go(path)])));
}

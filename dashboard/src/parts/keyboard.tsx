/** Keys: one list of what they do, shown by `?`; none of them works while somebody types. */
import { type RefObject, useEffect, useRef } from "react";
import { useLocation } from "wouter";

const SEQUENCE_MS = 1000;

export const GOES: Record<string, [path: string, name: string]> = {
  "g o": ["/", "Overview"],
  "g j": ["/jobs", "Jobs"],
  "g w": ["/workers", "Workers"],
  "g q": ["/queues", "Queues"],
  "g s": ["/schedules", "Schedules"],
  "g l": ["/limits", "Limits"],
  "g d": ["/dead-letters", "Dead letters"],
  "g v": ["/datasets", "Datasets"],
  "g f": ["/functions", "Functions"],
  "g a": ["/actions", "Actions"],
};

const OTHERS: [keys: string, meaning: string][] = [
  ["/", "Search"],
  ["j, k", "Next row, row before"],
  ["Enter", "Open the row: its page, or what is below it"],
  ["o", "Unfold the row"],
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

/** Does what its key is for; false leaves the key to the browser. */
type Act = (event: KeyboardEvent) => unknown;
type Taker = {
  keys: RefObject<Record<string, Act>>;
  /** The part of the page that it is about; none is the whole page. */
  place: RefObject<HTMLElement | null> | undefined;
};

// One list for all: a key is taken once, and what follows a g is no key of its own.
const takers: Taker[] = [];
let first = "";
let firstAt = 0;

function press(event: KeyboardEvent): void {
  if (event.ctrlKey || event.metaKey || event.altKey || isTyping(event)) return;
  const isSecond = first !== "" && performance.now() - firstAt < SEQUENCE_MS;
  const pressed = isSecond ? `${first} ${event.key}` : event.key;
  first = "";
  const act = takerOf(pressed, event.target as Node)?.keys.current[pressed];
  if (act !== undefined) {
    if (act(event) !== false) event.preventDefault();
  } else if (
    takers.some(({ keys }) => Object.keys(keys.current).some((k) => k.startsWith(`${event.key} `)))
  ) {
    first = event.key;
    firstAt = performance.now();
  }
}

/** Of several tables on a page the one with the focus, or else the first. */
function takerOf(pressed: string, focus: Node): Taker | undefined {
  const able = takers.filter(
    ({ keys, place }) => keys.current[pressed] !== undefined && place?.current !== null,
  );
  const inOrder = able.toSorted(({ place: one }, { place: other }) => {
    if (!one?.current || !other?.current) return 0;
    return isBefore(one.current, other.current) ? -1 : 1;
  });
  return inOrder.findLast(({ place }) => place?.current?.contains(focus)) ?? inOrder[0];
}

function isBefore(one: Node, other: Node): boolean {
  return (one.compareDocumentPosition(other) & Node.DOCUMENT_POSITION_FOLLOWING) !== 0;
}

/** Call a function for a key, or for two in a row written "g j", as long as the page is shown. */
export function useKeys(keys: Record<string, Act>, place?: RefObject<HTMLElement | null>): void {
  const latest = useRef(keys);
  latest.current = keys;
  useEffect(() => {
    const taker = { keys: latest, place };
    if (takers.push(taker) === 1) window.addEventListener("keydown", press);
    return () => {
      takers.splice(takers.indexOf(taker), 1);
      if (takers.length === 0) window.removeEventListener("keydown", press);
    };
  }, [place]);
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

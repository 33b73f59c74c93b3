import { type ReactNode, useId, useState } from "react";

export const FIELD_LOOK =
  "border-line bg-panel placeholder:text-dim aria-invalid:border-bad h-[1.875rem] w-full min-w-0 rounded-md border px-2";

export function Labelled({
  label,
  children,
}: {
  label: string;
  children: (id: string) => ReactNode;
}) {
  const id = useId();
  return (
    <div className="min-w-0">
      <label htmlFor={id} className="text-dim block text-xs">
        {label}
      </label>
      {children(id)}
    </div>
  );
}

/** Taken on Enter, or when it is left: not every letter is worth a search through many jobs. */
export function TextField({
  label,
  value,
  onCommit,
  isWrong,
  hint,
  suggest = [],
  type = "text",
}: {
  label: string;
  value: string;
  onCommit: (value: string) => void;
  isWrong: boolean;
  hint?: string;
  suggest?: string[];
  type?: string;
}) {
  const [draft, setDraft] = useState(value);
  const [seen, setSeen] = useState(value);
  if (seen !== value) {
    setSeen(value);
    setDraft(value);
  }
  const commit = () => draft.trim() !== value && onCommit(draft.trim());
  return (
    <Labelled label={label}>
      {(id) => (
        <>
          <input
            id={id}
            type={type}
            value={draft}
            list={suggest.length > 0 ? `${id}-known` : undefined}
            placeholder={hint}
            aria-invalid={isWrong || undefined}
            autoComplete="off"
            spellCheck={false}
            onChange={(event) => setDraft(event.target.value)}
            onBlur={commit}
            onKeyDown={(event) => event.key === "Enter" && commit()}
            className={FIELD_LOOK}
          />
          {suggest.length > 0 && (
            <datalist id={`${id}-known`}>
              {suggest.map((known) => (
                <option key={known} value={known} />
              ))}
            </datalist>
          )}
        </>
      )}
    </Labelled>
  );
}

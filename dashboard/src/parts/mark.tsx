import type { ReactNode } from "react";

const LOOKS = {
  warn: "bg-warn-soft text-warn",
  bad: "bg-bad-soft text-bad",
};

/** A word that should be noticed; it reads well on any ground. */
export function Mark({ tone, children }: { tone: keyof typeof LOOKS; children: ReactNode }) {
  return (
    <span
      className={`inline-block rounded border border-current px-1.5 py-px text-xs font-medium ${LOOKS[tone]}`}
    >
      {children}
    </span>
  );
}

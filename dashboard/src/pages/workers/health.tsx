/** How a worker does: a word, and a colour that repeats it. */
export const HEALTH = ["healthy", "failing", "silent", "lost"] as const;

const DOTS: Record<string, string> = {
  healthy: "bg-good",
  failing: "bg-warn",
  silent: "bg-warn",
  lost: "bg-bad",
};

export function Health({ health }: { health: string }) {
  return (
    <span className="inline-flex items-center gap-1.5 whitespace-nowrap">
      <span
        aria-hidden="true"
        className={`size-2 shrink-0 rounded-full ${DOTS[health] ?? "bg-dim"}`}
      />
      {health}
    </span>
  );
}

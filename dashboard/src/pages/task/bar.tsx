/** A share of a whole, as a bar. */
export function Bar({
  role,
  label,
  share,
  isBad = false,
}: {
  role: "meter" | "progressbar";
  label: string;
  share: number;
  isBad?: boolean;
}) {
  const percent = Math.floor(Math.min(Math.max(share, 0), 1) * 100);
  return (
    <div
      role={role}
      aria-label={label}
      aria-valuemin={0}
      aria-valuemax={100}
      aria-valuenow={percent}
      className="bg-line my-1 h-1.5 w-40 max-w-full overflow-hidden rounded-full"
    >
      <div
        className={`h-full rounded-full transition-[width] ${isBad ? "bg-bad" : "bg-accent"}`}
        style={{ width: `${percent}%` }}
      />
    </div>
  );
}

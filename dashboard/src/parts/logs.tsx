export type LogSource =
  { kind: "attempt"; taskId: string; attempt: number } | { kind: "job"; id: string };

export function LogView({ source }: { source: LogSource }) {
  return <p>Log of {source.kind === "job" ? source.id : source.taskId}</p>;
}

export type EventSource = { kind: "job" | "task"; id: string };

export function EventList({ source }: { source: EventSource }) {
  return <p>Events of {source.id}</p>;
}

/** The fields of a spec that decide how a job runs, in words. */
import { bytes, duration, plural } from "../../parts/format";

type Spec = Record<string, unknown>;
export type Line = [name: string, text: string];

const isSpec = (value: unknown): value is Spec => typeof value === "object" && value !== null;
const seconds = (value: unknown) => duration(Number(value) * 1000);

/** One line for each field that says something. */
export function plainLines(spec: Spec): Line[] {
  const lines: (Line | null)[] = [
    ["Runs", entrypoint(spec["entrypoint"])],
    [
      "Tasks",
      typeof spec["replicas"] === "number" ? plural(spec["replicas"], "replica") : "one per input",
    ],
    ["Retries", retries(spec)],
    given(spec, "backoff", backoff),
    ["When retries are used up", exhausted(spec)],
    given(
      spec,
      "max_task_failures",
      (max) => (max === 0 ? "no failed task" : `${plural(Number(max), "failed task")} at most`),
      "Tolerates",
    ),
    given(spec, "lease", seconds),
    given(spec, "timeout", (value) => `${seconds(value)} for an attempt, then ${onTimeout(spec)}`),
    given(spec, "grace", (value) => `${seconds(value)} after SIGTERM`),
    given(spec, "scheduling_timeout", (value) => `${seconds(value)} to wait for a worker`),
    given(spec, "resources", resources),
    given(spec, "constraints", constraints),
    given(spec, "coscheduling", gang, "Gang"),
    given(spec, "depends_on", dependencies, "Depends on"),
    given(spec, "compensation", entrypoint, "Undone by"),
    given(spec, "outputs", outputs, "Writes"),
    given(spec, "bundle", String, "Workspace"),
    given(spec, "requirements", (all) => (all as unknown[]).join(", ")),
    given(spec, "environment", (all) => Object.keys(all as Spec).join(", "), "Environment"),
  ];
  return lines.filter((line): line is Line => line !== null && line[1] !== "");
}

function given(
  spec: Spec,
  field: string,
  say: (value: unknown) => string,
  name = field,
): Line | null {
  const value = spec[field];
  if (value === undefined || value === null) return null;
  return [name.charAt(0).toUpperCase() + name.slice(1).replaceAll("_", " "), say(value)];
}

function entrypoint(value: unknown): string {
  if (!isSpec(value)) return "";
  if (Array.isArray(value["command"])) return value["command"].join(" ");
  if (typeof value["shell"] === "string") return value["shell"];
  if (typeof value["function"] === "string") return value["function"];
  return "pickle" in value ? "a pickled function" : "";
}

function retries(spec: Spec): string {
  const failure = spec["max_retries_failure"] || "none";
  const preemption = spec["max_retries_preemption"] || "none";
  return `${failure} after a failure, ${preemption} after the loss of a worker`;
}

function backoff(value: unknown): string {
  if (!isSpec(value)) return "";
  const { base, factor, ceiling } = value;
  return `${seconds(base)}, ${factor} times as long each time, ${seconds(ceiling)} at most`;
}

function exhausted(spec: Spec): string {
  return spec["on_exhausted"] === "dead_letter" ? "to the dead letters" : "the task fails";
}

function onTimeout(spec: Spec): string {
  return spec["on_timeout"] === "kill" ? "it is killed" : "it has failed";
}

function resources(value: unknown): string {
  if (!isSpec(value)) return "";
  const size = (amount: unknown) => (typeof amount === "number" ? bytes(amount) : String(amount));
  const parts = [`${value["cpu"] ?? 1} cpu`];
  if (value["memory"]) parts.push(`${size(value["memory"])} memory`);
  if (value["disk"]) parts.push(`${size(value["disk"])} disk`);
  if (value["gpu"]) parts.push(`${value["gpu"]} gpu ${value["gpu_model"] ?? ""}`.trimEnd());
  if (Array.isArray(value["ports"])) parts.push(`ports ${value["ports"].join(", ")}`);
  return parts.join(", ");
}

function constraints(value: unknown): string {
  return (value as Spec[])
    .map(({ attribute, op = "=", value: wanted }) =>
      op === "exists"
        ? `${attribute} exists`
        : `${attribute} ${op} ${Array.isArray(wanted) ? `(${wanted.join(", ")})` : wanted}`,
    )
    .join(" and ");
}

function gang(value: unknown): string {
  const group = isSpec(value) ? value["group_by"] : undefined;
  return `all tasks start together${group === undefined ? "" : `, on workers with the same ${group}`}`;
}

function dependencies(value: unknown): string {
  return (value as (string | Spec)[])
    .slice(0, 20)
    .map((job) =>
      isSpec(job) ? `${job["job"]} ${job["condition"] ?? "succeeded"}` : `${job} succeeded`,
    )
    .concat((value as unknown[]).length > 20 ? ["…"] : [])
    .join(", ");
}

function outputs(value: unknown): string {
  return (value as Spec[])
    .map(({ dataset, version, mode = "append" }) => `${dataset} version ${version} (${mode})`)
    .join(", ");
}

/** The shapes of the API, by the names that the pages use. */
import type { components } from "./schema";

type Schemas = components["schemas"];
export type Job = Schemas["JobStatus"];
export type Task = Schemas["TaskStatus"];
export type Attempt = Schemas["TaskAttempt"];
export type JobAttempt = Schemas["JobAttempt"];
export type Event = Schemas["Event"];
export type Worker = Schemas["WorkerStatus"];
export type Queue = Schemas["QueueStatus"];
export type DeadLetter = Schemas["DeadLetter"];
export type DeadLetterSummary = Schemas["DeadLetterSummary"];
export type Action = Schemas["Action"];
export type Overview = Schemas["Overview"];
export type TypeStatus = Schemas["TypeStatus"];
export type TypeTimes = Schemas["TypeTimes"];
export type Function = Schemas["FunctionStatus"];
export type Parameter = Schemas["FunctionParameter"];
export type Graph = Schemas["JobGraph"];
export type Caller = Schemas["SessionCaller"];
export type SessionStatus = Schemas["SessionStatus"];
export type OpenedSession = Schemas["OpenedSession"];

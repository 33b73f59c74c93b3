/** Calls to the server: typed by its own description, refusals as errors that a page can show. */
import createClient from "openapi-fetch";
import { keepCsrf, readCsrf, root } from "./csrf";
import type { paths } from "./schema";

export { root };

/** A refusal in the server's words, or the news that there was no answer. */
export class Refusal extends Error {
  constructor(
    message: string,
    readonly code: string,
    readonly status: number,
    readonly field: string | null = null,
  ) {
    super(message);
  }
}

let clockLead = 0;

/** The server's time, by the Date of its last answer: a browser's clock may be minutes off. */
export function now(): number {
  return Date.now() + clockLead;
}

function noteClock(response: Response): void {
  const lead = Date.parse(response.headers.get("date") ?? "") - Date.now();
  // A Date has whole seconds: what is less than two of them from what is known is no news, and
  // durations on the screen do not jump to and fro with each answer.
  if (Math.abs(lead - clockLead) >= 2000) clockLead = lead;
}

/** What the server says a change lacks that shows another session's secret, or none. */
const CSRF = "the header Holdfast-Csrf";

/** Told of every answer that says: log in first. */
export const strangers = new EventTarget();

async function send(request: Request): Promise<Response> {
  const csrf = readCsrf();
  if (csrf !== null && request.method !== "GET") request.headers.set("Holdfast-Csrf", csrf);
  try {
    const response = await fetch(request);
    noteClock(response);
    if (response.status === 401) strangers.dispatchEvent(new Event("seen"));
    return response;
  } catch (problem) {
    if (problem instanceof DOMException && problem.name === "AbortError") throw problem;
    throw new Refusal("The server does not answer. Is it running?", "unreachable", 0);
  }
}

export const api = createClient<paths>({
  baseUrl: root.href.replace(/\/$/, ""),
  headers: { "Holdfast-Actor": "dashboard" },
  fetch: send,
});

type Told = { code?: string; message?: string; field?: string; details?: { lacks?: string } };
type Answer<Data> = { data?: Data; error?: unknown; response: Response };

/** Take the data of an answer; throw a Refusal if there is none. */
export async function unwrap<Data>(answer: Promise<Answer<Data>>): Promise<Data> {
  const { data, error, response } = await answer;
  if (response.ok) return data as Data;
  const told = (error as { error?: Told })?.error;
  if (told?.details?.lacks === CSRF) {
    // Kept from a session that another one has taken the cookie of: it changes nothing any more.
    keepCsrf(null);
    strangers.dispatchEvent(new Event("seen"));
  }
  throw new Refusal(
    told?.message ?? `the server answered ${response.status} ${response.statusText}`,
    told?.code ?? "unknown",
    response.status,
    told?.field ?? null,
  );
}

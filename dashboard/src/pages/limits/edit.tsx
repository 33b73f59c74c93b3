/** Set a limit, or change one: what is wrong stands at its field. */
import { useMutation, useQueryClient } from "@tanstack/react-query";
import { type ReactNode, useEffect, useId, useRef, useState } from "react";
import { api, Refusal, unwrap } from "../../api/client";
import type { Limit } from "../../api/types";
import { Button } from "../../parts/button";
import { Failure } from "../../parts/page";
import { Said } from "../../parts/show";
import {
  type Kind,
  KINDS,
  type LimitBody,
  type Problems,
  readTyped,
  type Scope,
  SCOPES,
  type Typed,
  typedOf,
} from "./words";

const LOOK = "border-line bg-page aria-invalid:border-bad w-full rounded-md border px-2 py-1";
/** The server's names of the fields. */
const FIELDS: Record<string, keyof Typed> = {
  limit: "name",
  name: "name",
  scope: "scope",
  kind: "kind",
  most: "most",
  period: "period",
  burst: "burst",
  only_for: "onlyFor",
  in_queue: "inQueue",
  in_type: "inType",
};

export function LimitDialog({ limit, onClose }: { limit: Limit | null; onClose: () => void }) {
  const dialog = useRef<HTMLDialogElement>(null);
  useEffect(() => dialog.current?.showModal(), []);
  const [typed, setTyped] = useState<Typed>(() => typedOf(limit));
  const [problems, setProblems] = useState<Problems>({});
  const put = usePut();
  const refused = put.error instanceof Refusal ? put.error : null;
  const refusedAt = FIELDS[refused?.field ?? ""];
  const problemOf = (name: keyof Typed) =>
    problems[name] ?? (refusedAt === name ? refused?.message : undefined);
  const text = (name: keyof Typed, label: string, hint?: string) => (
    <Field label={label} hint={hint} problem={problemOf(name)}>
      {(described) => (
        <input
          {...described}
          type="text"
          value={typed[name]}
          inputMode={["most", "period", "burst"].includes(name) ? "decimal" : undefined}
          onChange={(event) => {
            const { value } = event.target;
            setTyped((before) => ({ ...before, [name]: value }));
          }}
          className={LOOK}
        />
      )}
    </Field>
  );

  async function save() {
    const { body, problems: found } = readTyped(typed);
    setProblems(found);
    if (Object.keys(found).length > 0) {
      requestAnimationFrame(() =>
        dialog.current?.querySelector<HTMLElement>("[aria-invalid=true]")?.focus(),
      );
      return;
    }
    await put.mutateAsync({ name: typed.name.trim(), body }).catch(() => undefined);
  }

  return (
    <dialog
      ref={dialog}
      onClose={onClose}
      aria-labelledby="limit"
      className="border-line bg-panel text-ink m-auto w-[min(36rem,calc(100vw-2rem))] rounded-lg border p-0 shadow-xl"
    >
      <form
        className="flex flex-col gap-4 p-5"
        noValidate
        onSubmit={(event) => {
          event.preventDefault();
          if (!put.isPending && !put.isSuccess) void save();
        }}
      >
        <h2 id="limit" className="text-lg font-semibold wrap-anywhere">
          {limit === null ? (
            "Set a limit"
          ) : (
            <>
              Change <Said text={limit.name} lengthMax={128} />
            </>
          )}
        </h2>
        <fieldset disabled={put.isSuccess} className="grid min-w-0 gap-3 sm:grid-cols-2">
          {limit === null && text("name", "Name")}
          <Choice
            label="A limit of its own for"
            value={typed.scope}
            names={SCOPES}
            problem={problemOf("scope")}
            onChange={(scope: Scope) => setTyped((before) => ({ ...before, scope }))}
          />
          <Choice
            label="Of"
            value={typed.kind}
            names={KINDS}
            problem={problemOf("kind")}
            onChange={(kind: Kind) => setTyped((before) => ({ ...before, kind }))}
          />
          {text("most", "At most")}
          {typed.kind !== "concurrency" && text("period", "In so many seconds")}
          {typed.kind === "bucket" && text("burst", "Burst", "What it holds when it is full.")}
          {typed.scope !== "name" && (
            <>
              {text("onlyFor", `Only this ${typed.scope}`, "Empty: each one.")}
              {text("inQueue", "Only in queue", "Empty: in all.")}
              {text("inType", "Only for type", "Empty: for all.")}
            </>
          )}
        </fieldset>
        {put.error !== null && refusedAt === undefined && <Failure error={put.error} />}
        {put.isSuccess && (
          <p role="status">
            {put.data.changed ? "It holds from now on." : "It was so already."}{" "}
            {put.data.note != null && <Said text={put.data.note} />}
          </p>
        )}
        <div className="flex justify-end gap-2">
          <Button onClick={() => dialog.current?.close()}>
            {put.isSuccess ? "Close" : "Cancel"}
          </Button>
          {!put.isSuccess && (
            <Button type="submit" look="main" disabled={put.isPending}>
              {put.isPending ? "Working …" : "Set"}
            </Button>
          )}
        </div>
      </form>
    </dialog>
  );
}

function usePut() {
  const client = useQueryClient();
  return useMutation({
    mutationFn: ({ name, body }: { name: string; body: LimitBody }) =>
      unwrap(api.PUT("/api/limits/{limit}", { params: { path: { limit: name } }, body })),
    onSuccess: () => client.invalidateQueries({ queryKey: ["limits"] }),
  });
}

type Described = {
  id: string;
  "aria-invalid": boolean;
  "aria-describedby": string | undefined;
};

function Field({
  label,
  hint,
  problem,
  children,
}: {
  label: string;
  hint?: string;
  problem: string | undefined;
  children: (described: Described) => ReactNode;
}) {
  const id = useId();
  const note = problem ?? hint;
  return (
    <div className="min-w-0">
      <label htmlFor={id} className="text-dim text-xs">
        {label}
      </label>
      {children({
        id,
        "aria-invalid": problem !== undefined,
        "aria-describedby": note === undefined ? undefined : `${id}-note`,
      })}
      {note !== undefined && (
        <p
          id={`${id}-note`}
          className={`text-xs wrap-anywhere ${problem === undefined ? "text-dim" : "text-bad"}`}
        >
          <Said text={note} />
        </p>
      )}
    </div>
  );
}

function Choice<Name extends string>({
  label,
  value,
  names,
  problem,
  onChange,
}: {
  label: string;
  value: Name;
  names: Record<Name, string>;
  problem: string | undefined;
  onChange: (chosen: Name) => void;
}) {
  return (
    <Field label={label} problem={problem}>
      {(described) => (
        <select
          {...described}
          value={value}
          onChange={(event) => onChange(event.target.value as Name)}
          className={LOOK}
        >
          {(Object.entries(names) as [Name, string][]).map(([name, words]) => (
            <option key={name} value={name}>
              {words}
            </option>
          ))}
        </select>
      )}
    </Field>
  );
}

/** Run a function: a field for each parameter; what is wrong stands at its field. */
import { useMutation, useQueryClient } from "@tanstack/react-query";
import { type ReactNode, useEffect, useId, useRef, useState } from "react";
import { Link } from "wouter";
import { api, Refusal, unwrap } from "../../api/client";
import type { Function, Parameter } from "../../api/types";
import { Button } from "../../parts/button";
import { Failure } from "../../parts/page";
import { newRequestKey } from "../../parts/request_key";
import { Said } from "../../parts/show";
import { inert, shorten } from "../../parts/text";
import { type Problems, readCall } from "./call";

type Texts = Record<string, string>;
type Advanced = { queue: string; priority: string; owner: string };

const LOOK =
  "border-line bg-page aria-invalid:border-bad placeholder:text-dim w-full rounded-md border px-2 py-1";

export function RunDialog({ chosen, onClose }: { chosen: Function; onClose: () => void }) {
  const dialog = useRef<HTMLDialogElement>(null);
  useEffect(() => {
    dialog.current?.showModal();
    if (chosen.parameters.length > 0) return;
    // Without a field to begin with, Enter runs it.
    dialog.current?.querySelector<HTMLElement>("[type=submit]")?.focus();
  }, [chosen]);
  const announced = announcedOf(chosen);
  const [texts, setTexts] = useState<Texts>({});
  const [advanced, setAdvanced] = useState<Advanced>(announced);
  const [problems, setProblems] = useState<Problems>({});
  const client = useQueryClient();
  const submit = useSubmit();
  const refused = submit.error instanceof Refusal ? submit.error : null;
  // By the name that the server has for it; what has no field here is told below them all.
  const ofAdvanced = (name: keyof Advanced) =>
    problems[`.${name}`] ?? (refused?.field === name ? refused.message : undefined);
  const isAtField = refused?.field != null && refused.field in announced;

  async function run() {
    const { entrypoint, problems: found } = readCall(chosen.path, chosen.parameters, texts);
    if (!/^(-?\d{1,9})?$/.test(advanced.priority.trim())) {
      found[".priority"] = "Give a whole number; higher runs first.";
    }
    setProblems(found);
    if (Object.keys(found).length > 0) {
      requestAnimationFrame(() => focusFirstProblem(dialog.current));
      return;
    }
    await submit
      .mutateAsync(writeSpec(entrypoint, advanced, announced))
      .then(() => client.invalidateQueries({ queryKey: ["jobs"] }))
      .catch(() => requestAnimationFrame(() => focusFirstProblem(dialog.current)));
  }

  function runAnother() {
    submit.reset();
    requestAnimationFrame(() => dialog.current?.querySelector("textarea")?.focus());
  }

  return (
    <dialog
      ref={dialog}
      onClose={onClose}
      aria-labelledby="run"
      className="border-line bg-panel text-ink m-auto w-[min(40rem,calc(100vw-2rem))] rounded-lg border p-0 shadow-xl"
    >
      <form
        className="flex flex-col gap-4 p-5"
        noValidate
        onSubmit={(event) => {
          event.preventDefault();
          if (!submit.isPending && !submit.isSuccess) void run();
        }}
      >
        <h2 id="run" className="text-lg font-semibold wrap-anywhere">
          Run <bdi className="font-mono text-base">{shorten(inert(chosen.path), 200)}</bdi>
        </h2>
        {chosen.doc != null && (
          <p className="text-dim">
            <Said text={chosen.doc} />
          </p>
        )}
        <fieldset disabled={submit.isSuccess} className="flex min-w-0 flex-col gap-3">
          {chosen.parameters.length === 0 && <p className="text-dim">It takes no arguments.</p>}
          {chosen.parameters.map((parameter, place) => (
            <Argument
              key={parameter.name}
              parameter={parameter}
              text={texts[parameter.name] ?? ""}
              isFirst={place === 0}
              problem={problems[parameter.name]}
              onChange={(text) => setTexts((before) => ({ ...before, [parameter.name]: text }))}
            />
          ))}
          <details
            open={
              Object.keys(problems).some((name) => name.startsWith(".")) || isAtField || undefined
            }
          >
            <summary className="text-dim cursor-pointer">Queue, priority, owner</summary>
            <div className="mt-2 grid gap-3 sm:grid-cols-3">
              {(["queue", "priority", "owner"] as const).map((name) => (
                <Field key={name} name={name} problem={ofAdvanced(name)}>
                  {(described) => (
                    <input
                      {...described}
                      type="text"
                      inputMode={name === "priority" ? "numeric" : undefined}
                      value={advanced[name]}
                      placeholder={announced.queue === "" && name === "queue" ? "placed work" : ""}
                      onChange={(event) => {
                        const { value } = event.target;
                        setAdvanced((before) => ({ ...before, [name]: value }));
                      }}
                      className={LOOK}
                    />
                  )}
                </Field>
              ))}
            </div>
          </details>
        </fieldset>
        {submit.error !== null && !isAtField && <Failure error={submit.error} />}
        {submit.isSuccess && <Submitted jobId={submit.data.job_id} />}
        <div className="flex justify-end gap-2">
          <Button onClick={() => dialog.current?.close()}>
            {submit.isSuccess ? "Close" : "Cancel"}
          </Button>
          {submit.isSuccess ? (
            <Button onClick={runAnother}>Run another</Button>
          ) : (
            <Button type="submit" look="main" disabled={submit.isPending}>
              {submit.isPending ? "Working …" : "Run"}
            </Button>
          )}
        </div>
      </form>
    </dialog>
  );
}

/** Enter leads on to what was made. */
function Submitted({ jobId }: { jobId: string }) {
  const line = useRef<HTMLParagraphElement>(null);
  useEffect(() => line.current?.querySelector("a")?.focus(), []);
  return (
    <p ref={line} role="status">
      Submitted:{" "}
      <Link href={`/jobs/${jobId}`} className="underline">
        job {jobId}
      </Link>
      .
    </p>
  );
}

function Argument({
  parameter,
  text,
  isFirst,
  problem,
  onChange,
}: {
  parameter: Parameter;
  text: string;
  isFirst: boolean;
  problem: string | undefined;
  onChange: (text: string) => void;
}) {
  const hint = parameter.is_rest ? 'further ones: [1, 2] or {"a": 1}' : parameter.default;
  return (
    <Field
      name={parameter.name}
      aside={parameter.annotation ?? "JSON"}
      isRequired={parameter.required}
      problem={problem}
    >
      {(described) => (
        <textarea
          {...described}
          rows={1}
          autoFocus={isFirst}
          spellCheck={false}
          value={text}
          placeholder={hint == null ? "" : inert(hint)}
          onChange={(event) => onChange(event.target.value)}
          onKeyDown={(event) => {
            // As in a field of one line; with Shift it is a new one.
            if (event.key !== "Enter" || event.shiftKey || event.nativeEvent.isComposing) return;
            event.preventDefault();
            event.currentTarget.form?.requestSubmit();
          }}
          className={`${LOOK} field-sizing-content max-h-60 font-mono text-xs leading-6`}
        />
      )}
    </Field>
  );
}

type Described = {
  id: string;
  "aria-invalid": boolean;
  "aria-describedby": string;
  "aria-required": boolean;
};

function Field(props: {
  name: string;
  aside?: string;
  isRequired?: boolean;
  problem: string | undefined;
  children: (described: Described) => ReactNode;
}) {
  const id = useId();
  return (
    <div className="flex min-w-0 flex-col gap-1">
      <label htmlFor={id} className="wrap-anywhere">
        <Said text={props.name} lengthMax={100} />
        {props.isRequired && <span className="text-dim"> (required)</span>}
        {props.aside !== undefined && (
          <span className="text-dim ml-2 font-mono text-xs">
            <Said text={props.aside} lengthMax={100} />
          </span>
        )}
      </label>
      {props.children({
        id,
        "aria-invalid": props.problem !== undefined,
        "aria-describedby": `${id}-problem`,
        "aria-required": props.isRequired === true,
      })}
      <p id={`${id}-problem`} role="alert" className="text-bad text-sm wrap-anywhere empty:hidden">
        {props.problem === undefined ? "" : inert(props.problem)}
      </p>
    </div>
  );
}

function focusFirstProblem(dialog: HTMLDialogElement | null) {
  dialog?.querySelector<HTMLElement>("[aria-invalid=true]")?.focus();
}

function announcedOf({ options }: Function): Advanced {
  return {
    queue: options.queue ?? "",
    priority: options.priority == null ? "" : String(options.priority),
    owner: options.owner ?? "",
  };
}

/** As it is sent; what was left as announced is the server's to fill in. */
function writeSpec(entrypoint: string, advanced: Advanced, announced: Advanced): string {
  const queue = advanced.queue.trim();
  const priority = advanced.priority.trim();
  const owner = advanced.owner.trim();
  const chosen = {
    ...(queue !== "" && queue !== announced.queue && { queue }),
    ...(priority !== "" && priority !== announced.priority && { priority: Number(priority) }),
    // Also the announced one: with a key, a job is its owner's by what the request says.
    ...(owner !== "" && { owner }),
  };
  return `{"entrypoint":${entrypoint},${JSON.stringify(chosen).slice(1)}`.replace(/,}$/, "}");
}

/** The same again has the same key, so that after a lost answer it is found and not made twice. */
function useSubmit() {
  const last = useRef({ spec: "", key: "" });
  return useMutation({
    mutationFn: (spec: string) => {
      if (last.current.spec !== spec) last.current = { spec, key: newRequestKey() };
      const key = JSON.stringify(last.current.key);
      const body = JSON.parse(spec) as { entrypoint: never };
      const bodySerializer = () => `${spec.slice(0, -1)},"idempotency_key":${key}}`;
      return unwrap(api.POST("/api/jobs", { body, bodySerializer }));
    },
    // What was made under it is done with.
    onSuccess: () => {
      last.current = { spec: "", key: "" };
    },
  });
}

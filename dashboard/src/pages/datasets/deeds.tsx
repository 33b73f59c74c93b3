/** Cut over to a version, or drop one; each says before what it will do. */
import { useQueryClient } from "@tanstack/react-query";
import { Fragment, useCallback } from "react";
import { api, unwrap } from "../../api/client";
import { useConfirm } from "../../parts/confirm";
import { plural } from "../../parts/format";
import { newRequestKey } from "../../parts/request_key";
import type { Dataset, Version } from "./reads";

function useReadAgain(): () => void {
  const client = useQueryClient();
  return useCallback(() => {
    void client.invalidateQueries({
      // A sealed version stays as it is.
      predicate: ({ queryKey: [kind, what] }) => kind === "datasets" && what !== "sealed",
    });
  }, [client]);
}

export function useCutOver({ name, current_version: current }: Dataset) {
  const confirm = useConfirm();
  const readAgain = useReadAgain();
  return useCallback(
    ({ version, state }: Version) => {
      const key = newRequestKey();
      const given = { reason: "", force: false };
      confirm({
        title: `Cut ${name} over to version ${version}`,
        body: (
          // A new question begins with empty fields.
          <Fragment key={key}>
            <p>
              {current === null
                ? `Readers of ${name}, who had none so far, get version ${version}.`
                : `Readers of ${name} go from version ${current} to version ${version}, all at once.`}{" "}
              {state === "open"
                ? `Version ${version} is sealed by that: from then on nobody can add, replace or remove an entry.`
                : `Version ${version} is sealed already.`}
            </p>
            <label className="flex flex-col gap-0.5">
              <span className="text-dim text-xs">Reason, for the record</span>
              <input
                maxLength={1000}
                className="border-line bg-page rounded-md border px-2 py-1"
                onChange={(event) => {
                  given.reason = event.target.value.trim();
                }}
              />
            </label>
            {state === "open" && (
              <label className="flex items-baseline gap-2">
                <input
                  type="checkbox"
                  onChange={(event) => {
                    given.force = event.target.checked;
                  }}
                />
                <span>
                  Even if live jobs are writing it: what they commit afterwards is refused.
                </span>
              </label>
            )}
          </Fragment>
        ),
        action: `Cut over to version ${version}`,
        run: async () => {
          const { changed, previous, triggered } = await unwrap(
            api.POST("/api/datasets/{dataset}:cut-over", {
              params: { path: { dataset: name } },
              body: {
                version,
                force: given.force,
                reason: given.reason || null,
                // Forced, it is another request.
                idempotency_key: given.force ? `${key}-force` : key,
              },
            }),
          );
          readAgain();
          if (!changed) return `Version ${version} of ${name} was current already.`;
          const before = previous === null ? "" : `, after version ${previous}`;
          const started = triggered > 0 ? ` It starts ${plural(triggered, "job")}.` : "";
          return `Version ${version} of ${name} is current${before}.${started}`;
        },
      });
    },
    [confirm, readAgain, name, current],
  );
}

export function useDrop({ name }: Dataset) {
  const confirm = useConfirm();
  const readAgain = useReadAgain();
  return useCallback(
    ({ version, entries }: Version) =>
      confirm({
        title: `Drop version ${version} of ${name}`,
        body: (
          <p>
            {entries === null
              ? "Its entries are"
              : `Its ${plural(entries, "entry", "entries")} are`}{" "}
            removed from the ledger, and there is no way back; its record stays, and its number is
            never given again. The files themselves are left where they are.
          </p>
        ),
        action: `Drop version ${version}`,
        danger: true,
        run: async () => {
          const { changed } = await unwrap(
            api.POST("/api/datasets/{dataset}/versions/{version}:drop", {
              params: { path: { dataset: name, version: String(version) } },
              body: {},
            }),
          );
          readAgain();
          return changed
            ? `Version ${version} of ${name} is dropped.`
            : `Version ${version} of ${name} had been dropped already.`;
        },
      }),
    [confirm, readAgain, name],
  );
}

/** Filters and tabs live in the address, so that any view can be linked to. */
import { useCallback } from "react";
import { useSearchParams } from "wouter";

/**
 * One parameter of the address; the empty text is no parameter. Going back undoes a change, but
 * not one that `replace`s the address, as typing does.
 */
export function useParam(
  name: string,
  fallback = "",
  { replace = false } = {},
): [string, (value: string) => void] {
  const [params, setParams] = useSearchParams();
  const set = useCallback(
    (value: string) =>
      setParams(
        () => {
          // As the address is now: another parameter may have been set since this was drawn.
          const after = new URLSearchParams(window.location.search);
          if (value === "" || value === fallback) after.delete(name);
          else after.set(name, value);
          return after;
        },
        { replace },
      ),
    [setParams, name, fallback, replace],
  );
  return [params.get(name) ?? fallback, set];
}

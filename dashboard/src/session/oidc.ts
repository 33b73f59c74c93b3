/**
 * A login at an identity provider: away from here, and back to the page `login`.
 *
 * This tab keeps what it began with. An answer to a login that it has not begun is not taken.
 */
import { api, Refusal, root, unwrap } from "../api/client";
import type { OpenedSession } from "../api/types";

const KEY = `holdfast-login:${root.pathname}`;
const RETURN = new URL("login", root);

type Begun = { state: string; nonce: string; verifier: string; place: string };

/** Whether the provider has led back here. */
export function hasReturned(): boolean {
  const params = new URLSearchParams(window.location.search);
  return isReturnPage() && (params.has("code") || params.has("error"));
}

/** The page that is nothing but the way back. */
export function isReturnPage(): boolean {
  return window.location.pathname === RETURN.pathname;
}

export async function beginOidc(): Promise<void> {
  const body = { redirect_uri: RETURN.href };
  const { location, ...begun } = await unwrap(api.POST("/api/session/oidc", { body }));
  const { pathname, search, hash } = window.location;
  const place = isReturnPage() ? root.pathname : `${pathname}${search}${hash}`;
  sessionStorage.setItem(KEY, JSON.stringify({ ...begun, place } satisfies Begun));
  window.location.assign(location);
}

/** Hand in what the provider gave; returns who has logged in, and where he was before. */
export async function finishOidc(): Promise<OpenedSession & { place: string }> {
  const params = new URLSearchParams(window.location.search);
  const begun = JSON.parse(sessionStorage.getItem(KEY) ?? "null") as Begun | null;
  sessionStorage.removeItem(KEY);
  const code = params.get("code");
  if (begun === null || params.get("state") !== begun.state) {
    throw new Refusal("This tab has begun no such login. Log in again.", "unknown", 0);
  }
  if (code === null) {
    const problem = params.get("error_description") ?? params.get("error") ?? "";
    throw new Refusal(`The identity provider refused the login: ${problem}`, "unknown", 0);
  }
  const { nonce, verifier, place } = begun;
  const oidc = { code, nonce, verifier, redirect_uri: RETURN.href };
  const body = { oidc, path: root.pathname };
  return { ...(await unwrap(api.POST("/api/session", { body }))), place };
}

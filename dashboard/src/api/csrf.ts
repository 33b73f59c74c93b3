/** Where the dashboard is served, with a slash at its end; the server's <base> says so. */
export const root = new URL(document.baseURI);

/**
 * What a change shows beside the cookie of a session: told once, at the login, and kept here for all
 * tabs. Nobody who has the cookie alone can ask for it.
 *
 * Two dashboards may be below two paths of one host.
 */
const KEY = `holdfast-csrf:${root.pathname}`;

export function readCsrf(): string | null {
  return localStorage.getItem(KEY);
}

export function keepCsrf(csrf: string | null): void {
  if (csrf === null) localStorage.removeItem(KEY);
  else localStorage.setItem(KEY, csrf);
}

/** Call a function when another tab has logged in or out. */
export function onOtherTab(tell: () => void): () => void {
  const hear = (event: StorageEvent) => {
    if (event.key === KEY || event.key === null) tell();
  };
  window.addEventListener("storage", hear);
  return () => window.removeEventListener("storage", hear);
}

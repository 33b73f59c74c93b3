/** Where a dataset is shown, and what of it. */
export function datasetAddress(name: string, shown: Record<string, string> = {}): string {
  const params = new URLSearchParams(shown).toString();
  return `/datasets/${encodeURIComponent(name)}${params === "" ? "" : `?${params}`}`;
}

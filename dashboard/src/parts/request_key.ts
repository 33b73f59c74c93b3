/** A key for one request: sent again after a lost answer, it does nothing twice. */
export function newRequestKey(): string {
  // Not randomUUID, which a browser lends to pages over https only.
  const words = crypto.getRandomValues(new Uint32Array(4));
  return `dashboard-${[...words].map((word) => word.toString(36)).join("")}`;
}

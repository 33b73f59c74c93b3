/** The stream of changes, kept open for as long as somebody looks. */

const RETRY_MS_FIRST = 500;
const RETRY_MS_MAX = 8000;
/** Whoever looks at another tab for a moment comes back to a stream that is still there. */
const UNSEEN_MS = 10_000;

/**
 * Follow the stream until told to stop, connecting again for as long as it takes.
 *
 * Not in a tab that nobody sees: there it would have pages read for nobody, and a browser opens
 * no more than six connections to a server, so that a seventh tab could not read anything.
 */
export function follow(
  address: URL,
  onChange: (jobIds: string[], all: boolean) => void,
  onLive: (isLive: boolean) => void,
): () => void {
  let source: EventSource | undefined;
  let waiting: ReturnType<typeof setTimeout> | undefined;
  let retryMs = RETRY_MS_FIRST;
  let last: string | null = null;
  function connect() {
    if (last !== null) address.searchParams.set("after", last);
    source = new EventSource(address);
    source.onopen = () => {
      retryMs = RETRY_MS_FIRST;
      onLive(true);
    };
    source.onmessage = (message) => {
      last = message.lastEventId;
      const told = JSON.parse(message.data) as { job_ids: string[]; all: boolean };
      onChange(told.job_ids, told.all);
    };
    // Not left to the browser, which gives up for good when a proxy answers with an error.
    source.onerror = () => {
      disconnect();
      if (document.hidden) return;
      // Not all pages at one moment: a server that was away has enough to do.
      waiting = setTimeout(connect, retryMs * (0.5 + Math.random() / 2));
      retryMs = Math.min(retryMs * 2, RETRY_MS_MAX);
    };
  }
  function disconnect() {
    clearTimeout(waiting);
    source?.close();
    source = undefined;
    onLive(false);
  }
  function look() {
    if (document.hidden) {
      clearTimeout(waiting);
      waiting = setTimeout(disconnect, UNSEEN_MS);
    } else if (source === undefined) {
      retryMs = RETRY_MS_FIRST;
      clearTimeout(waiting);
      connect();
    } else {
      clearTimeout(waiting);
    }
  }
  document.addEventListener("visibilitychange", look);
  look();
  return () => {
    document.removeEventListener("visibilitychange", look);
    disconnect();
  };
}

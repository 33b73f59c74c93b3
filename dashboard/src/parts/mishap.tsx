import { Component, type ReactNode, useEffect } from "react";
import { Button } from "./button";
import { Failure, Page } from "./page";

/**
 * Shown in the place of a page that could not be: the frame stays, and other pages can be gone to.
 *
 * Pages that are loaded when they are gone to are the common case: an upgrade of the server takes
 * away the files that an open tab knows of.
 */
export class Mishap extends Component<
  { place: string; children: ReactNode },
  { error: Error | null }
> {
  override state = { error: null };

  static getDerivedStateFromError(problem: unknown) {
    return { error: problem instanceof Error ? problem : new Error(String(problem)) };
  }

  override componentDidUpdate(before: { place: string }) {
    if (before.place !== this.props.place && this.state.error) this.setState({ error: null });
  }

  override render() {
    if (this.state.error === null) return this.props.children;
    return (
      <Page title="This page cannot be shown">
        <Failure error={this.state.error} />
        <Recovery error={this.state.error} />
        <p>The server may have been upgraded since this tab was opened, or may be away.</p>
        <div>
          <Button onClick={() => window.location.reload()}>Reload the dashboard</Button>
        </div>
      </Page>
    );
  }
}

const LOOK_AGAIN_MS = 1000;

/**
 * Reloads the dashboard when the file that was missing can be had again: the server was away.
 *
 * To import it again would not do: what could not be loaded once is remembered as such.
 */
function Recovery({ error }: { error: Error }) {
  const [file] = /https?:\/\/\S+\.js/.exec(error.message) ?? [];
  useEffect(() => {
    if (file === undefined) return;
    let timer: ReturnType<typeof setTimeout>;
    const leaving = new AbortController();
    const { signal } = leaving;
    const look = async () => {
      // An error means that the server is still away: that is what is waited for.
      const answer = await fetch(file, { cache: "no-store", signal }).catch(() => null);
      if (signal.aborted) return;
      if (answer?.ok) window.location.reload();
      else if (answer?.status !== 404) timer = setTimeout(() => void look(), LOOK_AGAIN_MS);
    };
    timer = setTimeout(() => void look(), LOOK_AGAIN_MS);
    return () => {
      clearTimeout(timer);
      leaving.abort();
    };
  }, [file]);
  return null;
}

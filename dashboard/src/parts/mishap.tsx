import { Component, type ReactNode } from "react";
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
        <p>The server may have been upgraded since this tab was opened, or may be away.</p>
        <div>
          <Button onClick={() => window.location.reload()}>Reload the dashboard</Button>
        </div>
      </Page>
    );
  }
}

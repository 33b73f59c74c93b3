import { Empty, Page } from "../../parts/page";

export function JobsPage() {
  return (
    <Page title="JobsPage">
      <Empty title="Soon." />
    </Page>
  );
}

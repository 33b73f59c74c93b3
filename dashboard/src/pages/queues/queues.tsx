import { Empty, Page } from "../../parts/page";

export function QueuesPage() {
  return (
    <Page title="QueuesPage">
      <Empty title="Soon." />
    </Page>
  );
}

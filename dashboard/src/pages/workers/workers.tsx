import { Empty, Page } from "../../parts/page";

export function WorkersPage() {
  return (
    <Page title="WorkersPage">
      <Empty title="Soon." />
    </Page>
  );
}

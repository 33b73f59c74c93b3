import { Empty, Page } from "../../parts/page";

export default function OverviewPage() {
  return (
    <Page title="OverviewPage">
      <Empty title="Soon." />
    </Page>
  );
}

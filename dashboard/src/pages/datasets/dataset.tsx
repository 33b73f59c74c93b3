import { Empty, Page } from "../../parts/page";

export default function DatasetPage({ name: _ }: { name: string }) {
  return (
    <Page title="DatasetPage">
      <Empty title="Soon." />
    </Page>
  );
}

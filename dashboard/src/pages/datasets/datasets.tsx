import { Empty, Page } from "../../parts/page";

export default function DatasetsPage() {
  return (
    <Page title="DatasetsPage">
      <Empty title="Soon." />
    </Page>
  );
}

import { Empty, Page } from "../../parts/page";

export function JobPage({ jobId: _ }: { jobId: string }) {
  return (
    <Page title="JobPage">
      <Empty title="Soon." />
    </Page>
  );
}

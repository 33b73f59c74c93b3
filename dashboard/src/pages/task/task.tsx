import { Empty, Page } from "../../parts/page";

export function TaskPage({ taskId: _ }: { taskId: string }) {
  return (
    <Page title="TaskPage">
      <Empty title="Soon." />
    </Page>
  );
}

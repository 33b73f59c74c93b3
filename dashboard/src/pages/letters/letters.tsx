import { Empty, Page } from "../../parts/page";

export function LettersPage() {
  return (
    <Page title="LettersPage">
      <Empty title="Soon." />
    </Page>
  );
}

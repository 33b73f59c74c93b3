/** One dataset: its versions, what is in them, what differs, who read which since when. */
import type { ReactNode } from "react";
import { Link } from "wouter";
import { Page, Panel, Read } from "../../parts/page";
import { Ago, Block, Copy, Fact, Facts, Nothing, Said } from "../../parts/show";
import { Tabs } from "../../parts/tabs";
import { inert, pretty } from "../../parts/text";
import { Needs } from "../../session/limits";
import { Comparison } from "./comparison";
import { Entries } from "./entries";
import { History } from "./history";
import { type Dataset, useDataset } from "./reads";
import { Triggers } from "./triggers";
import { Versions } from "./versions";

export default function DatasetPage({ name }: { name: string }) {
  const query = useDataset(name);
  return (
    <Page
      title={`Dataset ${name}`}
      heading={
        <>
          <Link href="/datasets">Datasets</Link> <span className="text-dim">/</span>{" "}
          <bdi className="break-all">{inert(name)}</bdi> <Copy text={name} what="name" />
        </>
      }
    >
      <Read query={query} what="the dataset">
        {(dataset) => (
          <>
            <Head dataset={dataset} />
            <Tabs
              tabs={[
                ["versions", "Versions", () => <Versions dataset={dataset} />],
                [
                  "entries",
                  "Entries",
                  () => withData("Entries are", <Entries dataset={dataset} />),
                ],
                [
                  "compare",
                  "Compare",
                  () => withData("Entries are", <Comparison dataset={dataset} />),
                ],
                ["history", "Cut-overs", () => <History dataset={dataset} />],
                [
                  "triggers",
                  "Triggers",
                  () => withData("Triggers are", <Triggers dataset={dataset} />),
                ],
              ]}
            />
          </>
        )}
      </Read>
    </Page>
  );
}

function withData(what: string, children: ReactNode) {
  return (
    <Needs role="data" what={what}>
      {children}
    </Needs>
  );
}

function Head({ dataset }: { dataset: Dataset }) {
  const hasMetadata = Object.keys(dataset.metadata).length > 0;
  return (
    <Panel>
      <Facts>
        <Fact name="Current version">
          {dataset.current_version ?? <span className="text-dim">none yet</span>}
        </Fact>
        <Fact name="Newest version">{dataset.newest_version ?? <Nothing />}</Fact>
        <Fact name="Created">
          <Ago ms={dataset.created_at_ms} />
        </Fact>
        <Fact name="Created by">
          <Said text={dataset.created_by} />
        </Fact>
      </Facts>
      {hasMetadata && (
        <div className="mt-3">
          <Block text={pretty(dataset.metadata)} label="metadata" />
        </div>
      )}
    </Panel>
  );
}

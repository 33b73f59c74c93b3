/** All that is known of one worker. */
import type { ReactNode } from "react";
import type { Worker } from "../../api/types";
import { plural } from "../../parts/format";
import { Block, Clock, Fact, Facts, Id, Nothing, Said } from "../../parts/show";
import { heardAt } from "./fleet";
import { Meters } from "./meters";
import { Runs, Serves } from "./cells";

export function Details({ worker }: { worker: Worker }) {
  return (
    <div className="flex flex-col gap-4">
      <Facts>
        <Fact name="Id">
          <Id id={worker.worker_id} what="worker id" />
        </Fact>
        <Fact name="Host">
          <Said text={worker.host} />
        </Fact>
        <Fact name="Address">
          {worker.address === null ? "none: it calls the server" : <Said text={worker.address} />}
        </Fact>
        <Fact name="Registered">
          <Clock ms={worker.registered_at_ms} date />
        </Fact>
        <Fact name="Last heard">
          <Clock ms={heardAt(worker)} date />
        </Fact>
        <Fact name="Failures in a row">{worker.consecutive_failures}</Fact>
        <Lost worker={worker} />
        <Fact name="Serves">
          <Serves worker={worker} isWhole />
        </Fact>
        <Fact name="Runs">
          <Runs worker={worker} isWhole />
        </Fact>
        <Fact name="Attributes">
          <Attributes attributes={worker.attributes} />
        </Fact>
        {worker.resources !== null && (
          <Fact name="Capacity">
            <Meters worker={worker} />
          </Fact>
        )}
      </Facts>
      {worker.last_failure !== null && (
        <div>
          <h3 className="text-dim mb-1 text-xs">Last failure</h3>
          <Block label="last failure" text={worker.last_failure} />
        </div>
      )}
    </div>
  );
}

function Lost({ worker }: { worker: Worker }): ReactNode {
  if (worker.lost_at_ms === null) return null;
  return (
    <>
      <Fact name="Lost">
        <Clock ms={worker.lost_at_ms} date />
      </Fact>
      <Fact name="Cause">
        {worker.lost_cause === null ? <Nothing /> : <Said text={worker.lost_cause} />}
      </Fact>
      <Fact name="Replaced by">
        {worker.replaced_by === null ? (
          <Nothing />
        ) : (
          <Id
            id={worker.replaced_by}
            what="worker id"
            to={`/workers?worker=${encodeURIComponent(worker.replaced_by)}`}
          />
        )}
      </Fact>
    </>
  );
}

function Attributes({ attributes }: { attributes: Worker["attributes"] }) {
  const all = Object.entries(attributes);
  if (all.length === 0) return <Nothing />;
  return (
    <ul aria-label={plural(all.length, "attribute")}>
      {all.map(([name, value]) => (
        <li key={name}>
          <Said text={`${name} = ${value}`} />
        </li>
      ))}
    </ul>
  );
}

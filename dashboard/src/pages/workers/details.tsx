/** All that is known of one worker. */
import type { ReactNode } from "react";
import type { Worker } from "../../api/types";
import { count, plural } from "../../parts/format";
import { Ago, Block, Fact, Facts, Id, Nothing, Said } from "../../parts/show";
import { Runs, Serves } from "./cells";
import { Drain } from "./drain";
import { RecentAttempts } from "./recent_attempts";
import { heardAt } from "./fleet";
import { Meters } from "./meters";

export function Details({ worker }: { worker: Worker }) {
  return (
    <div className="flex flex-col gap-4 wrap-anywhere">
      <Facts>
        <Fact name="Host">
          <Said text={worker.host} />
        </Fact>
        <Fact name="Address">
          {worker.address === null ? "none: it calls the server" : <Said text={worker.address} />}
        </Fact>
        <Fact name="Registered">
          <Ago ms={worker.registered_at_ms} />
        </Fact>
        <Fact name="Last heard">
          <Ago ms={heardAt(worker)} />
        </Fact>
        {/* Of the calls of the server, not of attempts. */}
        {worker.placed && <Fact name="Failed calls in a row">{worker.consecutive_failures}</Fact>}
        <Fact name="Ended within the last hour">
          <Ended ended={worker.ended_last_hour} />
        </Fact>
        <Lost worker={worker} />
        {worker.same_process !== null && (
          <Fact name="Same process, and book">
            <Id
              id={worker.same_process}
              what="worker id"
              to={`/workers?worker=${encodeURIComponent(worker.same_process)}`}
            />
          </Fact>
        )}
        <Fact name="Serves">
          <Serves worker={worker} isWhole />
        </Fact>
        <Fact name="Runs">
          <Runs worker={worker} isWhole />
        </Fact>
        <Fact name="Attributes">
          <Attributes attributes={worker.attributes} />
        </Fact>
      </Facts>
      {worker.resources !== null && (
        <div className="max-w-72">
          <p className="text-dim mb-1 text-xs">Capacity used</p>
          <Meters worker={worker} />
        </div>
      )}
      {/* A narrow screen has no column for it. */}
      <div className="empty:hidden sm:hidden">
        <Drain worker={worker} />
      </div>
      <RecentAttempts workerId={worker.worker_id} />
      {worker.last_failure !== null && (
        <div>
          <p className="text-dim mb-1 text-xs">Last failed call</p>
          <Block label="last failure" text={worker.last_failure} />
        </div>
      )}
    </div>
  );
}

function Ended({ ended }: { ended: Worker["ended_last_hour"] }) {
  const all: [number, string][] = [
    [ended.succeeded, "succeeded"],
    [ended.failed, "failed"],
    [ended.worker_failed, "worker_failed"],
    [ended.killed, "killed"],
  ];
  const said = all.filter(([amount]) => amount > 0);
  if (said.length === 0) return <Nothing />;
  return said.map(([amount, name]) => `${count(amount)} ${name}`).join(", ");
}

function Lost({ worker }: { worker: Worker }): ReactNode {
  if (worker.lost_at_ms === null) return null;
  return (
    <>
      <Fact name="Lost">
        <Ago ms={worker.lost_at_ms} />
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

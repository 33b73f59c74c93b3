/** Which jobs a job waits for and which wait for it: a drawing, or a list where there are many. */
import { useQuery } from "@tanstack/react-query";
import { useEffect, useMemo, useState } from "react";
import { api, unwrap } from "../api/client";
import type { Graph } from "../api/types";
import { Button } from "./button";
import { isFinal, plural } from "./format";
import { Drawing } from "./graph/draw";
import type { Drawn } from "./graph/shape";
import { type Node, shapeOf, waits } from "./graph/words";
import { Empty, Read } from "./page";
import { Badge, Id, Said } from "./show";
import { Table } from "./table";

const READ_AGAIN_MS = 5000;
const NODES_MAX_DRAWN = 300;
const LAYOUT_MS_MAX = 20_000;
const WIDTH_FOR_RIGHT = 640;

export function JobGraph({ jobId }: { jobId: string }) {
  const query = useQuery({
    queryKey: ["job", jobId, "graph"],
    queryFn: () =>
      unwrap(api.GET("/api/jobs/{job_id}/graph", { params: { path: { job_id: jobId } } })),
    // News of the other jobs in it does not reach this key.
    refetchInterval: ({ state }) =>
      state.data?.nodes.some((node) => !isFinal(node.state)) ? READ_AGAIN_MS : false,
  });
  return (
    <Read query={query} what="the graph">
      {(graph) =>
        graph.nodes.length <= 1 ? (
          <Empty title="This job waits for no other, and no other waits for it.">
            <p>
              Jobs that are submitted with <code>depends_on</code> are drawn here as a graph.
            </p>
          </Empty>
        ) : (
          <Shown graph={graph} />
        )
      }
    </Read>
  );
}

function Shown({ graph }: { graph: Graph }) {
  const [isWanted, setIsWanted] = useState(false);
  const isMany = graph.nodes.length > NODES_MAX_DRAWN;
  return (
    <div className="flex min-w-0 flex-col gap-3">
      {graph.truncated && (
        <p className="text-dim">
          The graph is larger: these are the {plural(graph.nodes.length, "job")} nearest to this
          one.
        </p>
      )}
      {isMany && (
        <div className="flex flex-wrap items-center gap-3">
          <p>{plural(graph.nodes.length, "job")} are many for a drawing.</p>
          <Button onClick={() => setIsWanted(!isWanted)}>
            {isWanted ? "Show the list" : "Draw anyway"}
          </Button>
        </div>
      )}
      {isMany && !isWanted ? <Listed graph={graph} /> : <Laid graph={graph} />}
    </div>
  );
}

/** Lay out once per set of jobs and edges; a change of state only paints. */
function Laid({ graph }: { graph: Graph }) {
  const [isDown] = useState(() => window.innerWidth < WIDTH_FOR_RIGHT);
  const shape = useMemo(() => shapeOf(graph, isDown), [graph, isDown]);
  const drawn = useLayout(shape);
  if (drawn === "failed") {
    return (
      <>
        <p className="text-dim">This graph could not be laid out in time; here is the list.</p>
        <Listed graph={graph} />
      </>
    );
  }
  // What was laid out for other jobs does not fit these, and is gone in a moment.
  if (drawn === null || drawn.shape !== shape)
    return (
      <p role="status" className="text-dim py-10 text-center">
        Laying out …
      </p>
    );
  return <Drawing graph={graph} drawn={drawn.laid} />;
}

function useLayout(shape: string): { shape: string; laid: Drawn } | "failed" | null {
  const [drawn, setDrawn] = useState<{ shape: string; laid: Drawn } | "failed" | null>(null);
  useEffect(() => {
    const worker = new Worker(new URL("./graph/worker.ts", import.meta.url), { type: "module" });
    const late = setTimeout(() => {
      end();
      setDrawn("failed");
    }, LAYOUT_MS_MAX);
    function end() {
      clearTimeout(late);
      worker.terminate();
    }
    worker.onmessage = (message: MessageEvent<Drawn>) => {
      end();
      setDrawn({ shape, laid: message.data });
    };
    worker.onerror = () => {
      end();
      setDrawn("failed");
    };
    worker.postMessage(JSON.parse(shape));
    return end;
  }, [shape]);
  return drawn;
}

function Listed({ graph }: { graph: Graph }) {
  const told = useMemo(() => waits(graph), [graph]);
  const columns = [
    {
      id: "id",
      title: "Job",
      width: "6rem",
      cell: ({ job_id: id }: Node) => <Id id={id} to={`/jobs/${id}`} />,
    },
    { id: "name", title: "Name", cell: (node: Node) => <Said text={node.name} lengthMax={200} /> },
    {
      id: "state",
      title: "State",
      width: "8rem",
      cell: (node: Node) => <Badge state={node.state} />,
    },
    {
      id: "waits",
      title: "Waits for",
      width: "45%",
      cell: (node: Node) => (
        <span className="break-words">
          {told.get(node.job_id) ?? "-"}
          {node.compensates_job_id != null && `, undoes ${node.compensates_job_id}`}
        </span>
      ),
    },
  ];
  return (
    <Table
      label="Jobs of the graph"
      rows={graph.nodes}
      columns={columns}
      rowKey={(node) => node.job_id}
      empty={null}
      height="32rem"
    />
  );
}

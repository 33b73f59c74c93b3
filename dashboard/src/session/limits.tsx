/** What stands in the place of something that is not for whoever looks. */
import type { ReactNode } from "react";
import { Link } from "wouter";
import { Empty, Page, Panel } from "../parts/page";
import { inert } from "../parts/text";
import { type Role, useCaller, useLack, useScope } from "./may";

/** Content that a role is needed for; without it, a sentence that says so. */
export function Needs({ role, what, children }: { role: Role; what: string; children: ReactNode }) {
  const lack = useLack(role);
  if (lack === null) return children;
  return (
    <Panel>
      <Empty title={`${what} not shown to you.`}>
        <p className="max-w-prose">{inert(lack)}</p>
      </Empty>
    </Panel>
  );
}

/** A page on jobs of everybody: whoever is kept to some is told so, and nothing is asked for. */
export function ForAll({
  title,
  orQueues = false,
  children,
}: {
  title: string;
  /** Whether it can be kept to queues, though not to owners. */
  orQueues?: boolean;
  children: ReactNode;
}) {
  const scope = useScope();
  const { owners } = useCaller();
  if (scope === null || (orQueues && owners.length === 0)) return children;
  return (
    <Page title={title}>
      <Panel>
        <Empty title="This page is about the jobs of everybody.">
          <p className="max-w-prose">
            You are logged in for the <bdi>{inert(scope)}</bdi> only. Your jobs are in the{" "}
            <Link href="/jobs" className="underline">
              list of jobs
            </Link>
            .
          </p>
        </Empty>
      </Panel>
    </Page>
  );
}

/** Who looks at the dashboard, and what is not for him. */
import { createContext, use } from "react";
import type { Caller } from "../api/types";

export type Role = "read" | "data" | "submit" | "worker" | "admin";

/** Whoever looks where nobody is asked who he is. */
export const ANYBODY: Caller = {
  name: "",
  roles: ["read", "data", "submit", "worker", "admin"],
  owners: [],
  queues: [],
  ends_at: null,
};

export const CurrentCaller = createContext<Caller>(ANYBODY);

export function useCaller(): Caller {
  return use(CurrentCaller);
}

/** Tells callers apart by what they may see: not by when their session ends. */
export function identityOf(caller: Caller | null | undefined): string {
  if (caller == null) return "";
  return JSON.stringify([caller.name, caller.roles, caller.owners, caller.queues]);
}

/** Why a caller may not do what asks for a role; null if he may. */
export function lackOf(caller: Caller, role: Role | undefined): string | null {
  if (role === undefined || caller.roles.includes(role)) return null;
  return `This needs the role ${role}, which ${caller.name} does not have.`;
}

export function useLack(role: Role | undefined): string | null {
  return lackOf(useCaller(), role);
}

/** The jobs that a caller is kept to, in words; null if to none. */
export function scopeOf({ owners, queues }: Caller): string | null {
  const parts = [
    owners.length > 0 && `${owners.length > 1 ? "owners" : "owner"} ${owners.join(", ")}`,
    queues.length > 0 && `${queues.length > 1 ? "queues" : "queue"} ${queues.join(", ")}`,
  ].filter((part) => part !== false);
  return parts.length === 0 ? null : parts.join(" and ");
}

export function useScope(): string | null {
  return scopeOf(useCaller());
}

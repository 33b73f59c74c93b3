import { expect, test } from "vitest";
import type { Job } from "../../api/types";
import { type Answer, isGivenUp, lookedAt, PAGE_SIZE, searchPage } from "./search";

const jobs = (count: number) => Array.from({ length: count }, () => ({}) as Job);

function server(answers: Answer[]) {
  const asked: [string | null, number][] = [];
  const ask = async (token: string | null, pageSize: number) => {
    asked.push([token, pageSize]);
    return answers[asked.length - 1]!;
  };
  return { asked, ask };
}

test("a short answer with a token is not the end", async () => {
  const { asked, ask } = server([
    { jobs: jobs(3), next_page_token: "b" },
    { jobs: [], next_page_token: "c" },
    { jobs: jobs(2), next_page_token: null },
  ]);
  const found = await searchPage(ask, "a");
  expect(found).toMatchObject({ older: null, requests: 3 });
  expect(found.jobs).toHaveLength(5);
  expect(asked).toEqual([
    ["a", PAGE_SIZE],
    ["b", PAGE_SIZE - 3],
    ["c", PAGE_SIZE - 3],
  ]);
  expect(isGivenUp(found)).toBe(false);
});

test("a full page is one request", async () => {
  const { ask } = server([{ jobs: jobs(PAGE_SIZE), next_page_token: "b" }]);
  const found = await searchPage(ask, null);
  expect(found).toMatchObject({ older: "b", requests: 1 });
  expect(isGivenUp(found)).toBe(false);
});

test("a search that finds nothing is given up after five requests", async () => {
  const { asked, ask } = server(Array(9).fill({ jobs: [], next_page_token: "on" }));
  const found = await searchPage(ask, null);
  expect(asked).toHaveLength(5);
  expect(isGivenUp(found)).toBe(true);
  expect(lookedAt(found)).toBe(50_000);
});

// Reads documents as a JSON list from standard input; writes a list of what is wrong with them.
import { join } from "node:path";
import { pathToFileURL } from "node:url";

const packages = {
  "keda.sh": "@kubernetes-models/keda",
  "monitoring.coreos.com": "@kubernetes-models/prometheus-operator",
};

let text = "";
for await (const part of process.stdin) text += part;
const problems = [];
for (const document of JSON.parse(text)) {
  const [group, version] = document.apiVersion.split("/");
  const file = join(process.argv[2], packages[group], group, version, "index.js");
  const kinds = await import(pathToFileURL(file));
  try {
    new kinds[document.kind](document).validate();
  } catch (error) {
    problems.push(String(error.message));
  }
}
process.stdout.write(JSON.stringify(problems));

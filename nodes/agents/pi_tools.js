// The tools of the host for pi, which has no MCP of its own: each call is one MCP request.
import { readFileSync } from "node:fs";

const { url, token, tools } = JSON.parse(
  readFileSync(new URL("./tools.json", import.meta.url), "utf8"),
);
const headers = {
  Authorization: `Bearer ${token}`,
  "Content-Type": "application/json",
  Accept: "application/json, text/event-stream",
};

async function call(name, args, signal) {
  const body = { jsonrpc: "2.0", id: 1, method: "tools/call", params: { name, arguments: args } };
  const answer = await fetch(url, { method: "POST", headers, body: JSON.stringify(body), signal });
  if (!answer.ok) throw new Error(`the gateway answered ${answer.status}`);
  const { result, error } = await answer.json();
  if (error) throw new Error(error.message);
  if (result.isError) throw new Error(result.content[0].text);
  return { content: result.content, details: {} };
}

export default function (pi) {
  for (const { name, description, parameters } of tools)
    pi.registerTool({
      name,
      label: name,
      description,
      parameters,
      execute: (_id, args, signal) => call(name, args, signal),
    });
}

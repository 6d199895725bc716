#!/usr/bin/env node
// The tools of the host for agents without MCP servers: an extension of pi, and a program for
// others, which calls the tool that its argument names. Each call is one MCP request.
import { readFileSync } from "node:fs";
import { fileURLToPath } from "node:url";

const read = (name) => JSON.parse(readFileSync(new URL(name, import.meta.url), "utf8"));

async function call(name, args, signal) {
  const { url, authorization } = read("./gateway.json");
  const headers = {
    Authorization: authorization,
    "Content-Type": "application/json",
    Accept: "application/json, text/event-stream",
  };
  const body = { jsonrpc: "2.0", id: 1, method: "tools/call", params: { name, arguments: args } };
  const answer = await fetch(url, { method: "POST", headers, body: JSON.stringify(body), signal });
  if (!answer.ok) throw new Error(`the gateway answered ${answer.status}`);
  const { result, error } = await answer.json();
  if (error) throw new Error(error.message);
  if (result.isError) throw new Error(result.content[0].text);
  return result.content;
}

export default function (pi) {
  for (const { name, description, parametersJsonSchema } of read("./tools.json"))
    pi.registerTool({
      name,
      label: name,
      description,
      parameters: parametersJsonSchema,
      execute: async (_id, args, signal) => ({ content: await call(name, args, signal), details: {} }),
    });
}

if (process.argv[1] === fileURLToPath(import.meta.url))
  call(process.argv[2], JSON.parse(readFileSync(0, "utf8"))).then(
    ([{ text }]) => process.stdout.write(text),
    ({ message }) => {
      process.stdout.write(message);
      process.exitCode = 1;
    },
  );

// client.mjs HUTCH ADDRESS FILE: uses the host MCP server by the official SDK for
// JavaScript, and prints what it got, a JSON line each.
import { writeFileSync } from "node:fs";
import { Client } from "@modelcontextprotocol/sdk/client/index.js";
import { StdioClientTransport } from "@modelcontextprotocol/sdk/client/stdio.js";
import { ResourceUpdatedNotificationSchema } from "@modelcontextprotocol/sdk/types.js";

const [hutch, address, file] = process.argv.slice(2);
const say = (v) => console.log(JSON.stringify(v));
const client = new Client({ name: "test", version: "1" });
await client.connect(new StdioClientTransport({ command: hutch, args: ["-s", address, "mcp"], stderr: "inherit" }));
const { tools } = await client.listTools(); // from here on it holds results against the schemas
say({ server: client.getServerVersion().name, tools: tools.length });
const updated = new Promise((done) =>
  client.setNotificationHandler(ResourceUpdatedNotificationSchema, (n) => done(n.params.uri)));
await client.subscribeResource({ uri: "hutch:///status" });
await client.callTool({ name: "hutch_create", arguments: { name: "js" } });
say({ updated: await updated });
const progress = [];
const got = await client.callTool( // which ends once its progress was told, and FILE is there
  { name: "hutch_exec", arguments: { id: "js", command: `echo hello; until test -e ${file}; do sleep 0.01; done` } }, undefined,
  { onprogress: (p) => { progress.push(p.message); writeFileSync(file, ""); } });
say({ stdout: got.structuredContent.stdout, progress });
const stop = new AbortController();
const slow = client.callTool({ name: "hutch_exec", arguments: { id: "js", command: "echo up; sleep 1000" } }, undefined,
  { signal: stop.signal, onprogress: () => stop.abort("enough") });
say({ aborted: await slow.then(() => false, (e) => String(e.message ?? e)) });
const bad = await client.callTool({ name: "hutch_info", arguments: { id: "none" } });
say({ isError: bad.isError, text: bad.content[0].text });
const read = await client.readResource({ uri: "hutch:///vm/js/ctl" });
say({ text: read.contents[0].text });
say({ templates: (await client.listResourceTemplates()).resourceTemplates.length > 5 });
await client.close();

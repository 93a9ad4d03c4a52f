// The SDK's client over a configuration file of Claude Desktop's shape: it starts the
// one server that the file has, and prints what that answers.
import { readFileSync } from "node:fs";
import { Client } from "@modelcontextprotocol/sdk/client/index.js";
import { StdioClientTransport } from "@modelcontextprotocol/sdk/client/stdio.js";
import { EmptyResultSchema } from "@modelcontextprotocol/sdk/types.js";

const [entry] = Object.values(JSON.parse(readFileSync(process.argv[2], "utf8")).mcpServers);
const client = new Client({ name: "claude-desktop", version: "1.0.0" }, { capabilities: { sampling: {} } });
await client.connect(new StdioClientTransport(entry));
console.log("capabilities", JSON.stringify(client.getServerCapabilities()));

const keys = (names) => [...new Set(names.map((name) => name.slice(0, name.indexOf(":"))))].join(", ");
const failure = async (what, promise) => {
	try { await promise; return "no error"; } catch (e) { return what(e); }
};

const { tools } = await client.listTools();
console.log("servers", keys(tools.map((tool) => tool.name)));
console.log("echo", JSON.stringify(await client.callTool({ name: "fs-home:echo", arguments: { message: "hello" } })));
console.log("sum", (await client.callTool({ name: "my server é:get-sum", arguments: { a: 2, b: 40 } })).content[0].text);

const steps = [];
await client.callTool({ name: "fs-home:trigger-long-running-operation", arguments: { duration: 0.2, steps: 2 } }, undefined,
	{ onprogress: (p) => steps.push(`${p.progress}/${p.total}`) });
console.log("progress", steps[0]); // the last may come with the answer, which the SDK takes before it

for (const name of ["invalid:tool", "tool"])
	console.log(name, await failure((e) => `${e.code} ${e.message}`, client.callTool({ name, arguments: {} })));
console.log("broken:x", await failure((e) => e.code, client.callTool({ name: "broken:x", arguments: {} })));
console.log("cancelled", await failure((e) => e.code,
	client.callTool({ name: "fs-home:trigger-long-running-operation", arguments: { duration: 100, steps: 1 } }, undefined, { timeout: 200 })));

const calls = Array.from({ length: 20 }, (_, i) =>
	client.callTool({ name: (i % 2 ? "fs-home" : "my server é") + ":echo", arguments: { message: `m${i}` } }));
console.log("parallel", (await Promise.all(calls)).filter((r, i) => r.content[0].text === `Echo: m${i}`).length);

if (client.getServerCapabilities().resources) {
	console.log("resources", keys((await client.listResources()).resources.map((r) => r.uri)));
	console.log("prompts", keys((await client.listPrompts()).prompts.map((p) => p.name)));
} else {
	console.log("resources", await failure((e) => e.code, client.request({ method: "resources/list" }, EmptyResultSchema)));
}
await client.close();

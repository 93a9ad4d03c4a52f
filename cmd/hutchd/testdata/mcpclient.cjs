// mcpclient.cjs is an MCP client made with the official SDK, @modelcontextprotocol/sdk:
// it answers what servers ask for, and prints a line of JSON for each thing that it did.
//
//	node mcpclient.cjs FOLDER-WITH-NODE_MODULES PREFIX COMMAND...
const [, , folder, prefix, command, ...args] = process.argv;
const need = require('module').createRequire(folder + '/x');
const { Client } = need('@modelcontextprotocol/sdk/client/index.js');
const { StdioClientTransport } = need('@modelcontextprotocol/sdk/client/stdio.js');
const types = need('@modelcontextprotocol/sdk/types.js');

const say = (what, value) => console.log(JSON.stringify([what, value]));

async function main() {
  const client = new Client({ name: 'sdk', version: '1' }, { capabilities: { sampling: {}, elicitation: {}, roots: {} } });
  client.setRequestHandler(types.CreateMessageRequestSchema, async (q) => {
    say('asked to sample', q.params.messages.length);
    return { model: 'm', role: 'assistant', content: { type: 'text', text: 'because' } };
  });
  client.setRequestHandler(types.ElicitRequestSchema, async (q) => {
    say('asked a person', Object.keys(q.params.requestedSchema.properties).length > 0);
    return { action: 'decline' };
  });
  client.setRequestHandler(types.ListRootsRequestSchema, async () => ({ roots: [{ uri: 'file:///here', name: 'here' }] }));
  const transport = new StdioClientTransport({ command, args, env: process.env, stderr: 'inherit' });
  await client.connect(transport);
  const call = async (name, a, options) => {
    const r = await client.callTool({ name: prefix + name, arguments: a }, undefined, options);
    say(name, r.content.map((c) => c.text || c.type).join('\n'));
  };
  const tools = (await client.listTools()).tools.map((t) => t.name).filter((n) => n.startsWith(prefix));
  say('tools', tools.map((n) => n.slice(prefix.length)).filter((n) => !n.startsWith('simulate')).sort());
  await call('echo', { message: 'hello' });
  await call('get-sum', { a: 1, b: 2 });
  await call('trigger-sampling-request', { prompt: 'why' });
  await call('trigger-elicitation-request', {});
  let steps = 0;
  await call('trigger-long-running-operation', { duration: 0.2, steps: 2 }, { onprogress: () => steps++ });
  say('progress', steps > 0);
  const stop = new AbortController();
  const cut = client.callTool({ name: prefix + 'trigger-long-running-operation', arguments: { duration: 60, steps: 60 } }, undefined,
    { signal: stop.signal, onprogress: () => stop.abort('enough') });
  await cut.then(() => say('cancelled', false), () => say('cancelled', true));
  await Promise.all(Array.from({ length: 50 }, (_, i) => client.callTool({ name: prefix + 'echo', arguments: { message: String(i).repeat(100) } })))
    .then((all) => say('at once', all.filter((r, i) => r.content[0].text === 'Echo: ' + String(i).repeat(100)).length));
  await client.close();
}

main().catch((err) => { console.error(err); process.exit(1); });

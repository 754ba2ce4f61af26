// check.mjs URL: OpenAI's client for Node against `rlxrun serve`.
import assert from "node:assert";
import OpenAI from "openai";

const client = new OpenAI({ baseURL: process.argv[2], apiKey: "none", maxRetries: 0 });
const model = (await client.models.list()).data[0].id;
const ask = { model, max_tokens: 12, temperature: 0, messages: [{ role: "user", content: "Hello" }] };
const whole = await client.chat.completions.create(ask);
const answer = whole.choices[0].message.content;
assert(answer && whole.usage.completion_tokens === 12);
let text = "";
for await (const part of await client.chat.completions.create({ ...ask, stream: true })) {
  text += part.choices[0]?.delta?.content ?? "";
}
assert.equal(text, answer);
await assert.rejects(client.chat.completions.create({ ...ask, n: 0 }), (e) => e.status === 400 && e.param === "n");
assert.equal((await client.chat.completions.create({ ...ask, n: 2 })).choices[1].message.content, answer);
assert((await client.embeddings.create({ model, input: "Hello" })).data[0].embedding.length > 0);
const stopped = await client.chat.completions.create({ ...ask, stream: true, max_tokens: 200 });
for await (const _ of stopped) break; // the client goes
assert.equal((await client.chat.completions.create(ask)).choices[0].message.content, answer);
console.log("node: ok");

// An answer token by token with the official SDK: npm install openai
import OpenAI from "openai";

const client = new OpenAI({
  baseURL: `${process.env.BERTH_URL}/v1`,
  apiKey: process.env.BERTH_KEY,
});
const model = process.argv[2] ?? "alice/qwen3-coder-30b";

const stream = await client.chat.completions.create({
  model,
  messages: [{ role: "user", content: "Write a haiku about ships." }],
  stream: true,
  stream_options: { include_usage: true },
});
for await (const chunk of stream) {
  process.stdout.write(chunk.choices[0]?.delta?.content ?? "");
  if (chunk.usage) console.log(`\n(${chunk.usage.completion_tokens} tokens)`);
}

// The same with Vercel's AI SDK: npm install ai @ai-sdk/openai-compatible
import { createOpenAICompatible } from "@ai-sdk/openai-compatible";
import { streamText } from "ai";

const berth = createOpenAICompatible({
  name: "berth",
  baseURL: `${process.env.BERTH_URL}/v1`,
  apiKey: process.env.BERTH_KEY,
  includeUsage: true,
});
const model = process.argv[2] ?? "alice/qwen3-coder-30b";

const result = streamText({ model: berth(model), prompt: "Write a haiku about ships." });
for await (const text of result.textStream) process.stdout.write(text);
const usage = await result.usage;
console.log(`\n(${usage.outputTokens} tokens)`);

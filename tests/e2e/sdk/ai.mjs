// What a user of `ai` with `@ai-sdk/openai-compatible` sees. One line of JSON a case:
//   BERTH_URL=http://... BERTH_KEY=... node ai.mjs MODEL [CASE...]
import { embed, generateText, streamText } from 'ai'
import { createOpenAICompatible } from '@ai-sdk/openai-compatible'

const [model, ...only] = process.argv.slice(2)
const settings = { name: 'berth', baseURL: process.env.BERTH_URL + '/v1',
  apiKey: process.env.BERTH_KEY }
const provider = createOpenAICompatible({ ...settings, includeUsage: true })
const plain = createOpenAICompatible(settings)
const ask = { prompt: 'count from 41', maxOutputTokens: 20, temperature: 0, maxRetries: 0 }

async function collect(stream) {
  let text = '', pieces = 0
  for await (const piece of stream.textStream) { text += piece; pieces++ }
  return { text, pieces, finish: await stream.finishReason, usage: await stream.usage }
}

const cases = {
  generate: async () => {
    const r = await generateText({ model: provider(model), ...ask })
    return { text: r.text, finish: r.finishReason, usage: r.usage }
  },
  stream: async () => collect(streamText({ model: plain(model), ...ask })),
  stream_usage: async () => collect(streamText({ model: provider(model), ...ask })),
  abort: async () => {
    const controller = new AbortController()
    const stream = streamText({ model: provider(model), ...ask, maxOutputTokens: 900,
      abortSignal: controller.signal, onError() {} })
    let pieces = 0
    try {
      for await (const _ of stream.textStream) if (++pieces === 3) controller.abort()
    } catch { /* aborted */ }
    return { pieces }
  },
  embed: async () => {
    const r = await embed({ model: provider.textEmbeddingModel(model), value: 'one' })
    return { length: r.embedding.length, usage: r.usage }
  },
}

for (const [name, run] of Object.entries(cases)) {
  if (only.length && !only.includes(name)) continue
  try {
    console.log(JSON.stringify({ case: name, result: await run() }))
  } catch (e) {
    console.log(JSON.stringify({ case: name, error: `${e.constructor.name}: ${e.message}` }))
  }
}

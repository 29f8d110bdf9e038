// What a user of the official `openai` SDK sees. One line of JSON a case:
//   BERTH_URL=http://... BERTH_KEY=... node openai.mjs MODEL [CASE...]
import OpenAI from 'openai'

const [model, ...only] = process.argv.slice(2)
const baseURL = process.env.BERTH_URL + '/v1'
const client = new OpenAI({ baseURL, apiKey: process.env.BERTH_KEY, maxRetries: 0 })
const ask = { model, messages: [{ role: 'user', content: 'count from 41' }], max_tokens: 20,
  temperature: 0 }

async function collect(stream, stopAfter = Infinity) {
  const seen = { text: '', pieces: 0, finish: null, usage: null, usages: 0 }
  for await (const event of stream) {
    if (event.usage) { seen.usage = event.usage; seen.usages++ }
    const choice = event.choices[0]
    if (choice?.finish_reason) seen.finish = choice.finish_reason
    if (choice?.delta?.content) { seen.text += choice.delta.content; seen.pieces++ }
    if (seen.pieces >= stopAfter) break // leaving the loop aborts the request
  }
  return seen
}

const failure = async call => {
  try { await call; return { class: 'none' } } catch (e) {
    return { class: e.constructor.name, status: e.status, code: e.code, type: e.type,
      message: e.message }
  }
}

const cases = {
  models: async () => {
    const list = await client.models.list()
    return list.data.map(m => m.id)
  },
  chat: async () => {
    const r = await client.chat.completions.create(ask)
    const choice = r.choices[0]
    return { text: choice.message.content, finish: choice.finish_reason, usage: r.usage,
      model: r.model }
  },
  stream: async () => collect(await client.chat.completions.create({ ...ask, stream: true })),
  stream_usage: async () => collect(await client.chat.completions.create(
    { ...ask, stream: true, stream_options: { include_usage: true } })),
  completion: async () => {
    const r = await client.completions.create({ model, prompt: 'from 7', max_tokens: 3 })
    return { text: r.choices[0].text, usage: r.usage }
  },
  embeddings: async () => {
    const r = await client.embeddings.create({ model, input: ['one', 'two'] })
    return { count: r.data.length, length: r.data[0].embedding.length, usage: r.usage }
  },
  abort: async () => {
    const long = { ...ask, max_tokens: 900, stream: true }
    return collect(await client.chat.completions.create(long), 3)
  },
  abort_silent: async () => {
    const controller = new AbortController()
    setTimeout(() => controller.abort(), 150)
    return failure(client.chat.completions.create({ ...ask, max_tokens: 900 },
      { signal: controller.signal }))
  },
  unknown_model: () => failure(client.chat.completions.create({ ...ask, model: model + 'x' })),
  wrong_key: () => failure(new OpenAI({ baseURL, apiKey: 'sk-wrong', maxRetries: 0 })
    .chat.completions.create(ask)),
}

for (const [name, run] of Object.entries(cases)) {
  if (only.length && !only.includes(name)) continue
  try {
    console.log(JSON.stringify({ case: name, result: await run() }))
  } catch (e) {
    console.log(JSON.stringify({ case: name, error: `${e.constructor.name}: ${e.message}` }))
  }
}

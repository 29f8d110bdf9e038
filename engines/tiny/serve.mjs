#!/usr/bin/env node
// The tiny engine: an OpenAI-compatible server over llama.cpp (npm @fugood/llama.node).
//
// It serves any GGUF with its chat template. The demo and the tests run it where vLLM or
// llama-server would stand in production; see README.md for the options.
import fs from 'node:fs'
import http from 'node:http'
import path from 'node:path'
import { randomBytes } from 'node:crypto'
import { Llama } from './llama.mjs'
import { parse, usage } from './options.mjs'

const opt = parse(process.argv.slice(2))
if (typeof opt === 'string') {
  console.error(opt === 'help' ? usage : `serve.mjs: ${opt}\n${usage}`)
  process.exit(opt === 'help' ? 0 : 2)
}
const name = opt.servedModelName || path.basename(opt.model, '.gguf')
const key = process.env.TINY_API_KEY || ''
const started = Math.floor(Date.now() / 1000)
const engine = new Llama(opt)
const live = new Set() // answers being made
const total = { ok: 0, cancelled: 0, prompt: 0, completion: 0 }
let draining = false

const sleep = ms => new Promise(done => setTimeout(done, ms))

// ---- HTTP -----------------------------------------------------------------------------------

function send(res, status, body, headers = {}) {
  const text = typeof body === 'string' ? body : JSON.stringify(body)
  const type = typeof body === 'string' ? 'text/plain; version=0.0.4' : 'application/json'
  const length = Buffer.byteLength(text)
  res.writeHead(status, { 'content-type': type, 'content-length': length, ...headers })
  res.end(text)
}

function fail(res, status, message, type = 'invalid_request_error', headers) {
  send(res, status, { error: { message, type, param: null, code: status } }, headers)
}

class BadRequest extends Error {
  constructor(message, status = 400, type = 'invalid_request_error') {
    super(message)
    Object.assign(this, { status, type })
  }
}

async function readJson(req) {
  const parts = []
  let size = 0
  for await (const part of req) {
    size += part.length
    if (size > 64 << 20) throw new BadRequest('the body is larger than 64 MiB', 413)
    parts.push(part)
  }
  let body
  try { body = JSON.parse(Buffer.concat(parts).toString()) } catch { body = null }
  if (body === null || typeof body !== 'object') throw new BadRequest('the body is not JSON')
  if (body.model !== undefined && body.model !== name)
    throw new BadRequest(`The model \`${body.model}\` does not exist.`, 404, 'NotFoundError')
  return body
}

// ---- answers --------------------------------------------------------------------------------

// What the request asks of the engine: { messages | prompt, tokens, max }.
async function wanted(body, chat) {
  if (body.tools?.length) throw new BadRequest('this engine calls no tools')
  if ((body.n ?? 1) !== 1) throw new BadRequest('this engine gives one answer: n must be 1')
  let input
  if (chat) {
    if (!Array.isArray(body.messages) || !body.messages.length)
      throw new BadRequest('messages must be a list with at least one message')
    const flat = c => typeof c === 'string' ? c
      : [].concat(c ?? []).filter(p => p.type === 'text').map(p => p.text).join('')
    input = { messages: body.messages.map(m => ({ role: m.role, content: flat(m.content) })) }
  } else {
    if (typeof body.prompt !== 'string') throw new BadRequest('prompt must be a string')
    input = { prompt: body.prompt }
  }
  const tokens = await engine.countTokens(input)
  const room = opt.maxModelLen - tokens
  if (room < 1)
    throw new BadRequest(`This model's maximum context length is ${opt.maxModelLen} tokens; ` +
      `the prompt has ${tokens}.`)
  const max = body.max_completion_tokens ?? body.max_tokens ?? (chat ? room : 16)
  if (!Number.isInteger(max) || max < 1)
    throw new BadRequest('max_tokens must be a positive integer')
  return { ...input, tokens, max: Math.min(max, room) }
}

// One answer on its way to one client. Pieces leave in order, each after its delay.
class Answer {
  constructor(req, res, body, want, chat) {
    Object.assign(this, { res, body, want, chat, pieces: 0, text: '', gone: false })
    this.id = (chat ? 'chatcmpl-' : 'cmpl-') + randomBytes(12).toString('hex')
    this.head = { id: this.id, created: Math.floor(Date.now() / 1000), model: name }
    this.requestId = req.headers['x-request-id'] || this.id
    this.queue = Promise.resolve()
    this.options = body.stream_options ?? {}
  }

  usage(completion) {
    const prompt = this.want.tokens
    return { prompt_tokens: prompt, completion_tokens: completion,
      total_tokens: prompt + completion }
  }

  chunk(delta, finish) {
    const choice = this.chat ? { index: 0, delta, logprobs: null, finish_reason: finish }
      : { index: 0, text: delta.content ?? '', logprobs: null, finish_reason: finish }
    const object = this.chat ? 'chat.completion.chunk' : 'text_completion'
    return { ...this.head, object, choices: [choice] }
  }

  write(event) {
    if (this.gone) return
    if (!this.res.headersSent) {
      this.res.writeHead(200, { 'content-type': 'text/event-stream; charset=utf-8',
        'cache-control': 'no-cache', 'x-request-id': this.requestId })
      if (this.chat) this.write(this.chunk({ role: 'assistant', content: '' }, null))
    }
    const text = typeof event === 'string' ? event : JSON.stringify(event)
    this.res.write(`data: ${text}\n\n`)
  }

  piece(text) {
    this.text += text
    const count = ++this.pieces
    this.queue = this.queue.then(async () => {
      if (opt.tokenDelayMs && !this.gone) await sleep(opt.tokenDelayMs)
      if (!this.body.stream) return
      const event = this.chunk({ content: text }, null)
      if (this.options.continuous_usage_stats) event.usage = this.usage(count)
      this.write(event)
    })
  }

  end(reason) {
    if (!this.body.stream) {
      const choice = this.chat
        ? { index: 0, message: { role: 'assistant', content: this.text }, logprobs: null,
            finish_reason: reason }
        : { index: 0, text: this.text, logprobs: null, finish_reason: reason }
      const object = this.chat ? 'chat.completion' : 'text_completion'
      const body = { ...this.head, object, choices: [choice], usage: this.usage(this.pieces) }
      return send(this.res, 200, body, { 'x-request-id': this.requestId })
    }
    this.write(this.chunk({}, reason))
    if (this.options.include_usage)
      this.write({ ...this.chunk({}, null), choices: [], usage: this.usage(this.pieces) })
    this.write('[DONE]')
    this.res.end()
  }
}

async function generate(req, res, chat) {
  const body = await readJson(req)
  const want = await wanted(body, chat)
  const answer = new Answer(req, res, body, want, chat)
  const run = engine.start(want, body, piece => answer.piece(piece))
  const entry = { cancel: () => { answer.gone = true; run.cancel() } }
  live.add(entry)
  res.on('close', () => { if (!res.writableFinished) entry.cancel() })
  try {
    const reason = await run.done
    await answer.queue
    if (answer.gone) throw new Error('cancelled')
    answer.end(reason)
    total.ok++
  } catch (e) {
    if (answer.gone) {
      total.cancelled++
      res.destroy()
    } else if (res.headersSent) {
      answer.write({ error: { message: e.message, type: 'InternalServerError', code: 500 } })
      res.end()
    } else throw e
  } finally {
    live.delete(entry)
    total.prompt += want.tokens
    total.completion += answer.pieces
  }
}

async function embeddings(req, res) {
  if (!opt.embeddings) throw new BadRequest('this server was started without --embeddings')
  const body = await readJson(req)
  const input = [].concat(body.input ?? [])
  if (!input.length || input.some(x => typeof x !== 'string'))
    throw new BadRequest('input must be a string or a list of strings')
  let tokens = 0
  const data = []
  for (const [index, text] of input.entries()) {
    tokens += await engine.countTokens({ prompt: text })
    const v = await engine.embed(text)
    const embedding = body.encoding_format === 'base64'
      ? Buffer.from(v.buffer).toString('base64') : [...v]
    data.push({ object: 'embedding', index, embedding })
  }
  send(res, 200, { object: 'list', data, model: name,
    usage: { prompt_tokens: tokens, total_tokens: tokens } })
}

function metrics() {
  const rows = [['num_requests_running', 'gauge', live.size],
    ['request_success_total', 'counter', total.ok],
    ['request_cancelled_total', 'counter', total.cancelled],
    ['prompt_tokens_total', 'counter', total.prompt],
    ['generation_tokens_total', 'counter', total.completion]]
  return rows.map(([metric, kind, value]) =>
    `# TYPE tiny:${metric} ${kind}\ntiny:${metric}{model_name="${name}"} ${value}\n`).join('')
}

// ---- routes ---------------------------------------------------------------------------------

async function route(req, res) {
  const at = `${req.method} ${new URL(req.url, 'http://tiny').pathname}`
  if (at === 'GET /health') {
    if (engine.ready && !draining) return send(res, 200, '')
    return fail(res, 503, draining ? 'shutting down' : 'loading', 'ServiceUnavailable')
  }
  if (at === 'GET /metrics') return send(res, 200, metrics())
  if (key && at.includes(' /v1/') && req.headers.authorization !== `Bearer ${key}`)
    return fail(res, 401, 'Unauthorized', 'authentication_error')
  if (!engine.ready || draining)
    return fail(res, 503, draining ? 'shutting down' : 'Loading model', 'ServiceUnavailable',
      { 'retry-after': '1', ...(draining ? { connection: 'close' } : {}) })
  switch (at) {
    case 'GET /v1/models': {
      const model = { id: name, object: 'model', created: started, owned_by: 'tiny',
        root: opt.model, max_model_len: opt.maxModelLen }
      return send(res, 200, { object: 'list', data: [model] })
    }
    case 'POST /v1/chat/completions': return generate(req, res, true)
    case 'POST /v1/completions': return generate(req, res, false)
    case 'POST /v1/embeddings': return embeddings(req, res)
    case 'POST /tokenize': {
      const body = await readJson(req)
      const tokens = await engine.tokens({ prompt: String(body.prompt ?? '') })
      return send(res, 200, { count: tokens.length, max_model_len: opt.maxModelLen, tokens })
    }
  }
  fail(res, 404, 'Not Found', 'NotFoundError')
}

const server = http.createServer((req, res) => {
  route(req, res).catch(e => {
    if (res.headersSent || res.destroyed) return res.destroy()
    fail(res, e.status ?? 500, e.message, e.type ?? 'InternalServerError')
  })
})
server.requestTimeout = 0
server.keepAliveTimeout = opt.keepAliveMs

// ---- life -----------------------------------------------------------------------------------

async function stop(signal) {
  if (draining) process.exit(1) // the second signal
  draining = true
  console.error(`${signal}: letting ${live.size} request(s) end`)
  server.close()
  server.closeIdleConnections()
  const end = Date.now() + opt.shutdownTimeout * 1000
  while (live.size && Date.now() < end) await sleep(20)
  for (const entry of live) entry.cancel()
  server.closeAllConnections()
  await sleep(20) // lets cancelled answers leave the engine
  await engine.close()
  if (opt.uds) fs.rmSync(opt.uds, { force: true })
  process.exit(0)
}

for (const signal of ['SIGTERM', 'SIGINT'])
  process.on(signal, () => opt.ignoreTerm ? console.error(`${signal}: ignored`) : stop(signal))
if (opt.exitAfterMs) setTimeout(() => process.exit(opt.exitCode), opt.exitAfterMs)
if (opt.uds) fs.rmSync(opt.uds, { force: true })
server.on('error', e => { console.error(e.message); process.exit(1) })
server.listen(...(opt.uds ? [opt.uds] : [opt.port, opt.host]), async () => {
  const address = opt.uds || `http://${opt.host}:${server.address().port}`
  console.error(`listening on ${address}, loading ${opt.model}`)
  try {
    if (opt.loadDelayMs) await sleep(opt.loadDelayMs)
    await engine.load()
    console.error('ready')
  } catch (e) {
    console.error(`cannot load ${opt.model}: ${e.message}`)
    process.exit(1)
  }
})

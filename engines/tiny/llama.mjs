// llama.cpp behind four verbs: load, count tokens, start an answer, embed.
//
// Several answers are made at once in the engine's own slots (continuous batching). Cancelling
// frees the slot. llama.cpp writes its log to standard error.
import fs from 'node:fs'
import { loadModel } from '@fugood/llama.node'

export class Llama {
  constructor(opt) {
    this.opt = opt
    this.context = null
  }

  get ready() { return this.context !== null }

  async load() {
    const { model, maxModelLen, maxNumSeqs, threads, embeddings } = this.opt
    // The native loader kills the process on a file that is no GGUF; this one says why.
    const magic = Buffer.alloc(4)
    const file = fs.openSync(model)
    fs.readSync(file, magic)
    fs.closeSync(file)
    if (magic.toString() !== 'GGUF') throw new Error('not a GGUF file')
    const context = await loadModel({ model, n_ctx: maxModelLen * maxNumSeqs, n_batch: 512,
      n_parallel: maxNumSeqs, n_threads: threads, kv_unified: false, use_mmap: true,
      ...(embeddings ? { embedding: true, pooling_type: 'mean' } : {}) })
    if (!await context.parallel.enable({ n_parallel: maxNumSeqs, n_batch: 512 }))
      throw new Error('llama.cpp refused its parallel mode')
    this.context = context
  }

  // `input` is { messages } or { prompt }.
  async tokens(input) {
    const text = input.messages
      ? this.context.getFormattedChat(input.messages, undefined, { jinja: true }).prompt
      : input.prompt
    return [...(await this.context.tokenize(text)).tokens]
  }

  async countTokens(input) { return (await this.tokens(input)).length }

  // Starts an answer; onPiece(text) is called for each token. Returns { done, cancel }: done
  // gives 'stop' or 'length', or rejects, also after cancel().
  start(want, body, onPiece) {
    let stop = null
    let cancelled = false
    const { messages, prompt, max } = want
    const params = { ...(messages ? { messages, jinja: true } : { prompt }), n_predict: max,
      temperature: body.temperature ?? 1, top_p: body.top_p ?? 1, seed: body.seed ?? -1,
      stop: [].concat(body.stop ?? []), ignore_eos: !!body.ignore_eos }
    const run = async () => {
      const handle = await this.context.parallel.completion(params, (_, r) => {
        if (!cancelled) onPiece(r.token)
      })
      stop = handle.stop
      if (cancelled) stop()
      const r = await handle.promise
      if (cancelled) throw new Error('cancelled')
      return r.stopped_limit || r.context_full ? 'length' : 'stop'
    }
    return { done: run(), cancel() { cancelled = true; stop?.() } }
  }

  async embed(text) {
    const { promise } = await this.context.parallel.embedding(text, { embd_normalize: 2 })
    return Float32Array.from((await promise).embedding)
  }

  async close() {
    if (!this.context) return
    this.context.parallel.disable()
    await this.context.release()
  }
}

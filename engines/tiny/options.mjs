// The command line of the tiny engine.

const known = { // option: default; the type of the default is the type of the option
  model: '', host: '127.0.0.1', port: 8000, uds: '', 'served-model-name': '',
  'max-num-seqs': 4, 'max-model-len': 4096, threads: 1, embeddings: false,
  'shutdown-timeout': 30, 'keep-alive-ms': 5000, 'token-delay-ms': 0, 'load-delay-ms': 0,
  'exit-after-ms': 0, 'exit-code': 1, 'ignore-term': false,
}

export const usage = `usage: serve.mjs --model FILE.gguf [--port N | --uds PATH] [options]
options: ${Object.keys(known).map(o => '--' + o).join(' ')}`

const camel = name => name.replace(/-./g, m => m[1].toUpperCase())

// Returns the options by camel-case name, or a string: 'help', or what is wrong.
export function parse(argv) {
  const opt = Object.fromEntries(Object.entries(known).map(([k, v]) => [camel(k), v]))
  for (let i = 0; i < argv.length; i++) {
    if (argv[i] === '--help' || argv[i] === '-h') return 'help'
    const [, name, inline] = /^--([a-z-]+)(?:=(.*))?$/.exec(argv[i]) ?? []
    if (!(name in known)) return `unknown argument ${argv[i]}`
    if (typeof known[name] === 'boolean') { opt[camel(name)] = true; continue }
    const value = inline ?? argv[++i]
    if (value === undefined) return `--${name} needs a value`
    opt[camel(name)] = typeof known[name] === 'number' ? Number(value) : value
    if (Number.isNaN(opt[camel(name)])) return `--${name} needs a number, not ${value}`
  }
  return opt.model ? opt : '--model is required'
}

#!/usr/bin/env node
import { readFileSync } from 'node:fs'
import { serveStdio } from '@modelcontextprotocol/server/stdio'
import { createAgent } from './agent.ts'
import { keyFileOf, readSettings, type Settings } from './config.ts'
import { createKeyFile, readKeyFile } from './key-file.ts'
import { BODY_BYTES_MAX, createAgentServer, type Web } from './server.ts'
import { createWeb } from './web.ts'

/** The exit status for a wrong configuration (EX_CONFIG of sysexits.h). */
const EX_CONFIG = 78

/** Standard output belongs to the protocol: everything else is said here. */
const say = (text: string) => process.stderr.write(`halfkey-mcp: ${text}\n`)

function serve({ baseUrl, token, delegateKey }: Settings, web: Web): void {
  const { version } = JSON.parse(readFileSync(new URL('../package.json', import.meta.url), 'utf8'))
  const scrub = (text: string) => text.replaceAll(token, 'dst_[removed]')
  const report = (error: unknown) => say(scrub(error instanceof Error ? (error.stack ?? error.message) : String(error)))
  const agent = createAgent({ baseUrl, token, delegateKey })
  serveStdio(() => createAgentServer(agent, (use) => use(web), version, { scrub, report }), { onerror: report })
}

/** `halfkey-mcp key`: creates the key file if it is not there, and prints its public key for `boundKey`. */
async function printKey(): Promise<void> {
  const path = keyFileOf(process.env)
  if (path === undefined) throw new Error('HALFKEY_KEY_FILE must be the path of the key file.')
  process.stdout.write(`${JSON.stringify((await createKeyFile(path)).publicKey)}\n`)
}

async function main([command]: readonly string[]): Promise<void> {
  if (command === 'key') return printKey()
  if (command !== undefined) throw new Error('The only command is: key')
  const { keyFile, x402Origins, ...settings } = readSettings(process.env)
  const delegateKey = keyFile === undefined ? undefined : await readKeyFile(keyFile)
  serve({ ...settings, delegateKey }, createWeb(x402Origins, BODY_BYTES_MAX))
}

main(process.argv.slice(2)).catch((error: unknown) => {
  say(error instanceof Error ? error.message : 'failed')
  process.exitCode = EX_CONFIG
})

#!/usr/bin/env node
import { readFileSync } from 'node:fs'
import { serveStdio } from '@modelcontextprotocol/server/stdio'
import { createAgent } from './agent.ts'
import { readSettings, type Settings } from './config.ts'
import { createAgentServer } from './server.ts'

/** The exit status for a wrong configuration (EX_CONFIG of sysexits.h). */
const EX_CONFIG = 78

/** Standard output belongs to the protocol: everything else is said here. */
const say = (text: string) => process.stderr.write(`halfkey-mcp: ${text}\n`)

function serve({ baseUrl, token }: Settings): void {
  const { version } = JSON.parse(readFileSync(new URL('../package.json', import.meta.url), 'utf8'))
  const scrub = (text: string) => text.replaceAll(token, 'dst_[removed]')
  const report = (error: unknown) => say(scrub(error instanceof Error ? (error.stack ?? error.message) : String(error)))
  const agent = createAgent({ baseUrl, token })
  serveStdio(() => createAgentServer(agent, version, { scrub, report }), { onerror: report })
}

try {
  serve(readSettings(process.env))
} catch (error) {
  say(error instanceof Error ? error.message : 'failed')
  process.exitCode = EX_CONFIG
}

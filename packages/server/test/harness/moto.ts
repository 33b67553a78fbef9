/** Amazon's services as moto plays them: a process on this machine that checks signatures and permissions. */
import { type ChildProcess, spawn } from 'node:child_process'
import { once } from 'node:events'
import { existsSync } from 'node:fs'
import { join } from 'node:path'
import { AwsClient } from 'aws4fetch'
import { eventually } from './harness.ts'
import { freePort } from './service-process.ts'

/** Where `.ci/run` installs it. */
const PROGRAM = join(import.meta.dirname, '../../../../.cache/moto/bin/moto_server')

/** Whether it is installed; tests that need it say so and are skipped where it is not. */
export const hasMoto = existsSync(PROGRAM)

const REGION = 'eu-central-1'
const POLICY = {
  Version: '2012-10-17',
  Statement: [{ Effect: 'Allow', Action: ['sqs:*', 's3:*', 'kms:*'], Resource: '*' }],
}

export class Moto {
  readonly #child: ChildProcess
  readonly url: string
  readonly region = REGION
  /** May use SQS, S3 and KMS. */
  access = { accessKeyId: 'none', secretAccessKey: 'none' }

  private constructor(child: ChildProcess, url: string) {
    this.#child = child
    this.url = url
  }

  static async start(): Promise<Moto> {
    const port = await freePort()
    const moto = new Moto(
      spawn(PROGRAM, ['-H', '127.0.0.1', '-p', String(port)], { stdio: 'ignore' }),
      `http://127.0.0.1:${port}`,
    )
    await eventually('moto', () =>
      fetch(`${moto.url}/moto-api/`).then(
        () => true,
        () => false,
      ),
    )
    await moto.#iam({ Action: 'CreateUser', UserName: 'halfkey' })
    const policy = { PolicyName: 'all', PolicyDocument: JSON.stringify(POLICY) }
    await moto.#iam({ Action: 'PutUserPolicy', UserName: 'halfkey', ...policy })
    const key = await moto.#iam({ Action: 'CreateAccessKey', UserName: 'halfkey' })
    const part = (name: string) => new RegExp(`<${name}>([^<]+)<`).exec(key)?.[1] as string
    moto.access = { accessKeyId: part('AccessKeyId'), secretAccessKey: part('SecretAccessKey') }
    // From here on, each request must be signed and allowed.
    await fetch(`${moto.url}/moto-api/reset-auth`, { method: 'POST', body: '0' })
    return moto
  }

  /** A signed request. @returns the body of its answer */
  async call(
    service: string,
    path: string,
    init: { method?: string; headers?: Record<string, string>; body?: string } = {},
  ): Promise<string> {
    const client = new AwsClient({ ...this.access, service, region: REGION, retries: 0 })
    const response = await client.fetch(`${this.url}${path}`, init)
    const text = await response.text()
    if (!response.ok) throw new Error(`moto: ${response.status} ${text}`)
    return text
  }

  #iam(form: Record<string, string>): Promise<string> {
    const body = new URLSearchParams({ ...form, Version: '2010-05-08' }).toString()
    const headers = { 'content-type': 'application/x-www-form-urlencoded' }
    return this.call('iam', '/', { method: 'POST', headers, body })
  }

  /** A call of SQS. */
  async sqs(action: string, input: object) {
    const headers = { 'content-type': 'application/x-amz-json-1.0', 'x-amz-target': `AmazonSQS.${action}` }
    const text = await this.call('sqs', '/', { method: 'POST', headers, body: JSON.stringify(input) })
    // biome-ignore lint/suspicious/noExplicitAny: looked into by path; the contract is what the tests state
    return (text === '' ? {} : JSON.parse(text)) as any
  }

  /** A call of KMS. */
  async kms(action: string, input: object) {
    const headers = { 'content-type': 'application/x-amz-json-1.1', 'x-amz-target': `TrentService.${action}` }
    const text = await this.call('kms', '/', { method: 'POST', headers, body: JSON.stringify(input) })
    // biome-ignore lint/suspicious/noExplicitAny: looked into by path; the contract is what the tests state
    return (text === '' ? {} : JSON.parse(text)) as any
  }

  async stop(): Promise<void> {
    if (this.#child.exitCode !== null) return
    this.#child.kill('SIGKILL')
    await once(this.#child, 'exit')
  }
}

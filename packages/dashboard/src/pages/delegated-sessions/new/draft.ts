import type { HalfkeyClient, Policy, PolicyCondition, PolicyRule, PolicySpend } from '@halfkey/sdk'

/** A new session as it is typed. The policy has the API's shape; what is not typed yet is empty. */
export interface Draft {
  name: string
  policy: Policy
  lifetime: string
  unit: Unit
  maxUses: string
  serverExecute: boolean
}

/** What `POST /delegated-sessions` takes. */
export type CreateBody = Parameters<HalfkeyClient['delegatedSessions']['create']>[0]

const SECONDS = { minutes: 60, hours: 3_600, days: 86_400 } as const

/** The unit of a lifetime. */
export type Unit = keyof typeof SECONDS

export const UNITS = Object.keys(SECONDS) as Unit[]

/** The number; the text itself if it is not a number, so that the server reports the error. */
export const numberOr = (text: string): number => {
  const value = Number(text)
  return text.trim() === '' || Number.isNaN(value) ? (text as unknown as number) : value
}

const filled = (texts: readonly string[] | undefined) => texts?.filter((each) => each.trim() !== '')

function cleanCondition({ path, op, value }: PolicyCondition): PolicyCondition {
  return { path: path.trim(), op, value: Array.isArray(value) ? (filled(value) ?? []) : value }
}

function cleanRule({ templateId, actions, choices, where, ...rest }: PolicyRule): PolicyRule {
  return {
    templateId: templateId.trim(),
    ...(actions === undefined ? {} : { actions }),
    ...(choices === undefined || choices.length === 0 ? {} : { choices }),
    ...(where === undefined || where.length === 0 ? {} : { where: where.map(cleanCondition) }),
    ...rest,
  }
}

function cleanSpend({ asset, amount, window, unlimited, ...rest }: PolicySpend): PolicySpend {
  return {
    asset: { ...asset, issuer: asset.issuer.trim(), symbol: asset.symbol.trim() },
    ...(amount === undefined || amount.trim() === '' ? {} : { amount: amount.trim() }),
    ...(window === undefined ? {} : { window }),
    ...(unlimited === undefined ? {} : { unlimited }),
    ...rest,
  }
}

/** The policy as it is sent: without empty optional parts. */
export function cleanPolicy({ allow, deny, spend, requireApproval, conditions, query, ...rest }: Policy): Policy {
  return {
    allow: allow.map(cleanRule),
    ...(deny === undefined || deny.length === 0 ? {} : { deny: deny.map(cleanRule) }),
    ...(spend === undefined || spend.length === 0 ? {} : { spend: spend.map(cleanSpend) }),
    ...(requireApproval === undefined || requireApproval.length === 0 ? {} : { requireApproval }),
    ...(conditions === undefined || conditions.length === 0 ? {} : { conditions }),
    ...(query === undefined || query.templateIds.length === 0 ? {} : { query }),
    ...rest,
  }
}

/** The request body. `ownKey`: only the owner signs for the wallet, so no server may act without the token. */
export function bodyOf({ name, policy, lifetime, unit, maxUses, serverExecute }: Draft, ownKey: boolean): CreateBody {
  const time = numberOr(lifetime)
  return {
    ...(name.trim() === '' ? {} : { name: name.trim() }),
    policy: cleanPolicy(policy),
    expiresInSeconds: typeof time === 'number' ? time * SECONDS[unit] : time,
    ...(maxUses.trim() === '' ? {} : { maxUses: numberOr(maxUses) }),
    serverExecute: serverExecute && !ownKey,
  }
}

import type { Policy } from '@halfkey/sdk'

type Fields = Record<string, unknown>

const isObject = (value: unknown): value is Fields =>
  typeof value === 'object' && value !== null && !Array.isArray(value)
const isTexts = (value: unknown) => Array.isArray(value) && value.every((each) => typeof each === 'string')
const isText = (value: unknown) => typeof value === 'string'
const absentOr = (is: (value: unknown) => boolean) => (value: unknown) => value === undefined || is(value)

const listOf = (is: (value: unknown) => boolean) => (value: unknown) => Array.isArray(value) && value.every(is)

const OPS = ['eq', 'ne', 'in', 'not_in', 'lt', 'lte', 'gt', 'gte']
const WINDOWS = ['lifetime', 'rolling_24h', 'day_utc']

const isCondition = (value: unknown) =>
  isObject(value) &&
  isText(value.path) &&
  OPS.includes(value.op as string) &&
  (isText(value.value) || isTexts(value.value))

const isRule = (value: unknown) =>
  isObject(value) &&
  isText(value.templateId) &&
  absentOr(isTexts)(value.actions) &&
  absentOr(isTexts)(value.choices) &&
  absentOr(listOf(isCondition))(value.where)

const isSpend = (value: unknown) =>
  isObject(value) &&
  isObject(value.asset) &&
  isText(value.asset.issuer) &&
  isText(value.asset.symbol) &&
  absentOr(isText)(value.amount) &&
  absentOr((window) => WINDOWS.includes(window as string))(value.window) &&
  absentOr((unlimited) => unlimited === true)(value.unlimited)

const isAsset = (value: unknown) => isObject(value) && isText(value.issuer) && isText(value.symbol)
const isNumber = (value: unknown) => typeof value === 'number'
const isTrue = (value: unknown) => value === true

const isApprovers = (value: unknown) => isObject(value) && isTexts(value.users) && isNumber(value.threshold)

const isApprovalRule = (value: unknown) =>
  isObject(value) &&
  absentOr(isAsset)(value.asset) &&
  absentOr(isText)(value.above) &&
  absentOr(isTrue)(value.newRecipient) &&
  absentOr(isApprovers)(value.approvers) &&
  absentOr(isNumber)(value.expiresInSeconds)

const isHours = (value: unknown) =>
  isObject(value) && absentOr(isTexts)(value.days) && isText(value.from) && isText(value.to) && isText(value.timeZone)

const isRate = (value: unknown) =>
  isObject(value) &&
  absentOr(isNumber)(value.executions) &&
  absentOr(isAsset)(value.asset) &&
  absentOr(isText)(value.amount) &&
  isNumber(value.withinSeconds)

const isSessionCondition = (value: unknown) =>
  isObject(value) &&
  absentOr(isHours)(value.hours) &&
  absentOr(isRate)(value.rate) &&
  absentOr(isText)(value.recipients) &&
  absentOr(isText)(value.otherwise) &&
  absentOr(isApprovers)(value.approvers) &&
  absentOr(isNumber)(value.expiresInSeconds)

const isQuery = (value: unknown) => isObject(value) && isTexts(value.templateIds)

const PARTS: [name: string, is: (value: unknown) => boolean, shape: string][] = [
  ['allow', listOf(isRule), 'a list of rules such as {"templateId": "Token:Holding"}'],
  ['deny', absentOr(listOf(isRule)), 'a list of rules'],
  ['spend', absentOr(listOf(isSpend)), 'a list such as [{"asset": {"issuer": "…", "symbol": "…"}, "amount": "10"}]'],
  ['requireApproval', absentOr(listOf(isApprovalRule)), 'a list such as [{"newRecipient": true}]'],
  ['conditions', absentOr(listOf(isSessionCondition)), 'a list such as [{"recipients": "address_book"}]'],
  ['query', absentOr(isQuery), 'an object such as {"templateIds": ["Token:Holding"]}'],
]

/**
 * Text as a policy that the form can show. Only its shape is looked at, not what it says: that is for the server.
 * @returns the policy, or what is wrong with the text
 */
export function readPolicy(text: string): Policy | string {
  let value: unknown
  try {
    value = JSON.parse(text)
  } catch (error) {
    return `This is not valid JSON: ${error instanceof Error ? error.message : String(error)}`
  }
  if (!isObject(value)) return 'A policy is an object such as {"allow": […]}.'
  const policy = value
  const wrong = PARTS.find(([name, is]) => !is(policy[name]))
  return wrong === undefined ? (policy as unknown as Policy) : `"${wrong[0]}" must be ${wrong[2]}.`
}

import type { Deps } from '../../../platform/deps.ts'
import { existing, invalid, pathId } from '../../../platform/http/errors.ts'
import type { Call, Caller } from '../../../platform/http/route.ts'
import type { Id } from '../../../platform/ids.ts'
import type { App } from '../schema.ts'
import { changeBranding, getApp } from '../service.ts'
import { type Png, readPng } from './png.ts'
import { BYTES_MAX, type Logo, type SetLogo } from './schema.ts'
import * as store from './store.ts'

function checked(base64: string): Png {
  const image = Buffer.from(base64, 'base64')
  if (image.length > BYTES_MAX) throw invalid('png', `Must be at most ${BYTES_MAX / 1024} KiB.`, 'too_large')
  try {
    return readPng(image)
  } catch (error) {
    throw invalid('png', (error as Error).message)
  }
}

/** @throws not_found, also for an app without a logo */
export async function getLogo(deps: Deps, caller: Caller, id: string): Promise<Logo> {
  const { branding } = await getApp(deps, caller, id)
  const png = existing(await store.findLogo(deps.db, caller.tenantId, pathId('app', id)))
  return { ...existing(branding.logo ?? undefined), png: png.toString('base64') }
}

/** Stores an image as the app's logo, without anything that is not the picture. @throws not_found, validation_failed */
export async function setLogo(deps: Deps, call: Call, id: string, { png }: SetLogo): Promise<App> {
  const { bytes, width, height, sha256 } = checked(png)
  const appId = pathId('app', id)
  return changeBranding(deps, call, appId, { logo: { width, height, sha256 } }, (tx) =>
    store.setLogo(tx, call.caller.tenantId, appId, bytes),
  )
}

/** @throws not_found */
export async function deleteLogo(deps: Deps, call: Call, id: string): Promise<App> {
  const appId = pathId('app', id)
  return changeBranding(deps, call, appId, { logo: null }, (tx) => store.deleteLogo(tx, call.caller.tenantId, appId))
}

/** The image as it is stored; undefined without one. */
export const findLogo = (deps: Deps, tenantId: Id<'ten'>, appId: Id<'app'>): Promise<Buffer | undefined> =>
  store.findLogo(deps.db, tenantId, appId)

/** The logo as an address that a page can show without asking anybody; null without one. */
export async function logoUrl(deps: Deps, tenantId: Id<'ten'>, appId: Id<'app'>): Promise<string | null> {
  const png = await findLogo(deps, tenantId, appId)
  return png === undefined ? null : `data:image/png;base64,${png.toString('base64')}`
}

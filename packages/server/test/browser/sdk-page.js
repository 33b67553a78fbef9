// The browser's side of the page: takes up what a server has rendered.
import * as sdk from '@halfkey/sdk/browser'
import { createElement } from 'react'
import { hydrateRoot } from 'react-dom/client'
import { App } from './sdk-app.js'

const { searchParams } = new URL(location.href)
const remembered = (name) => {
  const given = searchParams.get(name)
  if (given !== null) sessionStorage.setItem(name, given)
  return given ?? sessionStorage.getItem(name)
}

export const client = sdk.createBrowserClient({
  baseUrl: remembered('service'),
  publishableKey: remembered('key'),
})
globalThis.app = { ...sdk, client }
hydrateRoot(document.getElementById('root'), createElement(App, { client, autofill: searchParams.has('autofill') }))

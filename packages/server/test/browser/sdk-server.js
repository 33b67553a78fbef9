// The server's side of the page: what it looks like before any browser has said who is signed in.
import { createBrowserClient } from '@halfkey/sdk/browser'
import { createElement } from 'react'
import { renderToString } from 'react-dom/server.edge'
import { App } from './sdk-app.js'

export const html = () =>
  renderToString(
    createElement(App, {
      client: createBrowserClient({ baseUrl: 'http://localhost:1', publishableKey: 'hk_pk_server' }),
    }),
  )

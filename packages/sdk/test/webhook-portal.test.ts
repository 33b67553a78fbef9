import { createElement } from 'react'
import { renderToStaticMarkup } from 'react-dom/server'
import { expect, test } from 'vitest'
import { WebhookPortal, type WebhookPortalProps } from '../src/react.ts'

const url = 'https://halfkey.example.com/portal?link=plk_1#token=prt_1'
const rendered = (props: WebhookPortalProps) => renderToStaticMarkup(createElement(WebhookPortal, props))

test('the portal is embedded with no more than it needs, and learns nothing of the page around it', () => {
  expect(rendered({ url })).toBe(
    `<iframe src="${url}" title="Webhooks" style="width:100%;height:40rem;border:0" sandbox="allow-scripts allow-same-origin allow-forms allow-downloads" allow="clipboard-write" referrerPolicy="no-referrer"></iframe>`,
  )
})

test('its size and name are the page’s choice', () => {
  expect(rendered({ url, title: 'Your endpoints', className: 'portal' })).toContain(
    'title="Your endpoints" class="portal" sandbox',
  )
  expect(rendered({ url, style: { height: 300 } })).toContain('style="height:300px"')
})

test('an address that is no web address is refused: it would run as part of the page', () => {
  for (const bad of ['javascript:alert(1)', ' javascript:alert(1)', 'data:text/html,x', '', '/portal'])
    expect(() => rendered({ url: bad }), bad).toThrow('must be the url of a portal link')
})

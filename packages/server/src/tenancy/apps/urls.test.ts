import { expect, test } from 'vitest'
import { originProblem } from '../../platform/security/web-origin.ts'
import { redirectUrlProblem } from './urls.ts'

test.each([
  'https://shop.example.com',
  'https://shop.example.com:8443',
  'https://xn--bcher-kva.example',
  'https://[2001:db8::1]',
])('%s is an origin', (text) => {
  expect(originProblem(text, false)).toBeNull()
})

test.each([
  '',
  '*',
  'null',
  'shop.example.com',
  'https://shop.example.com/',
  'https://shop.example.com:443',
  'https://Shop.example.com',
  'https://bücher.example',
  'https://*.example.com',
  'https://user@shop.example.com',
  'https://shop.example.com?',
  ' https://shop.example.com',
  'http://shop.example.com',
  'http://localhost.example.com',
  'javascript:alert(1)',
  'data:text/html,x',
  'file:///etc/passwd',
])('%j is no origin', (text) => {
  expect(originProblem(text, true)).not.toBeNull()
})

test.each([
  'https://shop.example.com',
  'https://shop.example.com/signed-in?from=a',
  'com.example.shop:/signed-in',
  'com.example.shop://signed-in',
])('%s is a redirect URL', (text) => {
  expect(redirectUrlProblem(text, false)).toBeNull()
})

test.each([
  '',
  '/signed-in',
  '//shop.example.com',
  'https:shop.example.com',
  'https:\\\\shop.example.com',
  'https://shop.example.com/a/../b',
  'https://shop.example.com/#',
  'https://user:password@shop.example.com/',
  'https://*.example.com/',
  'https://shop.example.com/a b',
  'https://shop.example.com/\n',
  'shop:/signed-in',
  'com.example.shop:signed-in',
  'com.example.shop://user@signed-in/',
  'javascript:alert(1)',
  'http://shop.example.com/',
])('%j is no redirect URL', (text) => {
  expect(redirectUrlProblem(text, true)).not.toBeNull()
})

test('http: on loopback is for development only', () => {
  for (const origin of ['http://localhost:3000', 'http://127.0.0.1', 'http://[::1]:3000']) {
    expect(originProblem(origin, true)).toBeNull()
    expect(originProblem(origin, false)).not.toBeNull()
    expect(redirectUrlProblem(`${origin}/`, true)).toBeNull()
    expect(redirectUrlProblem(`${origin}/`, false)).not.toBeNull()
  }
})

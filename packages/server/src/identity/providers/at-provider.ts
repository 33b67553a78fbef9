// What speaks with providers. Its library takes megabytes, so `service.ts` loads all of it with the first call.
export { beginAtProvider } from './begin.ts'
export { formFromProvider, returnFromProvider } from './callback.ts'
export { linkProvider, prepareProviderLink } from './link.ts'
export { prepareSignIn, signInWithToken } from './token.ts'

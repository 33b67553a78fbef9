import type { Calls, RequestOptions } from '../http.ts'
import type { App, EmailPreview, EmailTemplate, Issuer, Logo, Provider, RevokedSessions } from '../models.ts'
import type { Body, Query } from '../operations.ts'
import type { List } from '../paging.ts'

function issuersOf({ one, list }: Calls) {
  return {
    /** Lists the issuers that an app trusts, newest first. Scope `apps:read`. @throws not_found */
    list: (appId: string, query?: Query<'/apps/{id}/issuers', 'get'>, options?: RequestOptions): List<Issuer> =>
      list('/apps/{id}/issuers', { path: { id: appId } }, query, options),

    /** Makes an app trust an issuer: `auth.exchangeToken` then takes its tokens. Scope `apps:write`. @throws issuer_url_blocked, already_exists, issuer_limit */
    create: (appId: string, body: Body<'/apps/{id}/issuers', 'post'>, options?: RequestOptions): Promise<Issuer> =>
      one('post', '/apps/{id}/issuers', { path: { id: appId }, body }, options),

    /** Gets an issuer. Scope `apps:read`. @throws not_found */
    get: (appId: string, issuerId: string, options?: RequestOptions): Promise<Issuer> =>
      one('get', '/apps/{id}/issuers/{issuerId}', { path: { id: appId, issuerId } }, options),

    /** Changes the given fields: `claims` are merged, arrays replaced. Scope `apps:write`. @throws not_found, issuer_url_blocked */
    update: (
      appId: string,
      issuerId: string,
      body: Body<'/apps/{id}/issuers/{issuerId}', 'patch'>,
      options?: RequestOptions,
    ): Promise<Issuer> =>
      one('patch', '/apps/{id}/issuers/{issuerId}', { path: { id: appId, issuerId }, body }, options),

    /** Stops trusting an issuer. Users and their identities stay. Scope `apps:write`. @throws not_found */
    remove: (appId: string, issuerId: string, options?: RequestOptions): Promise<Issuer> =>
      one('delete', '/apps/{id}/issuers/{issuerId}', { path: { id: appId, issuerId } }, options),
  }
}

function providersOf({ one, list }: Calls) {
  return {
    /** Lists the sign-in providers of an app, newest first, without their secrets. Scope `apps:read`. @throws not_found */
    list: (appId: string, query?: Query<'/apps/{id}/providers', 'get'>, options?: RequestOptions): List<Provider> =>
      list('/apps/{id}/providers', { path: { id: appId } }, query, options),

    /** Adds a provider. Register its `callbackUrl` there. Scope `apps:write`. @throws issuer_url_blocked, already_exists, provider_limit */
    create: (appId: string, body: Body<'/apps/{id}/providers', 'post'>, options?: RequestOptions): Promise<Provider> =>
      one('post', '/apps/{id}/providers', { path: { id: appId }, body }, options),

    /** Gets a provider. Scope `apps:read`. @throws not_found */
    get: (appId: string, providerId: string, options?: RequestOptions): Promise<Provider> =>
      one('get', '/apps/{id}/providers/{providerId}', { path: { id: appId, providerId } }, options),

    /** Changes the given fields; arrays are replaced. Scope `apps:write`. @throws not_found */
    update: (
      appId: string,
      providerId: string,
      body: Body<'/apps/{id}/providers/{providerId}', 'patch'>,
      options?: RequestOptions,
    ): Promise<Provider> =>
      one('patch', '/apps/{id}/providers/{providerId}', { path: { id: appId, providerId }, body }, options),

    /** Removes a provider. Users and their identities stay. Scope `apps:write`. @throws not_found */
    remove: (appId: string, providerId: string, options?: RequestOptions): Promise<Provider> =>
      one('delete', '/apps/{id}/providers/{providerId}', { path: { id: appId, providerId } }, options),
  }
}

function emailTemplatesOf({ one, list }: Calls) {
  return {
    /** Lists how each kind of email is written in each language: by the app, or by default. Scope `apps:read`. @throws not_found */
    list: (
      appId: string,
      query?: Query<'/apps/{id}/email-templates', 'get'>,
      options?: RequestOptions,
    ): List<EmailTemplate> => list('/apps/{id}/email-templates', { path: { id: appId } }, query, options),

    /** Writes an email from a draft and sample values. Nothing is stored or sent. Scope `apps:read`. @throws not_found */
    preview: (
      appId: string,
      body: Body<'/apps/{id}/email-templates/preview', 'post'>,
      options?: RequestOptions,
    ): Promise<EmailPreview> =>
      one('post', '/apps/{id}/email-templates/preview', { path: { id: appId }, body }, options),

    /** Sets how an email is written. Scope `apps:write`. @throws not_found */
    set: (
      appId: string,
      kind: EmailTemplate['kind'],
      language: EmailTemplate['language'],
      body: Body<'/apps/{id}/email-templates/{kind}/{language}', 'put'>,
      options?: RequestOptions,
    ): Promise<EmailTemplate> =>
      one(
        'put',
        '/apps/{id}/email-templates/{kind}/{language}',
        { path: { id: appId, kind, language }, body },
        options,
      ),

    /** Goes back to the default, and returns it. Scope `apps:write`. @throws not_found */
    reset: (
      appId: string,
      kind: EmailTemplate['kind'],
      language: EmailTemplate['language'],
      options?: RequestOptions,
    ): Promise<EmailTemplate> =>
      one('delete', '/apps/{id}/email-templates/{kind}/{language}', { path: { id: appId, kind, language } }, options),
  }
}

/** Calls of apps. Every method may also throw what any call does: see `HalfkeyError`. */
export function appsOf(calls: Calls) {
  const { one, list } = calls
  return {
    /** Issuers whose tokens sign users in. */
    issuers: issuersOf(calls),

    /** Providers with whose accounts users sign in: Google, Apple, Microsoft, GitHub, and others with OpenID Connect. */
    providers: providersOf(calls),

    /** How the emails of an app are written. */
    emailTemplates: emailTemplatesOf(calls),

    /** Lists apps, newest first. Scope `apps:read`; a key that is bound to an app sees that app only. */
    list: (query?: Query<'/apps', 'get'>, options?: RequestOptions): List<App> => list('/apps', {}, query, options),

    /** Creates an app. Scope `apps:write`, tenant-wide. */
    create: (body: Body<'/apps', 'post'>, options?: RequestOptions): Promise<App> =>
      one('post', '/apps', { body }, options),

    /** Gets an app. Scope `apps:read`. @throws not_found */
    get: (id: string, options?: RequestOptions): Promise<App> => one('get', '/apps/{id}', { path: { id } }, options),

    /** Changes the given fields: nested objects and metadata are merged, arrays replaced. Scope `apps:write`. @throws not_found */
    update: (id: string, body: Body<'/apps/{id}', 'patch'>, options?: RequestOptions): Promise<App> =>
      one('patch', '/apps/{id}', { path: { id }, body }, options),

    /** Gets the logo of an app. Scope `apps:read`. @throws not_found, also without a logo */
    logo: (id: string, options?: RequestOptions): Promise<Logo> =>
      one('get', '/apps/{id}/logo', { path: { id } }, options),

    /** Sets the logo: a PNG image as base64, at most 64 KiB and 512 × 512 pixels. Scope `apps:write`. @throws not_found */
    setLogo: (id: string, body: Body<'/apps/{id}/logo', 'post'>, options?: RequestOptions): Promise<App> =>
      one('post', '/apps/{id}/logo', { path: { id }, body }, options),

    /** Removes the logo. Scope `apps:write`. @throws not_found */
    removeLogo: (id: string, options?: RequestOptions): Promise<App> =>
      one('delete', '/apps/{id}/logo', { path: { id } }, options),

    /**
     * Ends every delegated session of the app that was created before this call. May take minutes for very many: give
     * `timeoutMs`, and repeat it if there was no response. Scope `delegated_sessions:write`. @throws not_found
     */
    revokeSessions: (id: string, options?: RequestOptions): Promise<RevokedSessions> =>
      one('post', '/apps/{id}/sessions/revoke-all', { path: { id } }, options),

    /**
     * Deletes an app, with `force` also its users; its keys stop working at once. Returns its final state. Scope `apps:write`,
     * tenant-wide. A repeat after a lost response gets `not_found`. @throws not_found, default_app, app_not_empty
     */
    delete: (id: string, query?: Query<'/apps/{id}', 'delete'>, options?: RequestOptions): Promise<App> =>
      one('delete', '/apps/{id}', { path: { id }, query }, options),
  }
}

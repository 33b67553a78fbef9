-- Invitations of members by email. A link that was mailed proves the address that it went to, once it is opened.
alter table dashboard_links add column proves_email text;
-- `proven_email` counts while it is the member's address. `invitation_delivery` is how the last invitation was given out.
alter table members add column proven_email text, add column invitation_delivery text;

-- Emails to members are the installation's: they belong to no app, so that no app's server gets them.
alter table emails alter column app_id drop not null, add column member_id text collate "C",
  add constraint emails_member_fk foreign key (tenant_id, member_id) references members (tenant_id, id) on delete cascade,
  add constraint emails_of_one check (app_id is null or member_id is null);
create index emails_member on emails (tenant_id, member_id) where member_id is not null;

-- Ways to sign in to the dashboard beside passkeys, which an owner turns on.
create table member_sign_in (
  tenant_id text collate "C" not null references tenants on delete cascade,
  method text not null,
  enabled boolean not null,
  updated_at timestamptz not null,
  version integer not null default 0,
  mac bytea,
  primary key (tenant_id, method)
);
call count_changes_of('member_sign_in');

-- Codes that sign members in by email. `member_id` and `code_hmac` are null if nobody gets the code: then no answer is right.
create table member_codes (
  tenant_id text collate "C" not null references tenants on delete cascade,
  id text collate "C" not null,
  member_id text collate "C",
  -- The address that was asked for, in the form in which it is compared.
  email_key text not null,
  code_hmac bytea,
  -- SHA-256 (base64url) of the secret in the cookie of the browser that asked.
  browser_hash text not null,
  wrong_answers smallint not null default 0,
  expires_at timestamptz not null,
  -- Answered, or replaced by a later one.
  ended_at timestamptz,
  created_at timestamptz not null,
  version integer not null default 0,
  mac bytea,
  primary key (tenant_id, id),
  foreign key (tenant_id, member_id) references members (tenant_id, id) on delete cascade
);
create index member_codes_address on member_codes (tenant_id, email_key, created_at);
create index member_codes_member on member_codes (tenant_id, member_id) where member_id is not null;
create index member_codes_age on member_codes using brin (created_at) with (autosummarize = on);
call count_changes_of('member_codes');

-- What was asked for before a member's rights changed signs them in no more.
alter table members add column rights_changed_at timestamptz;

-- The organisation's OpenID Connect login, of the method `oidc`.
alter table member_sign_in add column provider_id text collate "C", add column name text, add column issuer text,
  add column client_id text, add column client_secret_sealed bytea;

-- Accounts there that sign members in. `identity_id` of a member names the one that counts: one that was removed and is put back does not.
create table member_identities (
  tenant_id text collate "C" not null,
  id text collate "C" not null,
  member_id text collate "C" not null,
  provider_id text collate "C" not null,
  issuer text not null,
  subject text not null,
  created_at timestamptz not null,
  mac bytea,
  primary key (tenant_id, id),
  foreign key (tenant_id, member_id) references members (tenant_id, id) on delete cascade
);
create unique index member_identities_account on member_identities (tenant_id, provider_id, issuer, subject);
create index member_identities_member on member_identities (tenant_id, member_id);
call count_changes_of('member_identities');
alter table members add column identity_id text collate "C";

-- Sign-in by email: an app's settings, the emails to send, and the challenges that their codes answer.
alter table apps
  add column email jsonb not null default
    '{"enabled": false, "signUp": true, "sender": "smtp", "webhookUrl": null, "language": "en", "testCodes": []}',
  -- Signs the requests to the app's own sender of emails.
  add column email_webhook_secret_sealed bytea;

create table emails (
  tenant_id text collate "C" not null,
  id text collate "C" not null,
  app_id text collate "C" not null,
  -- The user it is for; null if there is none (yet).
  user_id text collate "C",
  address text not null,
  purpose text not null,
  language text not null,
  -- The code and the link. Removed once the email is sent or has failed.
  content_sealed bytea,
  status text not null,
  attempts smallint not null default 0,
  error text,
  -- When it is tried next, or taken over from a worker that died; null once it has ended.
  next_at timestamptz,
  -- Later, nobody needs it.
  expires_at timestamptz not null,
  sent_at timestamptz,
  created_at timestamptz not null,
  updated_at timestamptz not null,
  primary key (tenant_id, id),
  foreign key (tenant_id, app_id) references apps (tenant_id, id) on delete cascade,
  constraint emails_user_fk foreign key (tenant_id, user_id) references users on delete cascade
);
create index emails_due on emails (next_at) where next_at is not null;
create index emails_failed on emails (tenant_id, id) where status = 'failed';
create index emails_app on emails (tenant_id, app_id, id);
create index emails_user on emails (tenant_id, user_id) where user_id is not null;
create index emails_age on emails using brin (created_at) with (autosummarize = on);

create table email_challenges (
  tenant_id text collate "C" not null,
  id text collate "C" not null,
  app_id text collate "C" not null,
  purpose text not null,
  -- The address as it was typed, and in the form in which users' emails are compared.
  email text not null,
  email_key text not null,
  -- Who links the address, and in which session (null for a server); both null for a sign-in.
  user_id text collate "C",
  session_id text collate "C",
  -- The HMAC of the code with the challenge. Null if no code was sent: then no answer is right.
  code_hmac bytea,
  email_id text collate "C" not null,
  wrong_answers smallint not null default 0,
  expires_at timestamptz not null,
  -- Answered, or replaced by a later challenge.
  ended_at timestamptz,
  created_at timestamptz not null,
  primary key (tenant_id, id),
  foreign key (tenant_id, app_id) references apps (tenant_id, id) on delete cascade,
  constraint email_challenges_user_fk foreign key (tenant_id, user_id) references users on delete cascade
);
-- The limits of an address: how many challenges and wrong answers there were lately.
create index email_challenges_address on email_challenges (tenant_id, app_id, email_key, created_at);
create index email_challenges_user on email_challenges (tenant_id, user_id, created_at) where user_id is not null;
create index email_challenges_age on email_challenges using brin (created_at) with (autosummarize = on);

-- Sign-ins by email, beside those by other ways.
alter table analytics_daily add column sign_ins_email bigint not null default 0;

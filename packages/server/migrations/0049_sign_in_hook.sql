-- A server of the app's own that decides, before each sign-in's session begins, whether it may.
alter table apps
  add column sign_in_hook jsonb not null default '{"url": null, "onFailure": "refuse"}',
  add column sign_in_hook_secret_sealed bytea;

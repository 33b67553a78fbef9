-- How an app writes its emails, by kind and language. Emails without a row here have the default text.
create table email_templates (
  tenant_id text collate "C" not null,
  app_id text collate "C" not null,
  kind text collate "C" not null,
  language text collate "C" not null,
  subject text not null,
  text text not null,
  html text,
  updated_at timestamptz not null,
  primary key (tenant_id, app_id, kind, language),
  foreign key (tenant_id, app_id) references apps (tenant_id, id) on delete cascade
);

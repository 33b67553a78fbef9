-- Invitations of members by email. A link that was mailed proves the address that it went to, once it is opened.
alter table dashboard_links add column proves_email text;
-- `proven_email` counts while it is the member's address. `invitation_delivery` is how the last invitation was given out.
alter table members add column proven_email text, add column invitation_delivery text;

-- Emails to members are the installation's: they belong to no app, so that no app's server gets them.
alter table emails alter column app_id drop not null, add column member_id text collate "C",
  add constraint emails_member_fk foreign key (tenant_id, member_id) references members (tenant_id, id) on delete cascade,
  add constraint emails_of_one check (app_id is null or member_id is null);
create index emails_member on emails (tenant_id, member_id) where member_id is not null;

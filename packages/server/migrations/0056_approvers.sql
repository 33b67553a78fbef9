-- Approvers: users whom a policy names to approve what the wallet's owner approves otherwise.

-- Whom a session's policy names; null for nobody. A process of an earlier release knows no such column, so that the row's MAC does
-- not verify there: it would ask the owner alone.
alter table delegated_sessions add column approvers text[];

-- The users whom the document names; null if the owner alone is asked. Then who refused, or whose approval was the last.
alter table approvals add column approvers text[];
alter table approvals add column decided_by text collate "C";
create index approvals_approvers on approvals using gin (approvers) where approvers is not null;

-- The assertion by which each approver approved. Rows are added and removed, never changed.
create table approval_assertions (
  tenant_id text collate "C" not null,
  approval_id text collate "C" not null,
  user_id text collate "C" not null,
  passkey_id text collate "C" not null,
  assertion json not null,
  approved_at timestamptz not null,
  mac bytea,
  primary key (tenant_id, approval_id, user_id),
  constraint approval_assertions_approval_fk foreign key (tenant_id, approval_id) references approvals on delete cascade,
  constraint approval_assertions_user_fk foreign key (tenant_id, user_id) references users on delete cascade
);
create index approval_assertions_user on approval_assertions (tenant_id, user_id);
call count_changes_of('approval_assertions');

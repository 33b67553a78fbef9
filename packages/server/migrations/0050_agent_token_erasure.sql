-- Codes and tokens of agents are deleted with their session, and so with its user, app or tenant.

alter table agent_tokens
  add constraint agent_tokens_session_fk foreign key (tenant_id, delegated_session_id)
  references delegated_sessions on delete cascade not valid;
-- Those of sessions that were deleted before. No others come: the new constraint keeps them out.
delete from agent_tokens t where not exists (
  select from delegated_sessions s where s.tenant_id = t.tenant_id and s.id = t.delegated_session_id);
alter table agent_tokens validate constraint agent_tokens_session_fk;
create index agent_tokens_session on agent_tokens (tenant_id, delegated_session_id);

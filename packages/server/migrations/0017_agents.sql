-- A delegated session is found by its token alone where an agent calls without an API key and reads its own session.
create unique index delegated_sessions_token on delegated_sessions (token_hash);

-- All active sessions of an app are revoked in portions, in the order of their ids.
create index delegated_sessions_active on delegated_sessions (app_id, id) where status = 'active';

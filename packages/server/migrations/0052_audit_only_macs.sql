-- Acts that wait for their entry in the audit log carry a MAC. Processes of the release before write none: such acts count until
-- `halfkey records enforce` has run.
alter table audit_only_entries add column mac bytea;
call count_changes_of('audit_only_entries');

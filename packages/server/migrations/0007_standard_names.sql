-- Tables get the names that the code uses. Through the views a process of the release before runs on this schema during
-- an upgrade; they have `ctid`, by which it takes rows. A later release drops them.
alter table tallies rename to counter_increments;
create view tallies as select ctid, tenant_id, app_id, metric, n, at from counter_increments;

alter table audit_notes rename to audit_only_entries;
alter table audit_only_entries rename constraint audit_notes_pkey to audit_only_entries_pkey;
create view audit_notes as select * from audit_only_entries;

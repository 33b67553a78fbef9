-- The images that an app's pages show to its customers. Apart from the apps, which are read with every call.
create table app_logos (
  tenant_id text collate "C" not null,
  app_id text collate "C" not null,
  png bytea not null,
  primary key (tenant_id, app_id),
  foreign key (tenant_id, app_id) references apps (tenant_id, id) on delete cascade
);

-- Where the hosted pages of an app lead. Apart from how they look, because a changed link would send users to a false page.
alter table apps
  add column brand_links jsonb not null default '{"termsUrl": null, "privacyUrl": null, "supportUrl": null}';

-- What a webhook's requests carry or use beside the signature: own headers, OAuth client credentials, a client certificate.
alter table webhooks
  -- As the API shows it, without secrets. Null: no options.
  add column options jsonb,
  -- All of it with its secrets, as one sealed value. Null: no options.
  add column options_sealed bytea;

/** postgresql.conf: ours first, so that an operator's lines below it (or ALTER SYSTEM) win. */
export function mainSettings(): string {
  return [
    "include 'halfkey.conf'",
    '# Add your own settings below. Halfkey rewrites halfkey.conf, never this file.',
    '',
  ].join('\n')
}

/** halfkey.conf, rewritten at every start; address and port come on the command line. */
export function serverSettings(): string {
  const settings: Record<string, string> = {
    max_connections: '200',
    // The launcher's own connections must find a place when the service's pools have taken all.
    superuser_reserved_connections: '10',
    shared_buffers: '128MB',
    effective_cache_size: '1GB',
    random_page_cost: '1.1',
    jit: 'off',
    // Many small queries; and parallel workers need /dev/shm, of which a container has 64 MB.
    max_parallel_workers_per_gather: '0',
    fsync: 'on',
    synchronous_commit: 'on',
    full_page_writes: 'on',
    wal_compression: 'on',
    checkpoint_timeout: '15min',
    max_wal_size: '2GB',
    autovacuum: 'on',
    // The delivery tables turn over within seconds; a minute's nap would leave them full of dead rows.
    autovacuum_naptime: "'5s'",
    timezone: "'UTC'",
    datestyle: "'iso, mdy'",
    password_encryption: "'scram-sha-256'",
    // No statement, parameter or row detail reaches the log: any of them may hold a secret.
    logging_collector: 'off',
    log_destination: "'stderr'",
    log_line_prefix: "'%m [%p] '",
    log_timezone: "'UTC'",
    log_min_messages: 'warning',
    log_min_error_statement: 'panic',
    log_error_verbosity: 'terse',
    log_statement: "'none'",
    log_min_duration_statement: '-1',
    log_parameter_max_length: '0',
    log_parameter_max_length_on_error: '0',
    log_checkpoints: 'off',
    // A statement whose client was killed ends soon, and with it the locks it holds.
    ...(process.platform === 'win32' ? {} : { client_connection_check_interval: "'5s'" }),
  }
  const lines = Object.entries(settings).map(([name, value]) => `${name} = ${value}`)
  return ['# Halfkey writes this file at every start. Change postgresql.conf instead.', ...lines, ''].join('\n')
}

import { describeConfig, loadConfig } from '../../../config.ts'
import { defineCommand } from '../command.ts'

/** `halfkey config` */
export const config = defineCommand({
  name: 'config',
  summary: 'Print every setting with its value',
  details: 'Reads the environment as the service does and checks it. Secrets are hidden.',
  async run() {
    const settings = describeConfig(loadConfig())
    const lines = settings.map(
      ({ name, value, isDefault }) => `${name.padEnd(32)} ${value ?? '-'}${isDefault ? '  (default)' : ''}`,
    )
    return { data: { settings }, lines }
  },
})

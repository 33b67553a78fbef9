import { createHash } from 'node:crypto'
import { mkdirSync, renameSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { type Entry, entriesOf, writeArchive } from './tar.ts'

const TYPES = {
  index: 'application/vnd.oci.image.index.v1+json',
  manifest: 'application/vnd.oci.image.manifest.v1+json',
  config: 'application/vnd.oci.image.config.v1+json',
  layer: 'application/vnd.oci.image.layer.v1.tar+gzip',
  statement: 'application/vnd.in-toto+json',
} as const

/** https://github.com/opencontainers/image-spec/blob/main/descriptor.md */
export interface Descriptor {
  mediaType: string
  digest: string
  size: number
  platform?: object
  annotations?: Record<string, string>
}

export interface Layer extends Descriptor {
  /** The digest of the layer before compression. */
  diffId: string
}

/** An image layout: a folder of content-addressed files with an index. */
export class Layout {
  readonly folder: string
  readonly #blobs: string

  constructor(folder: string) {
    this.folder = folder
    this.#blobs = join(folder, 'blobs/sha256')
    mkdirSync(this.#blobs, { recursive: true })
    this.#write('oci-layout', { imageLayoutVersion: '1.0.0' })
  }

  #write(name: string, value: object): void {
    writeFileSync(join(this.folder, name), JSON.stringify(value))
  }

  #path(digest: string): string {
    return join(this.#blobs, digest.slice('sha256:'.length))
  }

  #json(mediaType: string, value: object): Descriptor {
    const bytes = Buffer.from(JSON.stringify(value))
    const digest = `sha256:${createHash('sha256').update(bytes).digest('hex')}`
    writeFileSync(this.#path(digest), bytes)
    return { mediaType, digest, size: bytes.length }
  }

  async addLayer(entries: readonly Entry[], seconds: number): Promise<Layer> {
    const draft = join(this.folder, 'draft')
    const { digest, size, diffId } = await writeArchive(draft, entries, { seconds, compress: true })
    renameSync(draft, this.#path(digest))
    return { mediaType: TYPES.layer, digest, size, diffId }
  }

  /** An image of one platform. `config` lacks only the list of layers. */
  addImage(
    config: object,
    platform: object,
    layers: readonly Layer[],
    annotations: Record<string, string>,
  ): Descriptor {
    const rootfs = { type: 'layers', diff_ids: layers.map(({ diffId }) => diffId) }
    const manifest = {
      schemaVersion: 2,
      mediaType: TYPES.manifest,
      config: this.#json(TYPES.config, { ...platform, ...config, rootfs }),
      layers: layers.map(({ mediaType, digest, size }) => ({ mediaType, digest, size })),
      annotations,
    }
    return { ...this.#json(TYPES.manifest, manifest), platform }
  }

  /**
   * Statements about an image, in the form of BuildKit: a manifest of an unknown platform beside the image in the index, so
   * that every tool that copies the index copies them too.
   */
  addStatements(subject: Descriptor, statements: readonly { predicateType: string }[]): Descriptor {
    const layers = statements.map((each) => ({
      ...this.#json(TYPES.statement, each),
      annotations: { 'in-toto.io/predicate-type': each.predicateType },
    }))
    const platform = { os: 'unknown', architecture: 'unknown' }
    const rootfs = { type: 'layers', diff_ids: layers.map(({ digest }) => digest) }
    const manifest = {
      schemaVersion: 2,
      mediaType: TYPES.manifest,
      config: this.#json(TYPES.config, { ...platform, rootfs }),
      layers,
    }
    return {
      ...this.#json(TYPES.manifest, manifest),
      platform,
      annotations: {
        'vnd.docker.reference.type': 'attestation-manifest',
        'vnd.docker.reference.digest': subject.digest,
      },
    }
  }

  /** Makes the index of all platforms, under a tag. @returns its digest, by which the image is named */
  finish(manifests: readonly Descriptor[], tag: string, annotations: Record<string, string>): string {
    const index = this.#json(TYPES.index, { schemaVersion: 2, mediaType: TYPES.index, manifests, annotations })
    const named = { ...index, annotations: { 'org.opencontainers.image.ref.name': tag } }
    this.#write('index.json', { schemaVersion: 2, mediaType: TYPES.index, manifests: [named] })
    return index.digest
  }

  /** The layout as one file, which `skopeo`, `podman load` and `docker load` take. */
  async writeArchive(path: string, seconds: number): Promise<void> {
    await writeArchive(path, entriesOf(this.folder), { seconds, compress: false })
  }
}

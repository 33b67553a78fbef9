import { z } from 'zod'
import { App } from '../schema.ts'

export const BYTES_MAX = 64 * 1024
/** Pixels. */
export const SIDE_MAX = 512

/** Body of POST: the image. */
export const SetLogo = z
  .strictObject({
    png: z
      .base64()
      .max(Math.ceil(BYTES_MAX / 3) * 4)
      .meta({
        description: `A PNG image as base64: at most ${BYTES_MAX / 1024} KiB, and at most ${SIDE_MAX} pixels wide and high.`,
        example: 'iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAIAAACQd1PeAAAADElEQVR4nGNgYGAAAAAEAAH2FzhVAAAAAElFTkSuQmCC',
      }),
  })
  .meta({ id: 'SetLogo' })
export type SetLogo = z.infer<typeof SetLogo>

export const Logo = App.shape.branding.shape.logo
  .unwrap()
  .extend({ png: z.string().meta({ description: 'The image as base64.' }) })
  .meta({ id: 'Logo' })
export type Logo = z.infer<typeof Logo>

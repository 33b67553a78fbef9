import { z } from 'zod'

const Coordinate = z
  .string()
  .regex(/^[A-Za-z0-9_-]{43}$/)
  .meta({ 'x-expected': '32 bytes as base64url without padding' })

/** Strict, so that a private key is refused by its member `d`. */
export const BoundKey = z
  .strictObject({
    kty: z.enum(['OKP', 'EC']),
    crv: z.enum(['Ed25519', 'P-256']),
    x: Coordinate,
    y: Coordinate.optional().meta({ description: 'Only for `P-256`.' }),
    alg: z.string().max(20).optional(),
    use: z.string().max(20).optional(),
    kid: z.string().max(200).optional(),
    ext: z.boolean().optional(),
    key_ops: z.array(z.string().max(20)).max(10).optional(),
  })
  .meta({
    id: 'BoundKey',
    description:
      'A public key as a JWK: Ed25519 (`OKP`) or P-256 (`EC`). Members that say nothing about the key are ignored.',
    example: { kty: 'OKP', crv: 'Ed25519', x: '11qYAYKxCrfVS_7TyWQHOg7hcvPapiMlrwIaaPcHURo' },
  })

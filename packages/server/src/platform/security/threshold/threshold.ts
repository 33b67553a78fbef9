// The threshold keys that clients use too, as a package of their own: here is where the service takes them from.
export * from '../../../../../keys/src/index.ts'

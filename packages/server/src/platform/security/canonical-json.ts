export { canonicalJson } from '../../../../keys/src/canonical-json.ts'

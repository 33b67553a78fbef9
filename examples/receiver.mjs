// The receiver of the quick start: examples/receivers has receivers in four languages.
//   HALFKEY_WEBHOOK_SECRET=whsec_… node examples/receiver.mjs
import './receivers/receiver.mjs'

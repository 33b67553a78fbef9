"""A webhook receiver on the standard library alone: verifies each delivery and prints what happened.

    HALFKEY_WEBHOOK_SECRET=whsec_... python3 examples/receivers/receiver.py

While a secret is being changed, give both, with a comma between them.
"""

import hashlib
import hmac
import json
import os
import re
import sys
import time
from collections import OrderedDict
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from threading import Lock

SECRETS = [secret for secret in os.environ.get("HALFKEY_WEBHOOK_SECRET", "").split(",") if secret]
PORT = int(os.environ.get("PORT", "3000"))
TOLERANCE_SECONDS = 300
BODY_BYTES_MAX = 1024 * 1024

# In production: a table with a unique column, written in the transaction of your own change.
SEEN_MAX = 10_000
seen: "OrderedDict[str, None]" = OrderedDict()
lock = Lock()


def is_genuine(headers, body: bytes) -> bool:
    timestamp = headers.get("X-Service-Timestamp", "")
    if not re.fullmatch(r"[0-9]{1,12}", timestamp):
        return False
    if abs(time.time() - int(timestamp)) > TOLERANCE_SECONDS:
        return False
    # Bytes: a header that is not ASCII must not make the comparison fail in another way.
    given = headers.get("X-Service-Signature", "").encode("utf-8", "replace")
    for secret in SECRETS:
        mac = hmac.new(secret.encode(), timestamp.encode() + b"." + body, hashlib.sha256)
        if hmac.compare_digest(b"sha256=" + mac.hexdigest().encode(), given):
            return True
    return False


def is_new(event_id: str) -> bool:
    """False for an event that was handled before."""
    with lock:
        if event_id in seen:
            return False
        seen[event_id] = None
        if len(seen) > SEEN_MAX:
            seen.popitem(last=False)
        return True


class Receiver(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    timeout = 30

    def answer(self, status: int) -> None:
        self.send_response(status)
        if status != 204:
            self.send_header("Content-Length", "0")
        self.end_headers()

    def do_POST(self) -> None:
        length = self.headers.get("Content-Length", "")
        if not length.isdigit() or int(length) > BODY_BYTES_MAX:
            self.close_connection = True
            return self.answer(400)
        # The bytes as they came: parsing and printing them again would change what was signed.
        body = self.rfile.read(int(length))
        if not is_genuine(self.headers, body):
            print("refused: the signature does not fit", flush=True)
            return self.answer(400)
        # Answer at once, work afterwards: whoever answers late gets the event again.
        self.answer(204)
        event = json.loads(body)
        if not is_new(event["id"]):
            print(f"again: {event['type']} {event['id']}", flush=True)
        else:
            print(f"verified: {event['type']} {event['id']} {json.dumps(event['data'])}", flush=True)

    def log_message(self, *_) -> None:
        """Says nothing of its own."""


if not SECRETS:
    sys.exit("Set HALFKEY_WEBHOOK_SECRET to the `secret` of the webhook's creation.")

server = ThreadingHTTPServer(("127.0.0.1", PORT), Receiver)
print(f"Receiving on http://127.0.0.1:{PORT}/hook", flush=True)
try:
    server.serve_forever()
except KeyboardInterrupt:
    pass

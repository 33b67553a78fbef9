"""A webhook receiver with the standard library only: verifies each delivery and prints what it did.

    HALFKEY_WEBHOOK_SECRET=whsec_... python3 examples/receivers/receiver.py

During a rotation, give both secrets, separated by a comma.
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

# In production, use a table with a unique column. Write to it in the transaction that does the work.
SEEN_MAX = 10_000
seen: "OrderedDict[str, None]" = OrderedDict()
lock = Lock()


def is_genuine(headers, body: bytes) -> bool:
    timestamp = headers.get("X-Service-Timestamp", "")
    if not re.fullmatch(r"[0-9]{1,12}", timestamp):
        return False
    if abs(time.time() - int(timestamp)) > TOLERANCE_SECONDS:
        return False
    # compare_digest raises TypeError for text that is not ASCII, so compare bytes.
    given = headers.get("X-Service-Signature", "").encode("utf-8", "replace")
    for secret in SECRETS:
        mac = hmac.new(secret.encode(), timestamp.encode() + b"." + body, hashlib.sha256)
        if hmac.compare_digest(b"sha256=" + mac.hexdigest().encode(), given):
            return True
    return False


def is_new(event_id: str) -> bool:
    """Return False for an event that was handled before."""
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
        # The bytes as received: parsing and serializing them would change what was signed.
        body = self.rfile.read(int(length))
        if not is_genuine(self.headers, body):
            print("refused: the signature does not match", flush=True)
            return self.answer(400)
        event = json.loads(body)
        # Store the event before you answer: after a 2xx, Halfkey does not send it again.
        # Do long work after the answer.
        if not is_new(event["id"]):
            print(f"duplicate: {event['type']} {event['id']}", flush=True)
        else:
            print(f"verified: {event['type']} {event['id']} {json.dumps(event['data'])}", flush=True)
        self.answer(204)

    def log_message(self, *_) -> None:
        """Print nothing for each request."""


if not SECRETS:
    sys.exit("Set HALFKEY_WEBHOOK_SECRET to the `secret` in the response that created the webhook.")

server = ThreadingHTTPServer(("127.0.0.1", PORT), Receiver)
print(f"Receiving on http://127.0.0.1:{PORT}/hook", flush=True)
try:
    server.serve_forever()
except KeyboardInterrupt:
    pass

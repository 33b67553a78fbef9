"""Verifies deliveries with the Python library of Standard Webhooks.

Standard input: a JSON list of {secret, body, headers}. Standard output: for each, whether it is genuine, and whether it still is with
one more space at its end.
"""

import json
import sys

from standardwebhooks.webhooks import Webhook, WebhookVerificationError


def verifies(webhook, body, headers):
    try:
        webhook.verify(body, headers)
        return True
    except WebhookVerificationError:
        return False


verdicts = []
for each in json.load(sys.stdin):
    webhook = Webhook(each["secret"])
    verdicts.append([verifies(webhook, each["body"] + end, each["headers"]) for end in ("", " ")])
print(json.dumps(verdicts))

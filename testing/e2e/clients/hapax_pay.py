"""Pays through a client of hapax, and tells what came of it."""

import json

from hapax_client import Done, Intent, Refused


def main(send, url, *pairs):
    """``main(send, URL, KEY, PAYMENT, …)``; for an empty KEY the client makes one."""
    for key, payment in zip(pairs[::2], pairs[1::2]):
        print(json.dumps(told(send(intent(url, key, json.loads(payment))))))


def intent(url, key, payment):
    return Intent.post(url, json=payment, key=key or None)


def told(outcome):
    """As a line: one of three things, and its answer if there is one."""
    if isinstance(outcome, Done):
        came, answer = "replayed" if outcome.replayed else "done", outcome.response
    elif isinstance(outcome, Refused):
        came, answer = outcome.why.value, outcome.response
    else:
        came, answer = "unknown", outcome.operation.evidence
    status, body = (0, "") if answer is None else (answer.status, answer.text)
    return {"came": came, "status": status, "body": body}

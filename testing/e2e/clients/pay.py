"""Pays once, whatever becomes of connections: pay.py URL KEY PAYMENT [KEY PAYMENT …]"""

import json
import sys
import time

import requests
from requests.adapters import HTTPAdapter
from urllib3.util import Retry

retry = Retry(
    total=8,
    allowed_methods=None,  # POST too: the key makes it safe
    status_forcelist=[502, 503, 504],
    backoff_factor=0.1,
    backoff_jitter=0.1,
    retry_after_max=5,
    raise_on_status=False,  # the last answer, not an exception
)
session = requests.Session()
for scheme in ["http://", "https://"]:
    session.mount(scheme, HTTPAdapter(max_retries=retry))


def pay(url, key, payment):
    """Sends it until there is an answer. The key is the caller's, made once and kept."""
    for wait in [0.5, 1, 2, 4, 8, None]:
        try:
            answer = session.post(
                url, json=payment, headers={"Idempotency-Key": f'"{key}"'}, timeout=(3, 30)
            )
            # Python takes a head that is cut for a whole one, and what follows for an empty body.
            if answer.content and not (wait and is_in_flight(answer)):
                return answer
            lost = requests.ConnectionError("an answer without a body")
        except requests.RequestException as error:
            # urllib3 does not retry an answer that is cut in its body.
            lost = error
        if wait is None:
            raise lost
        time.sleep(wait)


def is_in_flight(answer):
    """Whether the first request is executed just now. Any other 409 is an answer."""
    is_problem = answer.headers.get("Content-Type") == "application/problem+json"
    return is_problem and answer.json()["type"] == "urn:hapax:problem:in-flight"


def main(url, *pairs):
    for key, payment in zip(pairs[::2], pairs[1::2]):
        answer = pay(url, key, json.loads(payment))
        print(json.dumps({"status": answer.status_code, "body": answer.text}))


if __name__ == "__main__":
    main(*sys.argv[1:])

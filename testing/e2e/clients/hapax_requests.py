"""Pays with hapax_client through requests: hapax_requests.py URL KEY PAYMENT [KEY PAYMENT …]"""

import sys

from hapax_client import Client
from hapax_client.requests_transport import RequestsTransport
from hapax_pay import main

main(Client(RequestsTransport()).send, *sys.argv[1:])

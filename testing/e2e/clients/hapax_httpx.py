"""Pays with hapax_client through httpx: hapax_httpx.py URL KEY PAYMENT [KEY PAYMENT …]"""

import sys

from hapax_client import Client
from hapax_client.httpx_transport import HttpxTransport
from hapax_pay import main

main(Client(HttpxTransport()).send, *sys.argv[1:])

"""The same through httpx in asyncio: hapax_httpx_async.py URL KEY PAYMENT [KEY PAYMENT …]"""

import asyncio
import sys

from hapax_client import AsyncClient
from hapax_client.httpx_transport import AsyncHttpxTransport
from hapax_pay import main

client = AsyncClient(AsyncHttpxTransport())
loop = asyncio.new_event_loop()
main(lambda intent: loop.run_until_complete(client.send(intent)), *sys.argv[1:])

"""A service with idemkit on PostgreSQL that does nothing: one fixed answer."""

import os

from idemkit import IdempotencyMiddleware
from idemkit.backends.postgres import PostgresBackend
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import JSONResponse
from starlette.routing import Route


async def create(request: Request) -> JSONResponse:
    await request.body()
    answer = {"id": "1", "status": "accepted"}
    return JSONResponse(answer, status_code=201, headers={"location": "/payments/1"})


app = Starlette(routes=[Route("/payments", create, methods=["POST"])])
app.add_middleware(IdempotencyMiddleware, backend=PostgresBackend.from_url(os.environ["DATABASE_URL"]))

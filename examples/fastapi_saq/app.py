"""A web API with background jobs, a rate limit and a cache, all kept in one Holdfast file."""

import asyncio
import uuid
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Annotated, Any

import redis
from fastapi import Depends, FastAPI, HTTPException, Request
from fastapi.responses import JSONResponse

import holdfast
from holdfast.client import Client, ClientError
from jobs import URL, queue
from limits import check_limit


@asynccontextmanager
async def lifespan(app: FastAPI) -> AsyncIterator[None]:
    async with holdfast.connect(URL) as client:  # one connection serves all requests
        app.state.client = client
        await queue.connect()
        try:
            yield
        finally:
            await queue.disconnect()


app = FastAPI(lifespan=lifespan)


async def holdfast_client(request: Request) -> Client:
    client: Client = request.app.state.client
    return client


HoldfastClient = Annotated[Client, Depends(holdfast_client)]


async def limited(request: Request, client: HoldfastClient) -> None:
    """At most five reports an hour for one address, over all processes of this app."""
    address = request.client.host if request.client else "unknown"
    await check_limit(client, address, limit=5, window_s=3600)


@app.post("/reports/{city}", status_code=202, dependencies=[Depends(limited)])
async def order_report(city: str) -> dict[str, str]:
    """The job is on disk when this answers."""
    job = await queue.enqueue("write_report", city=city, retries=3, ttl=3600)
    if job is None:
        raise HTTPException(409, "this job exists already")
    return {"job": job.key}


@app.get("/jobs/{key}")
async def show_job(key: str) -> dict[str, Any]:
    job = await queue.job(key)
    if job is None:
        raise HTTPException(404, "no such job, or it ended more than an hour ago")
    return {"status": job.status, "report": job.result}


@app.get("/forecasts/{city}")
async def show_forecast(city: str, client: HoldfastClient) -> dict[str, str]:
    """Read the forecast from the cache, which keeps it for ten minutes. If several requests find
    none, one of them computes it for all."""
    key = f"forecast:{city}"
    forecast = await client.get(key)
    if forecast is None:
        # If the process that computes it dies, another one may compute it after ten seconds.
        async with holdfast.Lock(client, key, heartbeat_max_interval_s=10):
            forecast = await client.get(key)
            if forecast is None:
                forecast = await compute_forecast(city)
                await client.set(key, forecast, ex_s=600)
    return {"forecast": forecast}


async def compute_forecast(city: str) -> str:
    await asyncio.sleep(0.2)  # expensive
    return f"Sunny in {city} (computed as {uuid.uuid4()})"


async def unavailable(request: Request, error: Exception) -> JSONResponse:
    """The server does not answer. Both clients reconnect by themselves."""
    return JSONResponse({"detail": "try again soon"}, 503, {"Retry-After": "1"})


app.add_exception_handler(ClientError, unavailable)
app.add_exception_handler(redis.ConnectionError, unavailable)

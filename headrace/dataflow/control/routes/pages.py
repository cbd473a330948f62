"""The schema of the API, and the page made of it."""

from typing import Any

from fastapi import APIRouter, Request
from fastapi.responses import HTMLResponse

from headrace.dataflow.control.api_page import render

API = "/api"


def routes() -> APIRouter:
    made = APIRouter(include_in_schema=False)

    @made.get(API, response_class=HTMLResponse)
    async def api(request: Request) -> str:
        return render(request.app.openapi())

    @made.get("/openapi.json")
    async def schema(request: Request) -> dict[str, Any]:
        return request.app.openapi()

    return made

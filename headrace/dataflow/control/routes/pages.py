"""What a browser is shown, and the schema of the API."""

from typing import Any

from fastapi import APIRouter, Request
from fastapi.responses import HTMLResponse, RedirectResponse

from headrace.dataflow.control.api_page import render

API = "/api"


def routes() -> APIRouter:
    made = APIRouter(include_in_schema=False)

    @made.get("/")
    async def home() -> RedirectResponse:
        return RedirectResponse(API, status_code=303)

    @made.get(API, response_class=HTMLResponse)
    async def api(request: Request) -> str:
        return render(request.app.openapi())

    @made.get("/openapi.json")
    async def schema(request: Request) -> dict[str, Any]:
        return request.app.openapi()

    return made

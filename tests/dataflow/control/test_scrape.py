"""What Prometheus asks of a launch, and how it finds it."""

import json
from pathlib import Path
from typing import cast

import httpx2
from prometheus_client import CONTENT_TYPE_PLAIN_0_0_4

from headrace.dataflow.control.server import serving
from headrace.dataflow.running.live import Live
from tests.dataflow.control.standing_in import OVERVIEW, Launch


async def test_prometheus_finds_the_launch_and_its_token_in_files_that_go_with_it(tmp_path: Path) -> None:
    run_dir = tmp_path / "copy" / "first"
    run_dir.mkdir(parents=True)
    async with serving(cast(Live, Launch(OVERVIEW)), run_dir):
        (target,) = json.loads((run_dir / "prometheus.json").read_text())
        token = run_dir / "prometheus.token"
        assert target["labels"] == {"run": "copy/first"}
        assert token.stat().st_mode & 0o777 == 0o600
        headers = {"authorization": f"Bearer {token.read_text()}"}
        async with httpx2.AsyncClient(base_url=f"http://{target['targets'][0]}") as client:
            stranger = await client.get("/metrics")
            found = await client.get("/metrics", headers=headers)
            one = await client.get("/metrics/answers", headers=headers)
            none = await client.get("/metrics/scores", headers=headers)
    assert (stranger.status_code, found.status_code, none.status_code) == (401, 200, 404)
    assert (found.text, found.headers["content-type"]) == ("headrace_step 3\n", CONTENT_TYPE_PLAIN_0_0_4)
    assert one.text == "# of answers\n"
    assert list(run_dir.iterdir()) == []

"""A server that is not ready at the start is waited for, and one that has said its last word is not."""

import anyio
import pytest

from informers import ApiError, Forbidden, ServerError, TooManyRequests, Unauthorized, Unreachable
from informers.discovery import UnknownKind
from reconcile.manager.server_readiness import NOT_READY, until_ready
from tests.helpers.scenarios import simulated

NOT_ALL_PATHS = "the request has been made before all known HTTP paths have been installed, please try again"


class Server:
    """Fails as it is told to, so many times; None: for ever."""

    def __init__(self, error: Exception, times: int | None) -> None:
        self.error, self.times, self.asked = error, times, list[float]()

    async def ask(self) -> str:
        self.asked.append(anyio.current_time())
        if self.times is None or len(self.asked) <= self.times:
            raise self.error
        return "ready"


@pytest.mark.rule("start-waits")
@pytest.mark.parametrize(
    "error",
    [
        Unreachable("nothing listens"),
        ServerError(503, "ServiceUnavailable", NOT_ALL_PATHS),
        TooManyRequests(429, "TooManyRequests", "storage is (re)initializing"),
        UnknownKind("no such kind"),
    ],
)
@simulated
async def test_a_server_that_is_not_ready_is_retried_with_one_log_line(
    error: Exception, caplog: pytest.LogCaptureFixture
) -> None:
    server = Server(error, 8)

    assert await until_ready(server.ask, 120, (*NOT_READY, UnknownKind)) == "ready"
    assert anyio.current_time() <= 30
    (line,) = caplog.records
    assert vars(line)["event"] == "waiting for the API server"
    assert vars(line)["error"] == str(error)


@pytest.mark.rule("start-waits")
@pytest.mark.parametrize("seconds", [0, 1, 120])
@simulated
async def test_the_last_error_is_raised_after_the_time_limit(seconds: float) -> None:
    server = Server(Unreachable("nothing listens"), None)
    with pytest.raises(Unreachable):
        await until_ready(server.ask, seconds)
    assert anyio.current_time() == pytest.approx(seconds)
    assert len(server.asked) <= 40


@pytest.mark.parametrize("error", [Unauthorized(401, "", ""), Forbidden(403, "", ""), ValueError("no")])
@simulated
async def test_a_final_error_is_raised_at_once(error: ApiError | ValueError) -> None:
    server = Server(error, None)
    with pytest.raises(type(error)):
        await until_ready(server.ask, 120)
    assert len(server.asked) == 1

"""Authorization of the pages by the API server, with TokenReview and SubjectAccessReview."""

import hashlib
from collections import OrderedDict
from collections.abc import Callable, Mapping
from typing import Any

import anyio
import msgspec
from attrs import define, field

from informers import ApiError, HttpRequest, Transport, error_from_response, get_logger
from informers.api_errors import parsed

# Answers are kept as long as in controller-runtime's filter.
TOKEN_SECONDS = 60.0
ALLOWED_SECONDS = 300.0
REFUSED_SECONDS = 30.0
REMEMBERED = 1000
ASK_SECONDS = 10.0
"""How long a review may take: a page that waits for two of them still answers in time, in words."""

TOKEN_REVIEWS = "/apis/authentication.k8s.io/v1/tokenreviews"
ACCESS_REVIEWS = "/apis/authorization.k8s.io/v1/subjectaccessreviews"

_HEADERS = {"content-type": "application/json", "accept": "application/json"}
_object = msgspec.json.Decoder(dict[str, Any])
_log = get_logger("reconcile.serving")


@define(eq=False)
class _AnswerCache:
    _answers: OrderedDict[Any, tuple[float, Any]] = field(factory=OrderedDict, init=False)

    def get(self, question: Any) -> Any:
        until, answer = self._answers.get(question, (0.0, None))
        return answer if anyio.current_time() < until else None

    def keep(self, question: Any, answer: Any, seconds: float) -> None:
        self._answers[question] = (anyio.current_time() + seconds, answer)
        self._answers.move_to_end(question)
        if len(self._answers) > REMEMBERED:
            self._answers.popitem(last=False)


@define(eq=False)
class PageAuthorizer:
    """Asks the API server behind `transport` (None before it is connected). Keeps and logs no token."""

    transport: Callable[[], Transport | None]
    _users: _AnswerCache = field(factory=_AnswerCache, init=False)
    _verdicts: _AnswerCache = field(factory=_AnswerCache, init=False)

    async def status_for(self, authorization: str, verb: str, path: str, *, fresh: bool = False) -> int:
        """200; 401 without a valid bearer token; 403 without the right to `verb` `path`; else 503.

        `fresh`: by answers of now, not by those that are remembered.
        """
        scheme, _, token = authorization.partition(" ")
        token = token.strip()
        if scheme.lower() != "bearer" or not token or not token.isascii():
            return 401
        try:
            user = await self._user_of(token, fresh)
            if not user:
                return 401
            return 200 if await self._may(user, verb, path, fresh) else 403
        except ApiError as error:
            _log.warning("could not authorize a request for a page", path=path, error=str(error))
            return 503

    async def _user_of(self, token: str, fresh: bool) -> Mapping[str, Any]:
        place = hashlib.sha256(token.encode()).digest()
        known: Mapping[str, Any] | None = None if fresh else self._users.get(place)
        if known is None:
            review = {
                "apiVersion": "authentication.k8s.io/v1",
                "kind": "TokenReview",
                "spec": {"token": token},
            }
            status = await self._ask(TOKEN_REVIEWS, review)
            known = status.get("user") or {} if status.get("authenticated") else {}
            self._users.keep(place, known, TOKEN_SECONDS)
        return known

    async def _may(self, user: Mapping[str, Any], verb: str, path: str, fresh: bool) -> bool:
        subject = {
            "user": user.get("username", ""),
            "uid": user.get("uid", ""),
            "groups": user.get("groups") or [],
            "extra": user.get("extra") or {},
        }
        spec = {**subject, "nonResourceAttributes": {"verb": verb, "path": path}}
        place = msgspec.json.encode(spec, order="deterministic")
        known: bool | None = None if fresh else self._verdicts.get(place)
        if known is None:
            review = {"apiVersion": "authorization.k8s.io/v1", "kind": "SubjectAccessReview", "spec": spec}
            known = bool((await self._ask(ACCESS_REVIEWS, review)).get("allowed"))
            self._verdicts.keep(place, known, ALLOWED_SECONDS if known else REFUSED_SECONDS)
        return known

    async def _ask(self, path: str, review: Mapping[str, Any]) -> Mapping[str, Any]:
        transport = self.transport()
        if transport is None:
            raise ApiError("not connected yet")
        request = HttpRequest("POST", path, {}, _HEADERS, msgspec.json.encode(review))
        try:
            with anyio.fail_after(ASK_SECONDS):
                answer = await transport.request(request)
        except TimeoutError:
            raise ApiError(f"POST {path}: no answer within {ASK_SECONDS:g} s") from None
        if answer.status >= 400:
            raise error_from_response(answer.status, answer.headers, answer.body, f"POST {path}")
        return parsed(_status_in, answer.body, f"POST {path}")


def _status_in(answer: bytes) -> Mapping[str, Any]:
    return dict(_object.decode(answer).get("status") or {})

"""What a failed exchange means for a request: whether the server can have acted on it, and what to do."""

import ssl

from informers.api_errors import OutcomeUnknown, TransportError, Unreachable
from informers.cluster_connection import ClusterConnection
from informers.http import HttpFailure, NotConnected, NotHttp, Origin, Stage, TooLate


def explained(
    failure: HttpFailure,
    request: str,
    connection: ClusterConnection,
    connect_seconds: float,
    answer_seconds: float,
) -> TransportError:
    """The transport's error for a failure of `request`, with the limits that it had."""
    match failure:
        case NotConnected():
            return Unreachable(_why_not_connected(failure, connection, connect_seconds), request)
        case TooLate():
            problem = f"no whole answer within {answer_seconds:g} s"
        case NotHttp():
            problem = f"the answer is not HTTP: {failure}"
        case _:
            problem = f"the connection was cut before the answer was whole: {failure}"
    return OutcomeUnknown(problem, request)


def _why_not_connected(failure: NotConnected, connection: ClusterConnection, seconds: float) -> str:
    context, origin, cause = connection.context, Origin.of(connection.server), failure.cause
    match failure.stage:
        case Stage.LOOK_UP:
            return (
                f"there is no host {origin.host}: check the server of context {context}, "
                "and whether a VPN is needed"
            )
        case Stage.PROXY:
            return (
                f"the proxy does not answer: {failure}. "
                "Check the kubeconfig's proxy-url, or HTTPS_PROXY and NO_PROXY"
            )
        case Stage.REFUSED_BY_PROXY:
            return f"the proxy refused: {failure}"
        case Stage.TIME:
            return (
                f"no connection within {seconds:g} s: is the server up, and is a firewall or VPN in the way?"
            )
        case Stage.TLS if reason := _why_not_trusted(cause):
            return (
                f"the server's certificate is not to be trusted: {reason}. If it is the right server, "
                f"the certificate-authority of context {context} is not the one that signed it"
            )
        case Stage.TLS:
            return f"no TLS: {failure}. Is it an https server, and is our certificate the one it wants?"
        case Stage.CLOSED:
            return "this transport was closed"
        case Stage.CONNECT if isinstance(cause, ConnectionRefusedError):
            return (
                f"nothing listens at {origin.host}:{origin.port}: "
                f"is the API server of context {context} running?"
            )
        case Stage.CONNECT:
            return f"no connection: {failure}"


def _why_not_trusted(cause: BaseException | str) -> str:
    """What is wrong with the server's certificate, if that is why."""
    if not isinstance(cause, ssl.CertificateError):
        return ""
    return getattr(cause, "verify_message", "") or str(cause)

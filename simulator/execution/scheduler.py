"""Scheduler: a connection to one of Dask, whose workers run the same program."""

import asyncio
import importlib.util
import logging
from collections.abc import Iterator, Mapping
from concurrent.futures import CancelledError
from contextlib import contextmanager
from importlib.metadata import PackageNotFoundError, version
from typing import TYPE_CHECKING, Any, Final

from simulator.documents import DocumentError, Mistake, shown

if TYPE_CHECKING:  # an extra, and slow to import
    from distributed import Client

OPTION: Final = "--scheduler"
PACKAGE: Final = "blockcast"
EXAMPLE: Final = "tcp://HOST:PORT"
MOST_PORT: Final = 65_535
MOST_TOLD: Final = 5
"""Workers in a message."""
LOGGERS: Final = ("distributed", "distributed.client", "tornado", "tornado.application", "asyncio")
"""They write to standard error what a DocumentError says."""


@contextmanager
def client_of(address: str, timeout_s: float) -> Iterator["Client"]:
    """A client of the scheduler at *address*, all of whose workers have this very version.

    Raises DocumentError when it does not answer within *timeout_s* or has no worker by then, when
    it or a worker has another version of blockcast or none, and when Dask is not installed.
    """
    if importlib.util.find_spec("distributed") is None:
        what = "distributed is not installed; pip install 'blockcast[cluster]'"
        raise refusal(what)
    with _silence(), _connection(address, timeout_s) as client:
        with told_when_gone(address):
            _wait_for_a_worker(client, address, timeout_s)
            _check_versions(client)
        yield client


@contextmanager
def told_when_gone(address: str) -> Iterator[None]:
    """Whatever Dask raises inside when its scheduler is not there any more is a DocumentError."""
    from distributed.client import ClosedClientError  # noqa: PLC0415 (slow to import)

    try:
        yield
    except (OSError, CancelledError, RuntimeError, ClosedClientError) as error:
        raise gone(address) from error


def gone(address: str) -> DocumentError:
    """The scheduler has died, or the way to it."""
    return refusal(
        f"the scheduler at {address} is gone; what is finished stays, and --resume goes on from it"
    )


def refusal(what: str) -> DocumentError:
    """A DocumentError about the scheduler."""
    return DocumentError(OPTION, [Mistake("", what)])


@contextmanager
def _connection(address: str, timeout_s: float) -> Iterator["Client"]:
    """A client with a loop of its own, which ends whatever becomes of the client."""
    from distributed.utils import LoopRunner  # noqa: PLC0415 (slow to import)

    _check_address(address)
    runner = LoopRunner()
    runner.start()
    try:
        client = _connected(address, timeout_s, runner.loop)
        try:
            yield client
        finally:
            client.close(timeout=timeout_s)
    finally:
        runner.stop()


def _connected(address: str, timeout_s: float, loop: Any) -> "Client":  # noqa: ANN401 (of Tornado)
    from distributed import Client  # noqa: PLC0415 (slow to import)

    try:
        greeting = _greet(address, timeout_s)
        asyncio.run_coroutine_threadsafe(greeting, loop.asyncio_loop).result()
        return Client(address, timeout=timeout_s, loop=loop, set_as_default=False)
    except (OSError, ValueError, TypeError, RuntimeError, ImportError) as error:
        what = f"no scheduler answers at {address} within {timeout_s:g} s"
        raise refusal(what) from error


async def _greet(address: str, timeout_s: float) -> None:
    """Raise TimeoutError unless somebody greets back: a client would wait for ever."""
    from distributed.comm.core import connect  # noqa: PLC0415 (slow to import)
    from distributed.security import Security  # noqa: PLC0415

    options = Security().get_connection_args("client")
    way = await asyncio.wait_for(connect(address, timeout=timeout_s, **options), timeout_s)
    await way.close()


def _check_address(address: str) -> None:
    from distributed.comm.addressing import get_address_host_port  # noqa: PLC0415 (slow to import)

    try:
        host, port = get_address_host_port(address)
    except ValueError as error:
        what = f"{shown(address)} is no address of a scheduler, as {EXAMPLE}: {error}"
        raise refusal(what) from error
    if not host or not 0 < port <= MOST_PORT:
        rule = f"a host, and a port from 1 to {MOST_PORT}"
        what = f"{shown(address)} is no address of a scheduler, as {EXAMPLE}: {rule}"
        raise refusal(what)


def _wait_for_a_worker(client: "Client", address: str, timeout_s: float) -> None:
    try:
        client.wait_for_workers(1, timeout=timeout_s)
    except TimeoutError as error:
        start = f"start some with: dask worker {address} --nthreads 1"
        what = f"the scheduler at {address} has no worker after {timeout_s:g} s; {start}"
        raise refusal(what) from error


def _check_versions(client: "Client") -> None:
    """Ask the scheduler, which reads every task on its way, and every worker."""
    wanted = version(PACKAGE)
    there = client.run(version, PACKAGE, on_error="return")
    _check_each({f"the worker at {worker}": said for worker, said in there.items()}, wanted)
    _check_each({"the scheduler": _of_scheduler(client)}, wanted)


def _of_scheduler(client: "Client") -> Any:  # noqa: ANN401 (what it says)
    try:
        return client.run_on_scheduler(version, PACKAGE)
    except PackageNotFoundError as error:
        return error


def _check_each(there: Mapping[str, object], wanted: str) -> None:
    """Raise DocumentError for whoever said another version than *wanted*."""
    wrong = [(who, said) for who, said in there.items() if said != wanted]
    if not wrong:
        return
    told = [Mistake("", f"{who} {_words(said)}, not {wanted}") for who, said in wrong[:MOST_TOLD]]
    if len(wrong) > MOST_TOLD:
        told.append(Mistake("", f"and {len(wrong) - MOST_TOLD} more like that"))
    raise DocumentError(OPTION, told)


def _words(said: object) -> str:
    if isinstance(said, PackageNotFoundError):
        return f"has no {PACKAGE}"
    return f"has {PACKAGE} {said}" if isinstance(said, str) else f"does not answer ({said})"


@contextmanager
def _silence() -> Iterator[None]:
    """No line of Dask's own on standard error."""
    import distributed  # noqa: F401, PLC0415 (sets the levels that are set here)

    loggers = [logging.getLogger(name) for name in LOGGERS]
    before = [logger.level for logger in loggers]
    for logger in loggers:
        logger.setLevel(logging.CRITICAL + 1)
    try:
        yield
    finally:
        for logger, level in zip(loggers, before, strict=True):
            logger.setLevel(level)

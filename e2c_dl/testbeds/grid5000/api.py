"""The REST API of Grid'5000 by its own client: every call ends, and what goes wrong is one line.

::

    limited(client)                      any client of python-grid5000, EnOSlib's among them: time-outs, few retries
    Api(account).get("/sites")           JSON, or TestbedError; InputError where the account is refused
    Api(account).jobs(site, name)        those that are not over
"""

from __future__ import annotations

import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any

from e2c_dl.errors import InputError, TestbedError
from e2c_dl.testbeds.grid5000.account import FILE, Account

BEGINNING = frozenset({"waiting", "hold", "tolaunch", "toackreservation", "launching", "resuming", "suspended"})
RUNNING = "running"
"""States of a job, in lower case; in all others it is over, or about to be."""
_LISTED = "waiting,hold,tolaunch,toackreservation,launching,running,suspended,resuming"

ANSWERS_TRIED = 2  # of reading what fails; writing is never tried again: two jobs might come of it
_PAUSE_S = 1.0
GONE_WITHIN_S = 60.0


def limited(client: Any) -> Any:
    """``client``, whose reading calls are tried again at most so often; its time-out it has from the account.

    Its own way is five retries of each, also of those that took the whole time-out.
    """
    from requests.adapters import HTTPAdapter
    from urllib3.util.retry import Retry

    retry = Retry(
        total=ANSWERS_TRIED, connect=ANSWERS_TRIED, read=1, backoff_factor=0.3, status_forcelist=(500, 502, 503, 504)
    )
    for scheme in ("http://", "https://"):
        client.session.mount(scheme, HTTPAdapter(max_retries=retry))
    return client


@contextmanager
def telling(doing: str) -> Iterator[None]:
    """While in it, what a client raises, or an answer of another form does, is one line.

    Raises: InputError, if the account is refused; TestbedError.
    """
    from grid5000.exceptions import Grid5000Error
    from requests.exceptions import RequestException

    try:
        yield
    except (Grid5000Error, RequestException, ValueError, KeyError, AttributeError, TypeError) as error:
        raise refused(error, doing) from error


def refused(error: BaseException, doing: str) -> TestbedError | InputError:
    """What ``error`` of a client, or of an answer that it could not read, says."""
    from requests.exceptions import ConnectionError as NoConnection
    from requests.exceptions import JSONDecodeError, RetryError, Timeout

    said = " ".join(str(error).split())
    if getattr(error, "response_code", None) == 401:
        return InputError(f"Grid'5000 refuses the account (401, {doing}); correct username and password in ~/{FILE}")
    if isinstance(error, Timeout) or "timed out" in said:
        why = "did not answer in time; see www.grid5000.fr/status, or write a longer timeout: into ~/" + FILE
    elif isinstance(error, (JSONDecodeError, KeyError, AttributeError, TypeError)) or "Failed to parse" in said:
        why = f"answered what nobody understands ({type(error).__name__}: {said[:120]})"
    elif isinstance(error, RetryError):
        why = "answers with errors of its own again and again; see www.grid5000.fr/status"
    elif isinstance(error, NoConnection):
        why = f"cannot be reached ({said[-120:]})"
    else:
        why = said[:300]
    return TestbedError(f"Grid'5000's API, {doing}: {why}")


def gpus_of(node: Mapping[str, object]) -> int:
    """How many GPUs the API describes of a node."""
    cards = node.get("gpu_devices")
    return len(cards) if isinstance(cards, (dict, list)) else 0


class Api:
    """Grid'5000 as ``account`` sees it. Tests give their own server's address in the account's ``uri``.

    Raises: TestbedError: its client is not installed.
    """

    def __init__(self, account: Account) -> None:
        try:
            from grid5000 import Grid5000  # here: with requests it takes a third of a second
        except ImportError as error:
            raise TestbedError("python-grid5000 is not installed; pip install 'e2c_dl[deploy]'") from error
        self.account = account
        self._client = limited(Grid5000(**account.settings))

    def get(self, path: str, doing: str, query: Mapping[str, str] | None = None) -> Any:
        """What stands at ``path``. Raises: InputError, TestbedError."""
        with telling(doing):
            found = self._client.http_get(path, query_data=dict(query or {}))
            if not isinstance(found, (dict, list)):
                raise TypeError("no JSON")
            return found

    def items(self, path: str, doing: str, query: Mapping[str, str] | None = None) -> list[Mapping[str, Any]]:
        """The list at ``path``. Raises: InputError, TestbedError."""
        found = self.get(path, doing, query)
        with telling(doing):
            return list(found["items"] if isinstance(found, dict) else found)

    def sites(self, clusters: Sequence[str]) -> dict[str, str]:
        """Cluster -> site, of those of ``clusters`` that there are. Raises: InputError, TestbedError."""
        found: dict[str, str] = {}
        excluded = self.account.settings.get("excluded_sites") or ()
        with telling("looking for clusters"):
            for site in (str(each["uid"]) for each in self.items("/sites", "listing sites")):
                if site not in excluded and not found.keys() >= set(clusters):
                    there = self.items(f"/sites/{site}/clusters", f"listing clusters of {site}")
                    found |= {str(each["uid"]): site for each in there if each["uid"] in clusters}
        return found

    def nodes(self, site: str, cluster: str) -> list[Mapping[str, Any]]:
        """What every node of ``cluster`` is."""
        return self.items(f"/sites/{site}/clusters/{cluster}/nodes", f"listing nodes of {cluster}")

    def metrics(self, site: str, cluster: str) -> frozenset[str]:
        """Names of what is measured of its nodes."""
        doing = f"what is measured on {cluster}"
        with telling(doing):
            found = self.get(f"/sites/{site}/clusters/{cluster}", doing)
            return frozenset(str(each["name"]) for each in found.get("metrics") or ())

    def jobs(self, site: str, name: str) -> list[int]:
        """Ids of the account's jobs of that name that are not over."""
        query = {"name": name, "state": _LISTED, "user": self.account.user}
        with telling(f"listing jobs of {site}"):
            return [int(job["uid"]) for job in self.items(f"/sites/{site}/jobs", f"listing jobs of {site}", query)]

    def job(self, site: str, uid: int) -> Mapping[str, Any]:
        """All that is known of a job; ``state`` is in lower case. Raises: InputError, TestbedError."""
        doing = f"asking for job {uid} of {site}"
        found = self.get(f"/sites/{site}/jobs/{uid}", doing)
        with telling(doing):
            return {**found, "state": str(found["state"]).lower()}

    def delete(self, site: str, uid: int) -> None:
        """Returns once the job is over. Raises: InputError, TestbedError: it is not, or that cannot be known."""
        from grid5000.exceptions import Grid5000Error

        doing = f"deleting job {uid} of {site}"
        with telling(doing):
            try:
                self._client.http_delete(f"/sites/{site}/jobs/{uid}")
            except Grid5000Error as error:
                if "already killed" not in str(error):  # OAR's word for a job that is over, or ending
                    raise
        begun_s = time.monotonic()
        while (state := self.job(site, uid)["state"]) in BEGINNING | {RUNNING}:
            if time.monotonic() - begun_s > GONE_WITHIN_S:
                raise TestbedError(f"job {uid} of {site} was deleted, but is still {state} after {GONE_WITHIN_S:g} s")
            time.sleep(_PAUSE_S)  # OAR ends it in its own time

"""Where the hub has a file just now. Imported by the process that fetches, as `transfer` is."""

from __future__ import annotations

from urllib.parse import urlsplit

from huggingface_hub import get_hf_file_metadata, hf_hub_url
from huggingface_hub.utils import build_hf_headers  # type: ignore[attr-defined]

from engine.hub.download.cache import blob_name
from engine.hub.messages import Fetch
from engine.hub.remote.faults import Fault
from engine.hub.remote.listing import RemoteFile
from engine.hub.remote.trouble import refuse


class HubFiles:
    """The files of a job as its hub has them.

    Args:
        asked: what to fetch, and how to get to the hub.
        timeout_s: without an answer.
    """

    def __init__(self, asked: Fetch, timeout_s: float) -> None:
        self._access, self._job, self._timeout_s = asked.access, asked.job, timeout_s

    def find(self, file: RemoteFile) -> tuple[str, dict[str, str]]:
        """Its address, and what to say there; a token is for the hub alone.

        Raises:
            HubError: it is another file now than the one that was listed, or no hub answers.
        """
        job, token = self._job, self._access.token or False
        url = hf_hub_url(job.repo, file.path, revision=job.revision, endpoint=self._access.endpoint)
        found = get_hf_file_metadata(url, token=token, timeout=self._timeout_s)
        if found.commit_hash is None or found.etag is None:
            raise refuse(Fault.UNREADABLE, f"{url}: not what a hub answers")
        as_listed = (job.revision, blob_name(file))
        if (found.commit_hash, found.etag) != as_listed or found.size not in (None, file.nbytes):
            said = f"commit {found.commit_hash}, etag {found.etag}, {found.size} bytes"
            raise refuse(Fault.CHANGED, f"{file.path}: {said}")
        at_hub = urlsplit(found.location)[:2] == urlsplit(url)[:2]
        headers = build_hf_headers(token=token if at_hub else False)
        return found.location, {**headers, "Accept-Encoding": "identity"}

"""What the log says about GPUs: each thing once, however many readers come and go."""

from __future__ import annotations

import logging

from gpuwait.gpu.protocol import Message

log = logging.getLogger(__name__)

#: Things remembered as said; a driver that makes up texts must not grow us.
MOST = 4096


class News:
    """Logs what messages bring. Used by one thread."""

    def __init__(self) -> None:
        self._told: set[tuple[str, ...]] = set()

    def tell(self, message: Message) -> None:
        """Log critical errors and calls that give nothing, those of one message together."""
        uuids = {str(device.index): device.uuid for device in message.devices}
        for uuid, xid in message.xids:
            if self._new("xid", uuid, str(xid)):
                log.warning(
                    "critical error (XID) %d on GPU %s; more of this kind are only counted", xid, uuid
                )
        missing: dict[tuple[str, str], list[str]] = {}
        for gpu, call, why in message.notes:
            if self._new("note", uuids.get(gpu, gpu), call, why):
                missing.setdefault((gpu, why), []).append(call)
        for (gpu, why), calls in missing.items():
            log.info("GPU %s: %s: %s", gpu or "driver", why, " ".join(calls))
        for device in message.devices:
            if device.up is False and self._new("lost", str(device.index), device.uuid):
                name = f"{device.index} {device.uuid}".rstrip()
                log.warning("GPU %s is lost or has to be reset", name)
            elif device.up:
                self._told.discard(("lost", str(device.index), device.uuid))

    def _new(self, *what: str) -> bool:
        if what in self._told or len(self._told) >= MOST:
            return False
        self._told.add(what)
        return True

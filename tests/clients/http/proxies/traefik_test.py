"""Traefik in front of an application, by the files of examples/traefik; skipped where there is no `traefik`."""

from __future__ import annotations

import unittest

import every_proxy


class TraefikTest(every_proxy.EveryProxy):
    name = "traefik"
    command = ["traefik", "--configFile=traefik.yaml"]
    shows_allowed = False
    passes_body = True
    gone_status = 500
    silent_status = 500
    open_edits = None
    waits_for_body = True  # as Go's servers do
    unknown_profile_status = 404


if __name__ == "__main__":
    unittest.main()

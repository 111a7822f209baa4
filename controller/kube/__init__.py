"""Everything that talks to the Kubernetes API: objects, status patches, events, the lease, the permissions.

Imports `controller.api` and nothing else of this project, so that each part can be driven against a bare HTTP server.
"""

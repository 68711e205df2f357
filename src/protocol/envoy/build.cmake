# What the client library has of the folder.
list(APPEND sluice_client_sources src/protocol/envoy/client_dialect.cc)

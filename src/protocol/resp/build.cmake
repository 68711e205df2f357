# What the client library has of the folder.
list(APPEND sluice_client_sources src/protocol/resp/client_dialect.cc)

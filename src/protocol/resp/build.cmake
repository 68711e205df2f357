# Sources of this folder that are in the client library.
list(APPEND sluice_client_sources src/protocol/resp/client_dialect.cc)

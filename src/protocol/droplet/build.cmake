# Sources of this folder that are in the client library.
list(APPEND sluice_client_sources src/protocol/droplet/client_dialect.cc src/protocol/droplet/message.cc)

# What the client library has of the folder.
list(APPEND sluice_client_sources src/protocol/droplet/client_dialect.cc src/protocol/droplet/message.cc)

# The example policy is part of the program, so that it can show itself without a file.
sluice_embed(sluice_protocol_divvy divvy example examples/example-config.ini)

# What the client library has of the folder.
list(APPEND sluice_client_sources src/protocol/divvy/client_dialect.cc src/protocol/divvy/line.cc
     src/policy/text.cc)
